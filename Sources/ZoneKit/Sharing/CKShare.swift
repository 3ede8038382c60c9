public import Foundation
import Records
import Synchronization
import Wire

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
        sharing.withLock { $0.lost(byChangingTo: permission) }
    }

    /// Returns the URL of a participant created by `CKShare.Participant.oneTimeURLParticipant()`.
    ///
    /// The first person to open it becomes the participant. The URL does not change until then.
    ///
    /// - Parameter participantID: The ID of the participant.
    /// - Returns: The URL; `nil` before the share has been saved, and after the URL has been used.
    public func oneTimeURL(for participantID: Participant.ID) -> URL? {
        sharing.withLock { $0.invitation(for: participantID, isForAnybody: true) }
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
    private(set) var caller: CallerMemory?

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
    init(_ details: ClientShare, caller: CallerMemory?) {
        self.init(root: nil)
        take(details, caller: caller)
    }

    /// Adopts the relay's current version.
    mutating func take(_ details: ClientShare, caller: CallerMemory?) {
        let name = caller?.recordName
        known = details
        requests = ClientRequest.AccessRequestsWrite()
        self.caller = caller
        root = nil
        publicPermission = details.publicPermission.map { CKShare.ParticipantPermission(word: $0) } ?? publicPermission
        participants = details.participants.map { told in
            let made = CKShare.Participant(told, callerName: name)
            // The program may know them by their number from before the save.
            return participants.first { $0.isEqual(made) }.map { made.withNumber(of: $0) } ?? made
        }
        let ownerWord = CKShare.ParticipantRole.owner.word
        if let told = details.owner ?? details.participants.first(where: { $0.type == ownerWord }) {
            owner = known(told, name)
        }
        if !participants.contains(where: { $0.role == .owner }) { participants.insert(owner, at: 0) }
        let mine = details.currentUser ?? details.participants.first { $0.identity.userRecordName == name }
        currentUser = name == nil && details.currentUser == nil ? nil : mine.map { known($0, name) }
    }

    /// Returns the existing object for a participant, or a new one.
    private func known(_ told: ClientShare.Participant, _ callerName: String?) -> CKShare.Participant {
        let made = CKShare.Participant(told, callerName: callerName)
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
        known?.shortGUID.flatMap { (caller ?? CallerMemory()).link($0, title: title) }
    }

    mutating func add(_ participant: CKShare.Participant) {
        if let place = participants.firstIndex(where: { $0.isEqual(participant) }) {
            participants[place] = participant
        } else {
            participants.append(participant)
        }
    }

    /// Returns the link of a participant who has not accepted yet; with `isForAnybody`, only for a participant without an
    /// address.
    func invitation(for id: CKShare.Participant.ID, isForAnybody: Bool = false) -> URL? {
        let number = participants.first { $0.isNumbered(id) }?.participantID ?? id
        let found = known?.participants.first { $0.id == number && ($0.isForAnybody || !isForAnybody) }
        // Use the base URL that this client knows, whatever base URL the relay uses.
        guard let address = found?.invitation.flatMap({ URL(string: $0) }) else { return nil }
        return (caller ?? CallerMemory()).link(address.lastPathComponent, title: nil)
    }

    func lost(byChangingTo permission: CKShare.ParticipantPermission) -> [CKShare.Participant] {
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
        let memory = CallerMemory(links: link?.deletingLastPathComponent())
        memory.recordName = coder.text("Caller")
        take(now, caller: memory)
        rootName = coder.text("Root")
        known = coder.bytes("KnownSharing").flatMap { ClientShare(json: $0) }
    }
}
