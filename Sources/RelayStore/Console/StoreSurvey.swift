package import Records
package import RelayCore

/// An overview of a store: names of zones and users, counts, and shares, but no contents of records.
///
/// Reads one committed state. Every call is limited in rows and, through `SQLiteStore.survey`, in time.
package struct StoreSurvey {
    let reader: SQLiteReader

    package struct ZoneRow: Sendable {
        package var number: Int64
        package var id: ZoneID
        package var lastChange: UInt64
        package var modified: Timestamp?
        package var use: StorageUse
        package var sharing: Zone.Sharing
        /// The number of live records, counted up to the survey's bound.
        package var records: Int
    }

    package struct Totals: Sendable {
        package var users = 0
        package var zones = 0
        package var use = StorageUse()
        package var publicUse = StorageUse()
        package var shares = 0
        package var subscriptions = 0

        package init() {}
    }

    /// The bound for counting records, where many counts are requested.
    package static let countBound = 1_000

    package var schema: Schema { get throws(RelayError) { try reader.schema } }

    package func totals() throws(RelayError) -> Totals {
        try reader.attempt {
            var totals = Totals()
            totals.users = try reader.committedUserCount()
            try rows("SELECT count(*), sum(record_bytes), sum(asset_bytes) FROM zone WHERE deleted = 0") { row in
                totals.zones = Int(row.int(0))
                totals.use = StorageUse(records: row.int(1), assets: row.int(2))
            }
            try rows("SELECT count(*) FROM share") { totals.shares = Int($0.int(0)) }
            try rows("SELECT count(*) FROM subscription") { totals.subscriptions = Int($0.int(0)) }
            totals.publicUse = try reader.committedUse(of: Zone.publicOwner)
            return totals
        }
    }

    /// Returns live zones, most recently changed first, at most `limit`.
    ///
    /// Only zones whose name or owner's name contains `words`; for the next page, only those changed before `change`.
    package func zones(
        with words: String,
        before change: UInt64 = .max,
        limit: Int
    ) throws(RelayError) -> [ZoneRow] {
        try reader.attempt {
            var found: [ZoneRow] = []
            try rows(
                """
                SELECT z.id, u.name, z.name, z.last_change, z.record_bytes, z.asset_bytes, z.shared
                FROM zone z JOIN user u ON u.id = z.owner
                WHERE z.deleted = 0 AND z.last_change < ?1
                AND (?2 = '' OR instr(lower(z.name || ' ' || u.name), lower(?2)) > 0)
                ORDER BY z.last_change DESC LIMIT ?3
                """,
                { statement in
                    statement.bind(1, Int64(clamping: change))
                    statement.bind(2, words)
                    statement.bind(3, Int64(limit))
                }
            ) { row in
                found.append(
                    ZoneRow(
                        number: row.int(0),
                        id: ZoneID(row.text(2), owner: UserID(row.text(1))),
                        lastChange: row.unsigned(3),
                        use: StorageUse(records: row.int(4), assets: row.int(5)),
                        sharing: Zone.Sharing(rawValue: row.int(6)) ?? .nothing,
                        records: 0
                    )
                )
            }
            for index in found.indices {
                found[index].records = try count(found[index].number, upTo: Self.countBound)
                try rows("SELECT modified_at FROM record WHERE change = ?", { $0.bind(1, found[index].lastChange) }) {
                    found[index].modified = Timestamp(milliseconds: $0.int(0))
                }
            }
            return found
        }
    }

    /// Counts the zone's live records, up to a bound.
    private func count(_ zone: Int64, upTo limit: Int) throws -> Int {
        let names =
            zone == 1
            ? "SELECT 1 FROM record INDEXED BY public_by_modified WHERE zone = 1 AND deleted = 0 AND ?1 = 1 LIMIT ?2"
            : """
            SELECT 1 FROM zone_run z CROSS JOIN record r INDEXED BY live_by_run
            ON r.run = z.run AND r.zone = z.zone AND r.deleted = 0 WHERE z.zone = ?1 LIMIT ?2
            """
        var count = 0
        try rows(
            "SELECT count(*) FROM (\(names))",
            { statement in
                statement.bind(1, zone)
                statement.bind(2, Int64(limit + 1))
            },
            { count = Int($0.int(0)) }
        )
        return count
    }

    /// Returns the live zone with this ID.
    package func zone(_ id: ZoneID) throws(RelayError) -> Zone? { try reader.zone(id) }

    /// Returns the newest entries of a zone's log, including tombstones.
    package func tail(of zone: Zone, limit: Int) throws(RelayError) -> [StoredRecord] {
        guard zone.lastChange > 0 else { return [] }
        var found: [StoredRecord] = []
        try reader.visitRecords(in: zone, changes: 1...zone.lastChange, backwards: true, limit: limit) { record, _ in
            found.append(record)
        }
        return found
    }

    /// Returns the number of live records of each type in the public database, counted up to `bound`.
    package func publicCounts(upTo bound: Int) throws(RelayError) -> [String: Int] {
        try reader.attempt {
            var types: [(Int64, String)] = []
            try rows("SELECT id, name FROM record_type") { types.append(($0.int(0), $0.text(1))) }
            var counts: [String: Int] = [:]
            for (number, name) in types {
                try rows(
                    """
                    SELECT count(*) FROM (SELECT 1 FROM record INDEXED BY public_by_modified
                    WHERE zone = 1 AND deleted = 0 AND type = ?1 LIMIT ?2)
                    """,
                    { statement in
                        statement.bind(1, number)
                        statement.bind(2, Int64(bound + 1))
                    },
                    { counts[name] = Int($0.int(0)) }
                )
            }
            return counts
        }
    }

    /// Runs a statement and calls `visit` with each row.
    func rows(_ text: String, _ bind: (SQL) -> Void = { _ in }, _ visit: (SQL) throws -> Void) throws {
        let statement = try SQL(text, in: reader.database)
        defer { statement.reset() }
        bind(statement)
        while try statement.step() { try visit(statement) }
    }
}

extension SQLiteStore {
    /// Runs `body` on one committed state, for a few seconds at most.
    package func survey<Result>(_ body: (StoreSurvey) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try read { reader throws(RelayError) in
            guard let reader = reader as? SQLiteReader else {
                throw RelayError(.internalError, "This store cannot be surveyed.")
            }
            return try reader.attempt {
                try QueryTimeLimit.limited(on: reader.database) { try body(StoreSurvey(reader: reader)) }
            }
        }
    }
}

extension StoreFolder {
    /// Returns the store of an environment that has been used; creates no file.
    package func existingStore(of home: ContainerEnvironment) throws(RelayError) -> SQLiteStore? {
        isThere(home) ? try sqliteStore(of: home) : nil
    }
}

/// Shares, subscriptions and indexes.
extension StoreSurvey {
    package struct ShareRow: Sendable {
        /// The row ID, which is valid for the life of the store.
        package var id: Int64
        package var zone: ZoneID
        /// The share record's name; for a share of a hierarchy the owner's app chose it, and it is not shown to
        /// operators.
        package var recordName: String
        package var isZoneWide: Bool
        package var publicPermission: Share.Permission
        package var participants: [Share.Participant]
    }

    package struct UserSubscriptionRow: Sendable {
        package var user: UserID
        package var scope: DatabaseScope
        package var subscription: Subscription
    }

    package struct IndexRow: Sendable {
        package var recordType: String
        /// The name of the field, or the index's other target.
        package var target: String
        package var isComplete: Bool
        /// The number of entries, counted up to a bound.
        package var entries: Int
    }

    /// Returns shares, newest first; only the one with `id` if it is given.
    package func shares(limit: Int, id: Int64? = nil) throws(RelayError) -> [ShareRow] {
        try reader.attempt {
            var found: [(Int64, ShareRow)] = []
            try rows(
                """
                SELECT s.id, u.name, z.name, s.root IS NULL, s.public_permission, s.name FROM share s
                JOIN zone z ON z.id = s.zone JOIN user u ON u.id = z.owner
                WHERE z.deleted = 0 AND (?2 = 0 OR s.id = ?2) ORDER BY s.id DESC LIMIT ?1
                """,
                {
                    $0.bind(1, Int64(limit))
                    $0.bind(2, id ?? 0)
                }
            ) { row in
                let share = ShareRow(
                    id: row.int(0),
                    zone: ZoneID(row.text(2), owner: UserID(row.text(1))),
                    recordName: row.text(5),
                    isZoneWide: row.bool(3),
                    publicPermission: Share.Permission(rawValue: Int(row.int(4))) ?? .none,
                    participants: []
                )
                found.append((row.int(0), share))
            }
            return try found.map { number, share in
                var share = share
                share.participants = try reader.participants(of: number)
                return share
            }
        }
    }

    package func subscriptions(limit: Int) throws(RelayError) -> [UserSubscriptionRow] {
        try reader.attempt {
            var found: [UserSubscriptionRow] = []
            try rows(
                """
                SELECT \(SubscriptionRow.columns), u.name, s.scope FROM subscription s JOIN user u ON u.id = s.user
                ORDER BY u.name, s.scope, s.id LIMIT ?
                """,
                { $0.bind(1, Int64(limit)) }
            ) { row in
                guard let scope = DatabaseScope(rawValue: Int(row.int(9))) else { return }
                found.append(
                    .init(user: UserID(row.text(8)), scope: scope, subscription: SubscriptionRow.read(row))
                )
            }
            return found
        }
    }

    /// Returns the indexes that queries have created.
    package func indexes(upTo bound: Int) throws(RelayError) -> [IndexRow] {
        try reader.attempt {
            var found: [(Int64, IndexRow)] = []
            try rows(
                """
                SELECT i.id, t.name, i.target, i.built_to >= i.goal FROM field_index i
                JOIN record_type t ON t.id = i.type WHERE i.dropped = 0 ORDER BY t.name, i.target
                """
            ) { row in
                let index = IndexRow(
                    recordType: row.text(1),
                    target: row.text(2),
                    isComplete: row.bool(3),
                    entries: 0
                )
                found.append((row.int(0), index))
            }
            return try found.map { number, index in
                var index = index
                try rows(
                    "SELECT count(*) FROM (SELECT 1 FROM field_value WHERE field = ?1 LIMIT ?2)",
                    { statement in
                        statement.bind(1, number)
                        statement.bind(2, Int64(bound + 1))
                    },
                    { index.entries = Int($0.int(0)) }
                )
                return index
            }
        }
    }
}
