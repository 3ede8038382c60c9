#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    /// The survey of a store on PostgreSQL.
    struct PostgresSurvey: StoreSurvey {
        let reader: PostgresReader

        private var transaction: PostgresTransaction { reader.transaction }
        private var home: Int64 { reader.home.number }

        func totals() throws(RelayError) -> StoreTotals {
            try reader.attempt {
                var query = PostgresPipeline()
                query.add(
                    """
                    SELECT count(*), coalesce(sum(record_bytes), 0)::bigint, coalesce(sum(asset_bytes), 0)::bigint
                    FROM zone WHERE home = $1 AND NOT deleted
                    """,
                    .int(home)
                )
                query.add("SELECT count(*) FROM share WHERE home = $1", .int(home))
                query.add("SELECT count(*) FROM subscription WHERE home = $1", .int(home))
                let rows = try transaction.run(query)
                var totals = StoreTotals()
                if let zones = rows[0].first {
                    totals.zones = Int(zones.int(0))
                    totals.use = StorageUse(records: zones.int(1), assets: zones.int(2))
                }
                totals.shares = Int(rows[1].first?.int(0) ?? 0)
                totals.subscriptions = Int(rows[2].first?.int(0) ?? 0)
                totals.users = try reader.userCount
                totals.publicUse = try reader.storageUse(of: Zone.publicOwner)
                return totals
            }
        }

        /// Counts the zone's live records, up to a bound; the record with the zone's latest change is live or a tombstone,
        /// and each has an index.
        private static let zones = """
            SELECT z.owner_name, z.name, z.last_change, z.record_bytes, z.asset_bytes, z.shared,
                (SELECT count(*) FROM (SELECT 1 FROM record r WHERE r.zone = z.id AND NOT r.deleted LIMIT $5) c),
                coalesce(
                    (SELECT r.modified_at FROM record r
                        WHERE r.zone = z.id AND r.change = z.last_change AND NOT r.deleted),
                    (SELECT r.modified_at FROM record r
                        WHERE r.zone = z.id AND r.change = z.last_change AND r.deleted))
            FROM (
                SELECT z.*, u.name AS owner_name FROM zone z JOIN person u ON u.id = z.owner
                WHERE z.home = $1 AND NOT z.deleted AND z.last_change < $2
                AND ($3 = '' OR position(lower($3) IN lower(z.name || ' ' || u.name)) > 0)
                ORDER BY z.last_change DESC LIMIT $4) z
            ORDER BY z.last_change DESC
            """

        func zones(with words: String, before change: UInt64, limit: Int) throws(RelayError) -> [SurveyedZone] {
            try reader.attempt {
                let rows = try transaction.query(
                    Self.zones,
                    .int(home),
                    .int(Int64(clamping: change)),
                    .text(words),
                    .int(Int64(limit)),
                    .int(Int64(SurveyedZone.countBound + 1))
                )
                return rows.map { row in
                    var zone = SurveyedZone(
                        id: ZoneID(row.text(1), owner: UserID(row.text(0))),
                        lastChange: row.unsigned(2),
                        use: StorageUse(records: row.int(3), assets: row.int(4)),
                        sharing: Zone.Sharing(rawValue: row.int(5)) ?? .nothing
                    )
                    zone.records = Int(row.int(6))
                    zone.modified = row.optionalInt(7).map { Timestamp(milliseconds: $0) }
                    return zone
                }
            }
        }

        func zone(_ id: ZoneID) throws(RelayError) -> Zone? { try reader.zone(id) }

        func tail(of zone: Zone, limit: Int) throws(RelayError) -> [StoredRecord] {
            guard zone.lastChange > 0 else { return [] }
            var found: [StoredRecord] = []
            try reader.visitRecords(in: zone, changes: 1...zone.lastChange, backwards: true, limit: limit) {
                record,
                _ in
                found.append(record)
            }
            return found
        }

        func publicCounts(upTo bound: Int) throws(RelayError) -> [String: Int] {
            try reader.attempt {
                let rows = try transaction.query(
                    """
                    SELECT t.name, (SELECT count(*) FROM (
                        SELECT 1 FROM record r WHERE r.zone = $2 AND NOT r.deleted AND r.type = t.id LIMIT $3) c)
                    FROM record_type t WHERE t.home = $1
                    """,
                    .int(home),
                    .int(reader.home.publicZone),
                    .int(Int64(bound + 1))
                )
                return Dictionary(rows.map { ($0.text(0), Int($0.int(1))) }) { $1 }
            }
        }

        // MARK: Shares, subscriptions and indexes

        func shares(limit: Int, id: Int64?) throws(RelayError) -> [SurveyedShare] {
            try reader.attempt {
                let rows = try transaction.query(
                    """
                    SELECT s.id, u.name, z.name, s.root IS NULL, s.public_permission, s.name FROM share s
                    JOIN zone z ON z.id = s.zone JOIN person u ON u.id = z.owner
                    WHERE s.home = $1 AND NOT z.deleted AND ($2::bigint IS NULL OR s.id = $2)
                    ORDER BY s.id DESC LIMIT $3
                    """,
                    .int(home),
                    .int(id),
                    .int(Int64(limit))
                )
                let people = try reader.rows.participants(of: rows.map { $0.int(0) })
                return rows.map { row in
                    var share = SurveyedShare(
                        id: row.int(0),
                        zone: ZoneID(row.text(2), owner: UserID(row.text(1))),
                        recordName: row.text(5),
                        isZoneWide: row.bool(3),
                        publicPermission: Share.Permission(rawValue: Int(row.int(4))) ?? .none
                    )
                    share.participants = people[row.int(0)] ?? []
                    return share
                }
            }
        }

        func subscriptions(limit: Int) throws(RelayError) -> [SurveyedSubscription] {
            try reader.attempt {
                let rows = try transaction.query(
                    """
                    SELECT \(SubscriptionColumns.names), s.scope, u.name FROM subscription s
                    JOIN person u ON u.id = s.person WHERE s.home = $1 ORDER BY u.name, s.scope, s.id LIMIT $2
                    """,
                    .int(home),
                    .int(Int64(limit))
                )
                return rows.compactMap { row in
                    guard let scope = DatabaseScope(rawValue: Int(row.int(SubscriptionColumns.count))) else {
                        return nil
                    }
                    return SurveyedSubscription(
                        user: UserID(row.text(SubscriptionColumns.count + 1)),
                        scope: scope,
                        subscription: SubscriptionColumns(row).subscription
                    )
                }
            }
        }

        func indexes(upTo bound: Int) throws(RelayError) -> [SurveyedIndex] {
            try reader.attempt {
                let rows = try transaction.query(
                    """
                    SELECT t.name, i.target, i.is_ready, (SELECT count(*) FROM (
                        SELECT 1 FROM field_value v WHERE v.field = i.id LIMIT $2) c)
                    FROM field_index i JOIN record_type t ON t.id = i.type
                    WHERE i.home = $1 AND NOT i.dropped ORDER BY t.name, i.target
                    """,
                    .int(home),
                    .int(Int64(bound + 1))
                )
                return rows.map { row in
                    var index = SurveyedIndex(recordType: row.text(0), target: row.text(1), isComplete: row.bool(2))
                    index.entries = Int(row.int(3))
                    return index
                }
            }
        }
    }

    extension PostgresStore {
        /// Runs `body` on one committed state; no statement runs for more than a few seconds.
        package func survey<Result>(
            _ body: (any StoreSurvey) throws(RelayError) -> Result
        ) throws(RelayError) -> Result {
            try readRows { reader throws(RelayError) in
                reader.transaction.later(
                    "SELECT set_config('statement_timeout', $1, true)",
                    .text("\(QueryTuning().longestRun.wholeMilliseconds)")
                )
                return try body(PostgresSurvey(reader: reader))
            }
        }
    }
#endif
