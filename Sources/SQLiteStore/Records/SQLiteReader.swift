package import GRDB
import Records
import RelayCore
import StoreKit
import Wire

/// Reads one committed state of a SQLite store; valid for one access.
package class SQLiteReader: StoreReader {
    package let database: Database
    let connection: StoreConnection?
    var names: StoreNames
    let committedSchema: Schema
    /// The limits and the accumulated cost of queries in this access.
    var queryWork = QueryWork()
    private var lastUser: (number: Int64, user: UserID)?
    private var lastType: (number: Int64, name: String)?

    /// Whether a request could not be read because the file is damaged.
    private(set) var hasMetDamage = false
    /// Bytes of the records that were read in full or written.
    var recordBytes = 0
    /// The cost of a record besides its fields, in bytes.
    static let bytesOfRow = 512

    init(_ database: Database, of connection: StoreConnection? = nil, names: StoreNames, schema: Schema) {
        self.database = database
        self.connection = connection
        self.names = names
        self.committedSchema = schema
    }

    var schema: Schema {
        get throws(RelayError) { committedSchema }
    }

    func statement(_ which: StoreConnection.CachedStatement) throws -> SQL {
        guard let connection else { return try SQL(which.text, in: database) }
        return try connection.statement(which, in: database)
    }

    /// Runs SQL and converts errors to `RelayError`.
    func attempt<Result>(_ body: () throws -> Result) throws(RelayError) -> Result {
        do {
            return try body()
        } catch let error as RelayError {
            throw error
        } catch {
            throw report(error)
        }
    }

    /// Converts an error to the one for the request; a writer also marks its commit as failed.
    func report(_ error: any Error) -> RelayError {
        if StoreFailure.isDamage(error) { hasMetDamage = true }
        return StoreFailure.relayError(for: error)
    }

    // MARK: Users

    func number(of user: UserID) throws -> Int64? {
        // Most of an access concerns one user.
        if let lastUser, lastUser.user == user { return lastUser.number }
        if let number = names.number(of: user) {
            lastUser = (number, user)
            return number
        }
        let statement = try SQL("SELECT id FROM user WHERE name = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, user.recordName)
        guard try statement.step() else { return nil }
        names.add(user: user, number: statement.int(0))
        return statement.int(0)
    }

    func user(_ number: Int64) throws -> UserID {
        // Neighbouring records mostly have the same author.
        if let lastUser, lastUser.number == number { return lastUser.user }
        let user = try findUser(number)
        lastUser = (number, user)
        return user
    }

    private func findUser(_ number: Int64) throws -> UserID {
        if let user = names.user(number) { return user }
        let statement = try SQL("SELECT name FROM user WHERE id = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, number)
        guard try statement.step() else { throw StoreFailure.damaged("user \(number) is missing") }
        let user = UserID(statement.text(0))
        names.add(user: user, number: number)
        return user
    }

    func type(_ number: Int64) throws -> String {
        if let lastType, lastType.number == number { return lastType.name }
        let name = try findType(number)
        lastType = (number, name)
        return name
    }

    private func findType(_ number: Int64) throws -> String {
        if let type = names.type(number) { return type }
        // A later commit inserted it, after the names were cached and before this state was read.
        let statement = try SQL("SELECT name FROM record_type WHERE id = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, number)
        guard try statement.step() else { throw StoreFailure.damaged("record type \(number) is missing") }
        let type = statement.text(0)
        names.add(type: type, number: number)
        return type
    }

    // MARK: Zones

    func zone(_ id: ZoneID) throws(RelayError) -> Zone? {
        try attempt {
            guard let owner = try number(of: id.owner) else { return nil }
            let statement = try SQL(
                """
                SELECT id, identity, last_change, record_bytes, asset_bytes, shared, last_modified FROM zone
                WHERE owner = ? AND name = ? AND deleted = 0
                """,
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, owner)
            statement.bind(2, id.zoneName)
            guard try statement.step() else { return nil }
            var zone = Zone(
                number: statement.int(0),
                id: id,
                identity: statement.unsigned(1),
                lastChange: statement.unsigned(2),
                sharing: Zone.Sharing(rawValue: statement.int(5)) ?? .nothing
            )
            zone.use = StorageUse(records: statement.int(3), assets: statement.int(4))
            zone.lastModified = Timestamp(milliseconds: statement.int(6))
            return zone
        }
    }

    func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
        try attempt { try sharedZone(id, with: user) }
    }

    func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
        try attempt { try covers(of: names, in: zone.number) }
    }

    /// The condition for an owner's live zones.
    ///
    /// It mentions `name` so that SQLite uses the partial index of live zones: an owner may have far more ended zones.
    package static let living = "owner = ? AND name >= '' AND deleted = 0"

    func liveZones(of owner: UserID) throws(RelayError) -> [Zone] {
        try zones(of: owner, "WHERE \(Self.living) ORDER BY last_change")
    }

    func endedZones(of owner: UserID, after change: UInt64) throws(RelayError) -> [Zone] {
        try zones(of: owner, "WHERE id IN (\(Self.ended)) ORDER BY last_change", change)
    }

    /// Selects an owner's zones that ended after a change.
    package static let ended = "SELECT id FROM zone_row WHERE owner = ?1 AND deleted = 1 AND ended > ?2"

    func lastDeletion(ofZonesOf owner: UserID) throws(RelayError) -> UInt64 {
        try attempt {
            guard let number = try number(of: owner) else { return 0 }
            let statement = try SQL("SELECT max(ended) FROM zone_row WHERE owner = ? AND deleted = 1", in: database)
            defer { statement.reset() }
            statement.bind(1, number)
            return try statement.step() ? statement.unsigned(0) : 0
        }
    }

    func deletionReason(of id: ZoneID, identity: UInt64) throws(RelayError) -> ZoneDeletionReason? {
        try attempt {
            guard let owner = try number(of: id.owner) else { return nil }
            let statement = try SQL("SELECT loss FROM zone_row WHERE \(Self.endedOne)", in: database)
            defer { statement.reset() }
            statement.bind(1, identity)
            statement.bind(2, owner)
            statement.bind(3, id.zoneName)
            return try statement.step() ? ZoneDeletionReason(rawValue: statement.int(0)) : nil
        }
    }

    /// The condition for an ended zone with a given identity and name.
    package static let endedOne = "identity = ? AND owner = ? AND name = ? AND deleted = 1"

    func zoneCount(of owner: UserID) throws(RelayError) -> Int {
        try attempt {
            guard let number = try number(of: owner) else { return 0 }
            let statement = try SQL("SELECT count(*) FROM zone_row WHERE \(Self.living)", in: database)
            defer { statement.reset() }
            statement.bind(1, number)
            return try statement.step() ? Int(statement.int(0)) : 0
        }
    }

    private func zones(of owner: UserID, _ which: String, _ change: UInt64? = nil) throws(RelayError) -> [Zone] {
        try attempt {
            guard let number = try number(of: owner) else { return [] }
            let statement = try SQL(
                """
                SELECT id, name, identity, last_change, deleted, record_bytes, asset_bytes, shared, loss FROM zone \(which)
                """,
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, number)
            if let change { statement.bind(2, change) }
            var zones: [Zone] = []
            while try statement.step() {
                var zone = Zone(
                    number: statement.int(0),
                    id: ZoneID(statement.text(1), owner: owner),
                    identity: statement.unsigned(2),
                    lastChange: statement.unsigned(3),
                    isDeleted: statement.bool(4),
                    sharing: Zone.Sharing(rawValue: statement.int(7)) ?? .nothing
                )
                zone.use = StorageUse(records: statement.int(5), assets: statement.int(6))
                zone.deletionReason = ZoneDeletionReason(rawValue: statement.int(8)) ?? .deleted
                zones.append(zone)
            }
            return zones
        }
    }

    func storageUse(of owner: UserID) throws(RelayError) -> StorageUse { try committedUse(of: owner) }

    var userCount: Int {
        get throws(RelayError) { try committedUserCount() }
    }

    // MARK: Records

    static let recordColumns = columns(deleted: "r.deleted")

    /// Returns the columns of records, with a constant for `deleted` where it is known: reading a column is costly.
    static func columns(deleted: String) -> String {
        """
        r.change, r.name, r.type, \(deleted), r.created_at, r.created_by, r.created_device, \
        r.modified_at, r.modified_by, r.modified_device, r.parent, r.share, r.fields
        """
    }

    static let recordColumnCount: Int32 = 13

    static let byName = "SELECT \(recordColumns) FROM record r WHERE zone = ? AND name = ?"

    func records(
        named wanted: [String],
        in zone: Zone,
        withFields: Bool
    ) throws(RelayError) -> [String: StoredRecord] {
        try attempt {
            if let view = zone.view, view.isPartial {
                return try records(named: wanted, in: zone, through: view, withFields: withFields)
            }
            var found: [String: StoredRecord] = [:]
            let statement = try statement(.recordByName)
            for name in wanted {
                var text = name
                try text.withUTF8 { text in
                    defer { statement.reset() }
                    statement.bind(1, zone.number)
                    statement.bind(2, borrowedText: text)
                    if try statement.step() { found[name] = try record(in: statement, withFields: withFields) }
                }
            }
            return found
        }
    }

    /// Returns the record in a row of `recordColumns`.
    func record(in row: some RowColumns, withFields: Bool = true) throws -> StoredRecord {
        var record = StoredRecord(
            name: row.text(1),
            type: try type(row.int(2)),
            change: row.unsigned(0),
            created: .init(
                at: Timestamp(milliseconds: row.int(4)),
                by: try user(row.int(5)),
                device: DeviceFingerprint(bits: row.unsigned(6))
            ),
            modified: .init(
                at: Timestamp(milliseconds: row.int(7)),
                by: try user(row.int(8)),
                device: DeviceFingerprint(bits: row.unsigned(9))
            ),
            parent: row.optionalText(10),
            share: row.optionalText(11),
            fields: withFields ? row.blob(12) : FieldsJSON.empty,
            isDeleted: row.bool(3)
        )
        if record.isShare {
            if !withFields { record.fields = row.blob(12) }
            record.sharing = try sharing(of: record)
        }
        recordBytes += record.fields.count + Self.bytesOfRow
        return record
    }
}
