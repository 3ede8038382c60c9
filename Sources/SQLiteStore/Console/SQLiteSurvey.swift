package import Records
package import RelayCore

/// The survey of a store on SQLite, which `SQLiteStore.survey` limits in time.
struct SQLiteSurvey: StoreSurvey {
    let reader: SQLiteReader

    func totals() throws(RelayError) -> StoreTotals {
        try reader.attempt {
            var totals = StoreTotals()
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

    func zones(with words: String, before change: UInt64, limit: Int) throws(RelayError) -> [SurveyedZone] {
        try reader.attempt {
            var numbers: [Int64] = []
            var found: [SurveyedZone] = []
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
                numbers.append(row.int(0))
                found.append(
                    SurveyedZone(
                        id: ZoneID(row.text(2), owner: UserID(row.text(1))),
                        lastChange: row.unsigned(3),
                        use: StorageUse(records: row.int(4), assets: row.int(5)),
                        sharing: Zone.Sharing(rawValue: row.int(6)) ?? .nothing
                    )
                )
            }
            for index in found.indices {
                found[index].records = try count(numbers[index], upTo: SurveyedZone.countBound)
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

    func zone(_ id: ZoneID) throws(RelayError) -> Zone? { try reader.zone(id) }

    func tail(of zone: Zone, limit: Int) throws(RelayError) -> [StoredRecord] {
        guard zone.lastChange > 0 else { return [] }
        var found: [StoredRecord] = []
        try reader.visitRecords(in: zone, changes: 1...zone.lastChange, backwards: true, limit: limit) { record, _ in
            found.append(record)
        }
        return found
    }

    func publicCounts(upTo bound: Int) throws(RelayError) -> [String: Int] {
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
    func survey<Result>(_ body: (SQLiteSurvey) throws(RelayError) -> Result) throws(RelayError) -> Result {
        try readRows { reader throws(RelayError) in
            try reader.attempt {
                try QueryTimeLimit.limited(on: reader.database) { try body(SQLiteSurvey(reader: reader)) }
            }
        }
    }
}

extension StoreFolder {
    package func survey<Result>(
        _ home: ContainerEnvironment,
        _ body: (any StoreSurvey) throws(RelayError) -> Result
    ) throws(RelayError) -> Result? {
        guard isThere(home) else { return nil }
        return try sqliteStore(of: home).survey(body)
    }
}

/// Shares, subscriptions and indexes.
extension SQLiteSurvey {
    func shares(limit: Int, id: Int64?) throws(RelayError) -> [SurveyedShare] {
        try reader.attempt {
            var found: [(Int64, SurveyedShare)] = []
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
                let share = SurveyedShare(
                    id: row.int(0),
                    zone: ZoneID(row.text(2), owner: UserID(row.text(1))),
                    recordName: row.text(5),
                    isZoneWide: row.bool(3),
                    publicPermission: Share.Permission(rawValue: Int(row.int(4))) ?? .none
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

    func subscriptions(limit: Int) throws(RelayError) -> [SurveyedSubscription] {
        try reader.attempt {
            var found: [SurveyedSubscription] = []
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

    func indexes(upTo bound: Int) throws(RelayError) -> [SurveyedIndex] {
        try reader.attempt {
            var found: [(Int64, SurveyedIndex)] = []
            try rows(
                """
                SELECT i.id, t.name, i.target, i.built_to >= i.goal FROM field_index i
                JOIN record_type t ON t.id = i.type WHERE i.dropped = 0 ORDER BY t.name, i.target
                """
            ) { row in
                let index = SurveyedIndex(
                    recordType: row.text(1),
                    target: row.text(2),
                    isComplete: row.bool(3)
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
