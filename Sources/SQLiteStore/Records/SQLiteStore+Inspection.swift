import GRDB

/// The whole content of a store, read row by row with queries of its own.
///
/// Checkers compare everything else with it.
package struct StoreContent: Sendable {
    package struct Zone: Sendable {
        package var number: Int64
        package var owner: String
        package var name: String
        package var identity: UInt64
        package var lastChange: UInt64
        /// The number of records and tombstones.
        package var rowCount: Int
    }

    package struct Row: Sendable {
        package var zone: Int64
        package var name: String
        package var type: String
        package var change: UInt64
        package var isDeleted: Bool
        package var parent: String?
        /// The bytes as stored.
        package var fields: [UInt8]
    }

    /// A participant who has joined a share, or a share without participants.
    package struct Member: Sendable {
        package var zone: Int64
        package var share: Int64
        /// `nil` for a share of the whole zone.
        package var root: String?
        package var user: String?
        /// A raw value of `Share.Permission`.
        package var permission: Int
    }

    /// The live zones, that of the public database first.
    package var zones: [Zone] = []
    package var rows: [Row] = []
    package var members: [Member] = []
    /// Users with a subscription to a whole database, and that database's scope.
    package var listeners: [(user: String, scope: Int)] = []
    /// The greatest change number of any zone, including deleted ones.
    package var lastChange: UInt64 = 0
}

/// Access to stored data for checkers and tests.
extension SQLiteStore {
    /// Reads the content of the store in one committed state.
    ///
    /// - Parameter change: only records that changed after this number are returned, and all of the public database,
    ///   which keeps no tombstones; 0 returns all.
    /// - Returns: the content.
    /// - Throws: the error of SQLite.
    package func content(after change: UInt64 = 0) throws -> StoreContent {
        try connections.read { database in
            var content = StoreContent()
            try Self.readZones(into: &content, database)
            try Self.readRows(into: &content, after: change, database)
            try Self.readMembers(into: &content, database)
            return content
        }
    }

    private static func readZones(into content: inout StoreContent, _ database: Database) throws {
        let zones = try SQL(
            """
            SELECT z.id, u.name, z.name, z.identity, z.last_change,
            (SELECT count(*) FROM record r WHERE r.zone = z.id), z.deleted
            FROM zone z JOIN user u ON u.id = z.owner ORDER BY z.id
            """,
            in: database
        )
        defer { zones.reset() }
        while try zones.step() {
            content.lastChange = max(content.lastChange, zones.unsigned(4))
            guard !zones.bool(6) else { continue }
            content.zones.append(
                StoreContent.Zone(
                    number: zones.int(0),
                    owner: zones.text(1),
                    name: zones.text(2),
                    identity: zones.unsigned(3),
                    lastChange: zones.unsigned(4),
                    rowCount: Int(zones.int(5))
                )
            )
        }
    }

    private static func readRows(into content: inout StoreContent, after change: UInt64, _ database: Database) throws {
        let rows = try SQL(
            """
            SELECT r.zone, r.name, t.name, r.change, r.deleted, r.parent, r.fields
            FROM record r JOIN record_type t ON t.id = r.type WHERE r.change > ? OR r.zone = 1 ORDER BY r.change
            """,
            in: database
        )
        defer { rows.reset() }
        rows.bind(1, change)
        while try rows.step() {
            content.rows.append(
                StoreContent.Row(
                    zone: rows.int(0),
                    name: rows.text(1),
                    type: rows.text(2),
                    change: rows.unsigned(3),
                    isDeleted: rows.bool(4),
                    parent: rows.optionalText(5),
                    fields: rows.blob(6)
                )
            )
        }
    }

    private static func readMembers(into content: inout StoreContent, _ database: Database) throws {
        let members = try SQL(
            """
            SELECT s.zone, s.id, s.root, u.name, p.permission
            FROM share s LEFT JOIN participant p ON p.share = s.id AND p.accepted = 1 LEFT JOIN user u ON u.id = p.user
            """,
            in: database
        )
        defer { members.reset() }
        while try members.step() {
            content.members.append(
                StoreContent.Member(
                    zone: members.int(0),
                    share: members.int(1),
                    root: members.optionalText(2),
                    user: members.optionalText(3),
                    permission: Int(members.int(4))
                )
            )
        }
        let listeners = try SQL(
            "SELECT DISTINCT u.name, s.scope FROM subscription s JOIN user u ON u.id = s.user WHERE s.kind = 1",
            in: database
        )
        defer { listeners.reset() }
        while try listeners.step() { content.listeners.append((listeners.text(0), Int(listeners.int(1)))) }
    }

    /// Returns `PRAGMA synchronous` of the writing connection, for a test; 2 is FULL.
    package func synchronousLevel() throws -> Int {
        try connections.inspect { try Int.fetchOne($0, sql: "PRAGMA synchronous") ?? -1 }
    }

    /// Returns the number of idempotency records.
    package func idempotencyRecordCount() async throws -> Int {
        try connections.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done_write") ?? 0 }
    }

    /// Returns the number of stored signatures.
    package func signedWriteCount() async throws -> Int {
        try connections.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM signed_write") ?? 0 }
    }

    /// The statements that read a zone's feed, for a test of their query plans.
    package static var feedStatements: [String] { [SQLiteReader.forwardFeed, SQLiteReader.forwardLiveFeed] }

    /// Returns the result of SQLite's check of the whole file: `ok` if nothing is wrong.
    package func integrityReport() throws -> String {
        try connections.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") ?? "no answer" }
    }
}
