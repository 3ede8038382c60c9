public import Foundation
package import Records
import Synchronization
package import Wire

/// A record that shares other records: a hierarchy below its root record, or a whole custom zone.
///
/// Save a new share together with its root record in one `modifyRecords` call. If the owner deletes the share, sharing
/// ends; if a participant deletes it, the participant leaves the share. A share has either a public permission or
/// invited participants, not both.
open class CKShare: CKRecord, @unchecked Sendable {
    // Unchecked only because the class can be subclassed: all state is in `sharing`, a mutex.

    /// A participant of a share.
    public typealias Participant = CKShareParticipant
    /// The metadata of a share, which everyone with its URL may see.
    public typealias Metadata = CKShareMetadata

    /// The names of the fields that describe the shared item.
    public enum SystemFieldKey {
        /// A title for people.
        public static let title: CKRecord.FieldKey = "cloudkit.title"
        /// The data of a small image.
        public static let thumbnailImageData: CKRecord.FieldKey = "cloudkit.thumbnailImageData"
        /// The kind of item, in terms of the app.
        public static let shareType: CKRecord.FieldKey = "cloudkit.type"
    }

    let sharing: Mutex<ShareState>

    /// Creates a share of a record and all its descendants.
    ///
    /// Does not save them. Save the share and the record in one call.
    public convenience init(rootRecord: CKRecord) {
        self.init(
            rootRecord: rootRecord,
            shareID: CKRecord.ID(recordName: "Share-" + UUID().uuidString, zoneID: rootRecord.recordID.zoneID)
        )
    }

    /// Creates a share of a record and all its descendants, with a given ID.
    public init(rootRecord: CKRecord, shareID: CKRecord.ID) {
        sharing = Mutex(ShareState(root: rootRecord))
        super.init(state: RecordState(type: CKRecordTypeShare, id: shareID))
        rootRecord.state.withLock { $0.beginSharing(shareID.recordName) }
    }

    /// Creates a share of a whole custom zone.
    public init(recordZoneID: CKRecordZone.ID) {
        sharing = Mutex(ShareState(root: nil))
        let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: recordZoneID)
        super.init(state: RecordState(type: CKRecordTypeShare, id: id))
    }

    init(state: RecordState, sharing: ShareState) {
        self.sharing = Mutex(sharing)
        super.init(state: state)
    }

    /// Creates a share from the output of `encode(with:)` or `encodeSystemFields(with:)`.
    ///
    /// In CloudKit this initializer never fails. For any other archive the coder fails, and the share belongs to an
    /// unnamed zone, which no relay accepts.
    public required init(coder: NSCoder) {
        sharing = Mutex(ShareState(coder: coder))
        let decoded = RecordState(coder: coder)
        if decoded == nil {
            coder.failWithError(CocoaError(.coderReadCorrupt))
        }
        let nowhere = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: CKRecordZone.ID(zoneName: ""))
        super.init(state: decoded ?? RecordState(type: CKRecordTypeShare, id: nowhere))
    }

    /// Encodes the whole record with its participants.
    open override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        sharing.withLock { $0 }.encode(with: coder)
    }

    /// Encodes the share's identity and version, with its participants and its URL.
    open override func encodeSystemFields(with coder: NSCoder) {
        super.encodeSystemFields(with: coder)
        sharing.withLock { $0 }.encode(with: coder)
    }

    /// Returns an independent copy with the unsaved changes.
    open override func copy(with zone: NSZone? = nil) -> Any {
        CKShare(state: state.withLock { $0 }, sharing: sharing.withLock { $0.copy() })
    }

    /// The permission of everyone with the URL.
    ///
    /// With `none`, only invited people have access.
    open var publicPermission: ParticipantPermission {
        get { sharing.withLock { $0.publicPermission } }
        set { sharing.withLock { $0.publicPermission = newValue } }
    }

    /// The URL for invitations; `nil` until the share has been saved.
    open var url: URL? {
        let title: String? = self[SystemFieldKey.title]
        return sharing.withLock { $0.link(title: title) }
    }

    /// The ID of the root record, if this object was created as a share of it.
    var rootID: CKRecord.ID? {
        let zoneID = recordID.zoneID
        return sharing.withLock { $0.rootName }.map { CKRecord.ID(recordName: $0, zoneID: zoneID) }
    }

    /// All participants, the owner first.
    open var participants: [Participant] { sharing.withLock { $0.participants } }

    /// The owner of the shared records.
    open var owner: Participant { sharing.withLock { $0.owner } }

    /// The current user's participant; `nil` if the user is not a participant.
    open var currentUserParticipant: Participant? { sharing.withLock { $0.currentUser } }

    /// Returns the participants who would lose their invitation or access if this public permission were saved.
    ///
    /// A share has either a public permission or invited participants. Setting a public permission cancels pending
    /// invitations, and people who have accepted stay as public users. Removing it removes everyone who joined through
    /// the public link.
    public func effectsOfChangingPublicPermission(to permission: ParticipantPermission) -> [Participant] {
        sharing.withLock { $0.participantsRemoved(byChangingTo: permission) }
    }

    /// Returns the URL of a participant created by `CKShare.Participant.oneTimeURLParticipant()`.
    ///
    /// The first person to open it becomes the participant. The URL does not change until then.
    ///
    /// - Parameter participantID: The ID of the participant.
    /// - Returns: The URL; `nil` before the share has been saved, and after the URL has been used.
    public func oneTimeURL(for participantID: Participant.ID) -> URL? {
        sharing.withLock { $0.invitation(for: participantID, isOneTimeLink: true) }
    }

    /// Returns a link that identifies an invited participant, whatever address the person signs in with.
    ///
    /// An addition to CloudKit's API. `url` admits people whose account has the invited address. Send this link to a person
    /// whose account has another address: the first person to accept it becomes the participant. Only the owner and
    /// administrators receive it.
    ///
    /// - Parameter participantID: The participant's identifier; also the one from before the share was saved.
    /// - Returns: The link, or `nil` before the share has been saved and after the participant has accepted.
    public func invitationURL(for participantID: Participant.ID) -> URL? {
        sharing.withLock { $0.invitation(for: participantID) }
    }

    /// Adds a participant, replacing one who is already in the share.
    ///
    /// The SDK sends no invitation; give the person the URL. Takes effect when the share is saved.
    open func addParticipant(_ participant: Participant) {
        sharing.withLock { $0.add(participant) }
    }

    /// Removes a participant.
    ///
    /// The owner cannot be removed. Takes effect when the share is saved.
    open func removeParticipant(_ participant: Participant) {
        sharing.withLock { $0.remove(participant) }
    }
}

/// The contents of a `CKShare` apart from its record.
struct ShareState: Sendable {
    var publicPermission = CKShare.ParticipantPermission.none
    private(set) var participants: [CKShare.Participant]
    private(set) var owner: CKShare.Participant
    private(set) var currentUser: CKShare.Participant?
    /// The root record of a share that was never saved.
    private var root: CKRecord?
    private(set) var rootName: String?
    /// The changes of access requests to send with the next save.
    var requests = ClientRequest.AccessRequestsWrite()
    /// The relay's version; `nil` before the first save.
    private(set) var known: ClientShare?
    private(set) var caller: CallerInfo?

    /// Creates the state of a new share by the current user.
    init(root: CKRecord?) {
        let me = CKShare.Participant(
            ClientShare.Participant(
                type: CKShare.ParticipantRole.owner.word,
                permission: CKShare.ParticipantPermission.readWrite.word,
                acceptanceStatus: CKShare.ParticipantAcceptanceStatus.accepted.word,
                identity: ClientIdentity(userRecordName: CKCurrentUserDefaultName)
            ),
            callerName: nil
        )
        self.root = root
        rootName = root?.recordID.recordName
        owner = me
        currentUser = me
        participants = [me]
    }

    /// Creates the state of a share from the relay.
    init(_ details: ClientShare, caller: CallerInfo?) {
        self.init(root: nil)
        apply(details, caller: caller)
    }

    /// Adopts the relay's current version.
    mutating func apply(_ details: ClientShare, caller: CallerInfo?) {
        let name = caller?.recordName
        known = details
        requests = ClientRequest.AccessRequestsWrite()
        self.caller = caller
        root = nil
        publicPermission = details.publicPermission.map { CKShare.ParticipantPermission(word: $0) } ?? publicPermission
        participants = details.participants.map { received in
            let made = CKShare.Participant(received, callerName: name)
            // The program may know them by their number from before the save.
            return participants.first { $0.isEqual(made) }.map { made.withID(of: $0) } ?? made
        }
        let ownerWord = CKShare.ParticipantRole.owner.word
        if let received = details.owner ?? details.participants.first(where: { $0.type == ownerWord }) {
            owner = known(received, name)
        }
        if !participants.contains(where: { $0.role == .owner }) { participants.insert(owner, at: 0) }
        let mine = details.currentUser ?? details.participants.first { $0.identity.userRecordName == name }
        currentUser = name == nil && details.currentUser == nil ? nil : mine.map { known($0, name) }
    }

    /// Returns the existing object for a participant, or a new one.
    private func known(_ received: ClientShare.Participant, _ callerName: String?) -> CKShare.Participant {
        let made = CKShare.Participant(received, callerName: callerName)
        return participants.first { $0.isEqual(made) } ?? made
    }

    func copy() -> ShareState {
        var copy = self
        copy.participants = participants.map { $0.copy() as? CKShare.Participant ?? $0 }
        copy.owner = copy.participants.first { $0.isEqual(owner) } ?? owner
        copy.currentUser = currentUser.map { mine in copy.participants.first { $0.isEqual(mine) } ?? mine }
        return copy
    }

    func link(title: String?) -> URL? {
        known?.shortGUID.flatMap { (caller ?? CallerInfo()).link($0, title: title) }
    }

    mutating func add(_ participant: CKShare.Participant) {
        if let place = participants.firstIndex(where: { $0.isEqual(participant) }) {
            participants[place] = participant
        } else {
            participants.append(participant)
        }
    }

    /// Returns the link of a participant who has not accepted yet; with `isOneTimeLink`, only for a participant without an
    /// address.
    func invitation(for id: CKShare.Participant.ID, isOneTimeLink: Bool = false) -> URL? {
        let number = participants.first { $0.hasID(id) }?.participantID ?? id
        let found = known?.participants.first { $0.id == number && ($0.isOneTimeLink || !isOneTimeLink) }
        // Use the base URL that this client knows, whatever base URL the relay uses.
        guard let address = found?.invitation.flatMap({ URL(string: $0) }) else { return nil }
        return (caller ?? CallerInfo()).link(address.lastPathComponent, title: nil)
    }

    func participantsRemoved(byChangingTo permission: CKShare.ParticipantPermission) -> [CKShare.Participant] {
        let isOpen = known?.publicPermission.map { CKShare.ParticipantPermission(word: $0) } ?? publicPermission
        func isClosed(_ permission: CKShare.ParticipantPermission) -> Bool { permission == .none }
        switch (isClosed(isOpen), isClosed(permission)) {
        case (true, false):
            return participants.filter { $0.role != .owner && $0.acceptanceStatus != .accepted }
        case (false, true): return participants.filter { $0.role == .publicUser }
        default: return []
        }
    }

    mutating func remove(_ participant: CKShare.Participant) {
        participants.removeAll { $0.isEqual(participant) && $0.role != .owner }
    }

    // MARK: Wire format

    /// Returns the changes of participants and permissions to save.
    ///
    /// `roots` contains the names of the records in the same request, which have no change tag yet.
    func write(roots: Set<String>) -> ClientRequest.ShareWrite {
        var write = ClientRequest.ShareWrite()
        let others = participants.filter { $0.role != .owner }.map(\.wire)
        let knownOthers = known?.participants.filter { $0.type != CKShare.ParticipantRole.owner.word }
        if known == nil, let rootName {
            write.root = (rootName, roots.contains(rootName) ? nil : root?.recordChangeTag)
        }
        if known?.publicPermission != publicPermission.word { write.publicPermission = publicPermission.word }
        if knownOthers != others { write.participants = others }
        if requests != ClientRequest.AccessRequestsWrite() { write.accessRequests = requests }
        return write
    }

    // MARK: Archives

    func encode(with coder: NSCoder) {
        var now = known ?? ClientShare()
        now.publicPermission = publicPermission.word
        now.participants = participants.map(\.wire)
        now.owner = owner.wire
        now.currentUser = currentUser?.wire
        coder.encode(Data(now.json) as NSData, forKey: "Sharing")
        if let known { coder.encode(Data(known.json) as NSData, forKey: "KnownSharing") }
        if let name = caller?.recordName { coder.encode(name as NSString, forKey: "Caller") }
        if let link = link(title: nil) { coder.encode(link.absoluteString as NSString, forKey: "Link") }
        if let rootName { coder.encode(rootName as NSString, forKey: "Root") }
    }

    init(coder: NSCoder) {
        self.init(root: nil)
        guard let now = coder.bytes("Sharing").flatMap({ ClientShare(json: $0) }) else { return }
        let link = coder.text("Link").flatMap { URL(string: $0) }
        let callerInfo = CallerInfo(links: link?.deletingLastPathComponent())
        callerInfo.recordName = coder.text("Caller")
        apply(now, caller: callerInfo)
        rootName = coder.text("Root")
        known = coder.bytes("KnownSharing").flatMap { ClientShare(json: $0) }
    }
}

/// Support for code that stores shares itself: a share's contents as values, and edits that survive a conflict.
extension CKShare {
    /// The share as the relay last returned it, in a form that can be stored in a file.
    ///
    /// Contains no unsaved changes of participants. `nil` for a share that was never saved.
    package var kept: (record: Record, details: ClientShare)? {
        guard let details = sharing.withLock({ $0.known }) else { return nil }
        let state = state.withLock { $0 }
        var record = Record(id: state.id.record, type: state.type, fields: state.fields, changeTag: state.changeTag)
        record.created = state.created
        record.modified = state.modified
        return (record, details)
    }

    /// Applies this object's unsaved changes to the relay's current version.
    ///
    /// Participants who were added here stay added, those who were removed here stay removed, and all changes by other
    /// devices are kept.
    package func rebase(onto server: CKShare) {
        guard let (record, details) = server.kept else { return }
        state.withLock { $0.saved(as: record, sent: 0, isWhole: true) }
        let caller = server.sharing.withLock { $0.caller }
        sharing.withLock { sharing in
            // For a share that was never saved here, everything comes from the relay.
            let before = sharing.known.map { ShareState($0, caller: nil) } ?? sharing
            sharing.rebase(onto: details, since: before, caller: caller)
        }
    }

    /// Creates a participant to invite without a request to the relay.
    package static func participant(
        inviting lookup: ClientIdentity.Lookup,
        _ permission: ParticipantPermission
    ) -> Participant {
        let identity = ClientIdentity(userRecordName: lookup.userRecordName, lookup: lookup)
        let made = Participant(inviting: identity, callerName: nil)
        made.permission = permission
        return made
    }
}

extension ShareState {
    /// Adopts the relay's version, and then applies the changes that were made on this side since `before`.
    mutating func rebase(onto details: ClientShare, since before: ShareState, caller: CallerInfo?) {
        let newPublic = publicPermission == before.publicPermission ? nil : publicPermission
        let mine = participants.filter { $0.role != .owner }
        let old = before.participants.filter { $0.role != .owner }
        let removed = old.filter { old in !mine.contains { $0.isEqual(old) } }
        // Participants that were not changed here keep their newer state from the relay.
        let changed = mine.filter { mine in
            old.first { $0.isEqual(mine) }.map { $0.permission != mine.permission || $0.role != mine.role } ?? true
        }
        let requests = requests.since(before.requests)
        apply(details, caller: caller)
        self.requests = requests
        if let newPublic { publicPermission = newPublic }
        for participant in removed { remove(participant) }
        for participant in changed { put(participant) }
    }

    /// Changes a participant, or adds a new one.
    private mutating func put(_ participant: CKShare.Participant) {
        guard let known = participants.first(where: { $0.isEqual(participant) }) else { return add(participant) }
        known.permission = participant.permission
        known.role = participant.role
    }
}

extension ClientRequest.AccessRequestsWrite {
    /// Returns the requests that were added since `before`.
    fileprivate func since(_ before: Self) -> Self {
        var rest = Self()
        rest.isAllowed = isAllowed == before.isAllowed ? nil : isAllowed
        rest.denied = denied.filter { !before.denied.contains($0) }
        rest.blocked = blocked.filter { !before.blocked.contains($0) }
        rest.unblocked = unblocked.filter { !before.unblocked.contains($0) }
        return rest
    }
}

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
            let removedIDs = Set(state.requests.denied + state.requests.blocked)
            return (state.known?.accessRequests.requesters ?? [])
                .filter { !removedIDs.contains($0.userRecordName ?? "") }
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
