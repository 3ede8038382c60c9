public import Foundation
import Synchronization
import Wire

/// Somebody who asks for access to a share; known to programs as `CKShare.AccessRequester`.
///
/// To let them in, add a participant for their `participantLookupInfo` and save the share.
public final class CKShareAccessRequester: NSObject, NSSecureCoding, NSCopying, Sendable {
    let identity: ClientIdentity
    private let callerName: String?

    init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// Who asks.
    public var userIdentity: CKUserIdentity { CKUserIdentity(identity, callerName: callerName) }

    /// By what `CKContainer.shareParticipants(for:)` finds them.
    public var participantLookupInfo: CKUserIdentity.LookupInfo {
        CKUserIdentity.LookupInfo(userRecordID: CKRecord.ID(recordName: identity.userRecordName ?? ""))
    }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let identity = coder.object(CKUserIdentity.self, "Identity") else { return nil }
        self.init(identity.identity, callerName: coder.text("Caller"))
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes who it is.
    public func encode(with coder: NSCoder) {
        coder.encode(userIdentity, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// Itself: nothing in it changes.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when they are the same person.
    public override func isEqual(_ object: Any?) -> Bool {
        (object as? CKShareAccessRequester)?.identity.userRecordName == identity.userRecordName
    }

    /// As equality asks.
    public override var hash: Int { identity.userRecordName.hashValue }
}

/// Somebody who may not ask for access to a share any more; known to programs as `CKShare.BlockedIdentity`.
public final class CKShareBlockedIdentity: NSObject, NSSecureCoding, NSCopying, Sendable {
    let identity: ClientIdentity
    private let callerName: String?

    init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// Who it is.
    public var userIdentity: CKUserIdentity { CKUserIdentity(identity, callerName: callerName) }

    /// Reads what `encode(with:)` wrote.
    public convenience init?(coder: NSCoder) {
        guard let identity = coder.object(CKUserIdentity.self, "Identity") else { return nil }
        self.init(identity.identity, callerName: coder.text("Caller"))
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes who it is.
    public func encode(with coder: NSCoder) {
        coder.encode(userIdentity, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// Itself: nothing in it changes.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when they are the same person.
    public override func isEqual(_ object: Any?) -> Bool {
        (object as? CKShareBlockedIdentity)?.identity.userRecordName == identity.userRecordName
    }

    /// As equality asks.
    public override var hash: Int { identity.userRecordName.hashValue }
}

extension CKShare {
    /// Somebody who asks for access.
    public typealias AccessRequester = CKShareAccessRequester
    /// Somebody who may not ask any more.
    public typealias BlockedIdentity = CKShareBlockedIdentity

    /// Whether somebody with the link who is not invited may ask to be; a change counts when the share is saved.
    ///
    /// While it is not so, somebody who asks is not even told that there is a share. Only the owner and administrators can
    /// change it.
    public var allowsAccessRequests: Bool {
        get { sharing.withLock { $0.requests.isAllowed ?? $0.known?.accessRequests.isAllowed ?? false } }
        set { sharing.withLock { $0.requests.isAllowed = newValue } }
    }

    /// Who has asked and waits, as the owner and administrators see it.
    public var requesters: [AccessRequester] {
        sharing.withLock { state in
            let gone = Set(state.requests.denied + state.requests.blocked)
            return (state.known?.accessRequests.requesters ?? [])
                .filter { !gone.contains($0.userRecordName ?? "") }
                .map { AccessRequester($0, callerName: state.caller?.recordName) }
        }
    }

    /// Who may not ask any more, as the owner and administrators see it.
    public var blockedIdentities: [BlockedIdentity] {
        sharing.withLock { state in
            let freed = Set(state.requests.unblocked)
            let known = state.known?.accessRequests ?? ClientShare.AccessRequests()
            let met = known.requesters + (state.known?.participants.map(\.identity) ?? [])
            let added = state.requests.blocked.map { name in
                met.first { $0.userRecordName == name } ?? ClientIdentity(userRecordName: name)
            }
            return (known.blocked.filter { !freed.contains($0.userRecordName ?? "") } + added)
                .map { BlockedIdentity($0, callerName: state.caller?.recordName) }
        }
    }

    /// Says no; they may ask again.
    ///
    /// Counts when the share is saved.
    public func denyRequesters(_ requesters: [AccessRequester]) {
        let names = requesters.compactMap(\.identity.userRecordName)
        sharing.withLock { $0.requests.denied += names }
    }

    /// Says no for good, and puts out whoever is in already.
    ///
    /// Counts when the share is saved.
    public func blockRequesters(_ requesters: [AccessRequester]) {
        let names = requesters.compactMap(\.identity.userRecordName)
        sharing.withLock { state in
            state.requests.blocked += names
            state.requests.unblocked.removeAll { names.contains($0) }
        }
        for name in names {
            participants.filter { $0.wire.identity.userRecordName == name }.forEach(removeParticipant)
        }
    }

    /// Lets them ask again.
    ///
    /// Counts when the share is saved.
    public func unblockIdentities(_ blockedIdentities: [BlockedIdentity]) {
        let names = blockedIdentities.compactMap(\.identity.userRecordName)
        sharing.withLock { state in
            state.requests.unblocked += names
            state.requests.blocked.removeAll { names.contains($0) }
        }
    }
}
