import Records
import RelayCore
import StoreTesting
import Synchronization
import Testing
import Wire

// Short forms of what the cases write and read.

extension UserID {
    static let alice = UserID("_00000000000000000000000000000001")
    static let bob = UserID("_00000000000000000000000000000002")
    static let carol = UserID("_00000000000000000000000000000003")
}

extension ZoneID {
    static let notes = ZoneID("Notes", owner: .alice)
    /// The public database's zone, which every store has.
    static let common = ZoneID(ZoneID.defaultName, owner: Zone.publicOwner)
}

extension ContainerEnvironment {
    static let test = named("iCloud.org.example.notes")

    static func named(_ name: String, _ environment: Records.Environment = .development) -> ContainerEnvironment {
        guard let container = ContainerID(name) else { preconditionFailure("\(name) is no container's name") }
        return ContainerEnvironment(container, environment)
    }
}

extension RecordType {
    static let titled = RecordType(fields: ["title": .init(.scalar(.string))])
}

extension TestHome {
    func stores(tuning: QueryTuning) -> any ServedStores {
        var options = TestStoreOptions()
        options.options.tuning = tuning
        return stores(options)
    }
}

/// The commits that a store has reported.
final class CommitLog: Sendable {
    private let list = Mutex<[Commit]>([])

    var all: [Commit] { list.withLock { $0 } }

    /// Opens a store in a fresh place that reports its commits here.
    func open() throws -> any Store {
        try TestStore.current.makeHome().store(
            TestStoreOptions(committed: { [self] _, commit in list.withLock { $0.append(commit) } })
        )
    }
}

/// A record before it has a change number.
struct Draft: Sendable {
    var name: String
    var type = "Note"
    var fields: [String: FieldValue] = [:]
    var parent: String?
    var author = UserID.alice
    var at: Int64 = 1
    var isDeleted = false
    var share: Share?
    var shareReference: ShareReference?

    init(_ name: String, title: String? = nil, parent: String? = nil) {
        self.name = name
        self.parent = parent
        if let title { fields["title"] = .string(title) }
    }

    static func deleted(_ name: String, at time: Int64 = 1) -> Draft {
        var draft = Draft(name)
        (draft.isDeleted, draft.at) = (true, time)
        return draft
    }

    func record(_ change: UInt64, over before: StoredRecord? = nil) -> StoredRecord {
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: at),
            by: author,
            device: DeviceFingerprint(bits: 1)
        )
        var record = StoredRecord(
            name: name,
            // A tombstone keeps its type.
            type: isDeleted ? before?.type ?? type : type,
            change: change,
            created: before?.created ?? stamp,
            modified: stamp,
            parent: parent,
            fields: FieldsJSON.encode(fields.sorted { $0.key < $1.key }.map { .init(name: $0.key, value: $0.value) }),
            isDeleted: isDeleted
        )
        record.shareReference = shareReference
        record.sharing = share
        return record
    }
}

extension Share.Participant {
    /// A participant who has accepted.
    static func joined(_ user: UserID, _ permission: Share.Permission = .readOnly) -> Share.Participant {
        Share.Participant(id: "of \(user)", permission: permission, hasAccepted: true, user: user)
    }
}

extension Store {
    /// Creates a zone, and the record type `Note` if it is missing.
    @discardableResult
    func makeZone(_ id: ZoneID = .notes) async throws -> Zone {
        try await write(touching: id.owner) { writer throws(RelayError) in
            if try writer.schema.types["Note"] == nil { try writer.define(["Note": .titled]) }
            return try writer.makeZone(id, by: "phone")
        }
    }

    /// Deletes a zone and returns its change number.
    @discardableResult
    func deleteZone(_ id: ZoneID, as reason: ZoneDeletionReason = .deleted) async throws -> UInt64 {
        try await write(touching: id.owner) { writer throws(RelayError) in
            guard var zone = try writer.zone(id) else { throw .zoneNotFound }
            zone.deletionReason = reason
            try writer.deleteZone(zone, by: "phone")
            return try writer.lastDeletion(ofZonesOf: id.owner)
        }
    }

    /// Writes records under the next change numbers, in the order of the list.
    @discardableResult
    func put(_ drafts: [Draft], in id: ZoneID = .notes, by device: String = "phone") async throws -> [StoredRecord] {
        try await write(touching: id.owner) { writer throws(RelayError) in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: drafts.map(\.name), in: zone)
            let records = drafts.map { $0.record(writer.takeChangeNumber(), over: before[$0.name]) }
            try writer.put(records, replacing: before, in: zone, by: device)
            return records
        }
    }

    @discardableResult
    func save(_ names: [String], in id: ZoneID = .notes, at time: Int64 = 1) async throws -> [StoredRecord] {
        try await put(
            names.map {
                var draft = Draft($0)
                draft.at = time
                return draft
            },
            in: id
        )
    }

    /// Shares a zone, or the hierarchy of a record in it; no participants end the share.
    func share(_ root: String? = nil, with participants: [Share.Participant], in id: ZoneID = .notes) async throws {
        let name = root.map { "share of \($0)" } ?? Share.zoneWideName
        let link = "\(id.owner) \(id.zoneName) \(name)"
        var draft = Draft(name)
        draft.type = Share.recordType
        draft.author = id.owner
        draft.isDeleted = participants.isEmpty
        draft.shareReference = ShareReference(shortGUID: link, record: name)
        if !participants.isEmpty { draft.share = Share(root: root, shortGUID: link, participants: participants) }
        try await put([draft], in: id)
    }

    /// Returns the zone as its owner or a participant sees it.
    func zone(_ id: ZoneID = .notes, seenBy user: UserID? = nil) throws -> Zone? {
        try read { reader throws(RelayError) in
            if let user { try reader.zone(id, sharedWith: user) } else { try reader.zone(id) }
        }
    }

    func records(_ names: [String], in id: ZoneID = .notes, seenBy user: UserID? = nil) throws -> [String: StoredRecord]
    {
        let zone = try #require(try zone(id, seenBy: user))
        return try read { reader throws(RelayError) in try reader.records(named: names, in: zone) }
    }

    /// Returns the names in a zone's feed, tombstones with a minus.
    func feed(
        _ id: ZoneID = .notes,
        after change: UInt64 = 0,
        states: FeedFilter = .all,
        backwards: Bool = false,
        limit: Int = 100_000,
        seenBy user: UserID? = nil
    ) throws -> [String] {
        guard let zone = try zone(id, seenBy: user), zone.lastChange > change else { return [] }
        return try read { reader throws(RelayError) in
            var names: [String] = []
            try reader.visitRecords(
                in: zone,
                changes: change + 1...zone.lastChange,
                states: states,
                backwards: backwards,
                limit: limit,
                rowsExceptFor: nil
            ) { record, _ in
                if case .whole(let record) = record { names.append((record.isDeleted ? "-" : "") + record.name) }
                return true
            }
            return names
        }
    }

    /// Returns the names and the token of a page of the owner's feed since a token.
    func page(_ id: ZoneID = .notes, since token: String? = nil) throws -> (names: [String], token: String) {
        let database = DatabaseAddress(scope: .private, caller: Caller(.user(id.owner), deviceID: ""))
        return try read { reader throws(RelayError) in
            var names: [String] = []
            let page = try ZoneChanges(zone: id, of: database, token: token, limit: 1_000)
                .read(from: reader, epochs: try epochs(of: id.owner)) { names.append($0.name) }
            return (names, page.token.encoded)
        }
    }

    /// Runs `body` on a committed state; short for its typed throws.
    func look<Result>(_ body: (any StoreReader) throws -> Result) throws -> Result {
        var result: Swift.Result<Result, any Error>?
        try read { reader throws(RelayError) in result = .init(catching: { try body(reader) }) }
        return try #require(result).get()
    }
}
