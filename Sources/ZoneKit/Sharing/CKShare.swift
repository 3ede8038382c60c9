public import Foundation
import Records
import Synchronization
import Wire

/// A record that shares others: a hierarchy from its root record down through `parent`, or a whole custom zone.
///
/// Save a new one together with its root, by one `modifyRecords`. Deleting it ends the sharing for the owner, and leaves it
/// for anybody else. A public permission and invited participants exclude each other.
open class CKShare: CKRecord, @unchecked Sendable {
    // Unchecked only because the class can be inherited from: all state is behind `sharing`, a Mutex.

    /// Somebody a share is for.
    public typealias Participant = CKShareParticipant
    /// A share as somebody who holds its link sees it.
    public typealias Metadata = CKShareMetadata

    /// The names of the fields that say what is shared.
    public enum SystemFieldKey {
        /// A title for people.
        public static let title: CKRecord.FieldKey = "cloudkit.title"
        /// A small picture, as data.
        public static let thumbnailImageData: CKRecord.FieldKey = "cloudkit.thumbnailImageData"
        /// What kind of thing it is, in the program's own words.
        public static let shareType: CKRecord.FieldKey = "cloudkit.type"
    }

    let sharing: Mutex<ShareState>

    /// Shares a record with all that stands below it.
    ///
    /// Neither is saved by this: save both in one call.
    public convenience init(rootRecord: CKRecord) {
        self.init(
            rootRecord: rootRecord,
            shareID: CKRecord.ID(recordName: "Share-" + UUID().uuidString, zoneID: rootRecord.recordID.zoneID)
        )
    }

    /// Shares a record with all that stands below it, under a name of the program's choice.
    public init(rootRecord: CKRecord, shareID: CKRecord.ID) {
        sharing = Mutex(ShareState(root: rootRecord))
        super.init(state: RecordState(type: CKRecordTypeShare, id: shareID))
        rootRecord.state.withLock { $0.beginSharing(shareID.recordName) }
    }

    /// Shares a whole custom zone.
    public init(recordZoneID: CKRecordZone.ID) {
        sharing = Mutex(ShareState(root: nil))
        let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: recordZoneID)
        super.init(state: RecordState(type: CKRecordTypeShare, id: id))
    }

    init(state: RecordState, sharing: ShareState) {
        self.sharing = Mutex(sharing)
        super.init(state: state)
    }

    /// Reads what `encode(with:)` or `encodeSystemFields(with:)` wrote.
    ///
    /// CloudKit declares that it never fails: of an archive that holds neither, the coder fails, and the share is one of an
    /// unnamed zone that no relay takes.
    public required init(coder: NSCoder) {
        sharing = Mutex(ShareState(coder: coder))
        let decoded = RecordState(coder: coder)
        if decoded == nil {
            coder.failWithError(CocoaError(.coderReadCorrupt))
        }
        let nowhere = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: CKRecordZone.ID(zoneName: ""))
        super.init(state: decoded ?? RecordState(type: CKRecordTypeShare, id: nowhere))
    }

    /// Writes the record whole, with its people.
    open override func encode(with coder: NSCoder) {
        super.encode(with: coder)
        sharing.withLock { $0 }.encode(with: coder)
    }

    /// Writes what identifies the share and its version, with its people and its link.
    open override func encodeSystemFields(with coder: NSCoder) {
        super.encodeSystemFields(with: coder)
        sharing.withLock { $0 }.encode(with: coder)
    }

    /// An independent copy, pending changes included.
    open override func copy(with zone: NSZone? = nil) -> Any {
        CKShare(state: state.withLock { $0 }, sharing: sharing.withLock { $0.copy() })
    }

    /// What anybody with the link may do; with `none`, only those invited come in.
    open var publicPermission: ParticipantPermission {
        get { sharing.withLock { $0.publicPermission } }
        set { sharing.withLock { $0.publicPermission = newValue } }
    }

    /// The link to invite by; `nil` until the share has been saved.
    open var url: URL? {
        let title: String? = self[SystemFieldKey.title]
        return sharing.withLock { $0.link(title: title) }
    }

    /// The root's address, where this share was made here.
    var rootID: CKRecord.ID? {
        let zoneID = recordID.zoneID
        return sharing.withLock { $0.rootName }.map { CKRecord.ID(recordName: $0, zoneID: zoneID) }
    }

    /// Everybody the share is for, the owner first.
    open var participants: [Participant] { sharing.withLock { $0.participants } }

    /// Whose records are shared.
    open var owner: Participant { sharing.withLock { $0.owner } }

    /// The current user, if the share is for them.
    open var currentUserParticipant: Participant? { sharing.withLock { $0.currentUser } }

    /// Who would lose an invitation or their access if `publicPermission` were set to this and the share saved.
    ///
    /// A public link and invited people exclude each other: opening one ends the invitations that wait, and those who are in
    /// stay as public users; closing it puts out all who came by it.
    public func effectsOfChangingPublicPermission(to permission: ParticipantPermission) -> [Participant] {
        sharing.withLock { $0.lost(byChangingTo: permission) }
    }

    /// The link of a participant made by `CKShare.Participant.oneTimeURLParticipant()`.
    ///
    /// Whoever opens it first becomes that participant; it is the same until then.
    ///
    /// - Parameter participantID: The participant's number.
    /// - Returns: The link; `nil` before the share has been saved, and once it has been used.
    public func oneTimeURL(for participantID: Participant.ID) -> URL? {
        sharing.withLock { $0.invitation(for: participantID, isForAnybody: true) }
    }

    /// The link that proves its bearer to be an invited participant, whatever their own address is; ours.
    ///
    /// `url` lets in the people whose account has the address that was invited. Give this link to somebody whose account has
    /// another one: whoever accepts by it first becomes the participant. Only the owner and administrators are given it.
    ///
    /// - Parameter participantID: The participant's number; also the one from before the share was saved.
    /// - Returns: The link; `nil` before the share has been saved, and once the participant has accepted.
    public func invitationURL(for participantID: Participant.ID) -> URL? {
        sharing.withLock { $0.invitation(for: participantID) }
    }

    /// Invites somebody; they are told nothing until they are given the link.
    ///
    /// Somebody who is in already is replaced. Counts when the share is saved.
    open func addParticipant(_ participant: Participant) {
        sharing.withLock { $0.add(participant) }
    }

    /// Takes somebody out; the owner stays.
    ///
    /// Counts when the share is saved.
    open func removeParticipant(_ participant: Participant) {
        sharing.withLock { $0.remove(participant) }
    }
}

/// What a `CKShare` holds beside its record.
struct ShareState: Sendable {
    var publicPermission = CKShare.ParticipantPermission.none
    private(set) var participants: [CKShare.Participant]
    private(set) var owner: CKShare.Participant
    private(set) var currentUser: CKShare.Participant?
    /// The root of a share that was never saved.
    private var root: CKRecord?
    private(set) var rootName: String?
    /// What is to be said of requests for access at the next save.
    var requests = ClientRequest.AccessRequestsWrite()
    /// What the relay has; `nil` before the first save.
    private(set) var known: ClientShare?
    private(set) var caller: CallerMemory?

    /// A new share of the current user.
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

    /// A share as the relay describes it.
    init(_ details: ClientShare, caller: CallerMemory?) {
        self.init(root: nil)
        take(details, caller: caller)
    }

    /// Takes over what the relay says now.
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

    /// The object among the participants that stands for this one, else a new one.
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

    /// The link of a participant who has not accepted yet; with `isForAnybody` only that of one without an address.
    func invitation(for id: CKShare.Participant.ID, isForAnybody: Bool = false) -> URL? {
        let number = participants.first { $0.isNumbered(id) }?.participantID ?? id
        let found = known?.participants.first { $0.id == number && ($0.isForAnybody || !isForAnybody) }
        // The folder of links that this program knows, whatever address the relay gives itself.
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

    // MARK: On the wire

    /// What a save says of people: only what was changed.
    ///
    /// `roots` are the names of the records in the same request: their change tags are still to come.
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
