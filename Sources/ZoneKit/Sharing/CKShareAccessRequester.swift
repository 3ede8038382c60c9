public import Foundation
import Synchronization
import Wire

/// A person who requests access to a share; also available as `CKShare.AccessRequester`.
///
/// To grant access, add a participant for their `participantLookupInfo` and save the share.
public final class CKShareAccessRequester: NSObject, NSSecureCoding, NSCopying, Sendable {
    let identity: ClientIdentity
    private let callerName: String?

    init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// The identity of the person.
    public var userIdentity: CKUserIdentity { CKUserIdentity(identity, callerName: callerName) }

    /// The lookup information to pass to `CKContainer.shareParticipants(for:)`.
    public var participantLookupInfo: CKUserIdentity.LookupInfo {
        CKUserIdentity.LookupInfo(userRecordID: CKRecord.ID(recordName: identity.userRecordName ?? ""))
    }

    /// Creates a requester from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let identity = coder.object(CKUserIdentity.self, "Identity") else { return nil }
        self.init(identity.identity, callerName: coder.text("Caller"))
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the identity.
    public func encode(with coder: NSCoder) {
        coder.encode(userIdentity, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two requesters are the same user.
    public override func isEqual(_ object: Any?) -> Bool {
        (object as? CKShareAccessRequester)?.identity.userRecordName == identity.userRecordName
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { identity.userRecordName.hashValue }
}

/// A person who is blocked from requesting access to a share; also available as `CKShare.BlockedIdentity`.
public final class CKShareBlockedIdentity: NSObject, NSSecureCoding, NSCopying, Sendable {
    let identity: ClientIdentity
    private let callerName: String?

    init(_ identity: ClientIdentity, callerName: String?) {
        self.identity = identity
        self.callerName = callerName
    }

    /// The identity of the person.
    public var userIdentity: CKUserIdentity { CKUserIdentity(identity, callerName: callerName) }

    /// Creates a blocked identity from the output of `encode(with:)`.
    public convenience init?(coder: NSCoder) {
        guard let identity = coder.object(CKUserIdentity.self, "Identity") else { return nil }
        self.init(identity.identity, callerName: coder.text("Caller"))
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the identity.
    public func encode(with coder: NSCoder) {
        coder.encode(userIdentity, forKey: "Identity")
        if let callerName { coder.encode(callerName as NSString, forKey: "Caller") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two identities are the same user.
    public override func isEqual(_ object: Any?) -> Bool {
        (object as? CKShareBlockedIdentity)?.identity.userRecordName == identity.userRecordName
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { identity.userRecordName.hashValue }
}

extension CKShare {
    /// A person who requests access.
    public typealias AccessRequester = CKShareAccessRequester
    /// A person who is blocked from requesting access.
    public typealias BlockedIdentity = CKShareBlockedIdentity

    /// Whether people with the URL who are not invited may request access.
    ///
    /// While it is `false`, the relay does not reveal to them that the share exists. Only the owner and administrators
    /// can change it. Takes effect when the share is saved.
    public var allowsAccessRequests: Bool {
        get { sharing.withLock { $0.requests.isAllowed ?? $0.known?.accessRequests.isAllowed ?? false } }
        set { sharing.withLock { $0.requests.isAllowed = newValue } }
    }

    /// The people who have requested access, visible to the owner and administrators.
    public var requesters: [AccessRequester] {
        sharing.withLock { state in
            let gone = Set(state.requests.denied + state.requests.blocked)
            return (state.known?.accessRequests.requesters ?? [])
                .filter { !gone.contains($0.userRecordName ?? "") }
                .map { AccessRequester($0, callerName: state.caller?.recordName) }
        }
    }

    /// The people who are blocked from requesting access, visible to the owner and administrators.
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

    /// Denies requests for access.
    ///
    /// The people may ask again. Takes effect when the share is saved.
    public func denyRequesters(_ requesters: [AccessRequester]) {
        let names = requesters.compactMap(\.identity.userRecordName)
        sharing.withLock { $0.requests.denied += names }
    }

    /// Blocks people from requesting access, and removes those who are already participants.
    ///
    /// Takes effect when the share is saved.
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

    /// Allows people to request access again.
    ///
    /// Takes effect when the share is saved.
    public func unblockIdentities(_ blockedIdentities: [BlockedIdentity]) {
        let names = blockedIdentities.compactMap(\.identity.userRecordName)
        sharing.withLock { state in
            state.requests.unblocked += names
            state.requests.blocked.removeAll { names.contains($0) }
        }
    }
}
