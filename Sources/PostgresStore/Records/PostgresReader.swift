#if Postgres
    package import Records
    package import RelayCore
    import StoreKit
    import Wire

    /// Reads one state of a store; valid for one access.
    package class PostgresReader: StoreReader {
        package let transaction: PostgresTransaction
        /// The limits and the accumulated cost of queries in this access.
        var queryWork = QueryWork()
        private let readState: () throws(PostgresError) -> PostgresState
        /// Whether a request could not be read because rows are damaged.
        private(set) var hasMetDamage = false
        /// Called with each failure of the database.
        var onFailure: (PostgresError) -> Void = { _ in }
        /// Bytes of the records that were read in full or written.
        var recordBytes = 0
        /// The cost of a record besides its fields, in bytes.
        static let bytesOfRow = 512

        /// - Parameters:
        ///   - transaction: the transaction in which it reads.
        ///   - readState: returns the state of the container that the transaction sees.
        init(_ transaction: PostgresTransaction, readState: @escaping () throws(PostgresError) -> PostgresState) {
            self.transaction = transaction
            self.readState = readState
        }

        var home: HomeRow { transaction.home }

        package var schema: Schema {
            get throws(RelayError) { try attempt { try readState().schema } }
        }

        package var subscriptionsVersion: UInt64 {
            get throws(RelayError) { try attempt { try readState().subscriptionsVersion } }
        }

        /// Runs statements and converts errors to `RelayError`.
        package func attempt<Result>(_ body: () throws -> Result) throws(RelayError) -> Result {
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
            let code = (error as? PostgresError)?.code ?? .damaged
            if let error = error as? PostgresError { onFailure(error) }
            if code == .damaged { hasMetDamage = true }
            return PostgresError.relayError(for: error)
        }

        // MARK: Zones

        static let zoneColumns = """
            z.id, z.name, z.identity, z.last_change, z.deleted, z.record_bytes, z.asset_bytes, z.shared, z.loss, \
            z.last_modified
            """
        static let zoneColumnCount: Int32 = 10

        /// Reads `zoneColumns`, which begin at the column `first`.
        static func zone(_ row: PostgresRow, from first: Int32 = 0, of owner: UserID) -> Zone {
            var zone = Zone(
                number: row.int(first),
                id: ZoneID(row.text(first + 1), owner: owner),
                identity: row.unsigned(first + 2),
                lastChange: row.unsigned(first + 3),
                isDeleted: row.bool(first + 4),
                sharing: Zone.Sharing(rawValue: row.int(first + 7)) ?? .nothing
            )
            zone.use = StorageUse(records: row.int(first + 5), assets: row.int(first + 6))
            zone.deletionReason = ZoneDeletionReason(rawValue: row.int(first + 8)) ?? .deleted
            zone.lastModified = Timestamp(milliseconds: row.int(first + 9))
            return zone
        }

        package func zone(_ id: ZoneID) throws(RelayError) -> Zone? {
            try attempt {
                guard let owner = try transaction.number(of: id.owner) else { return nil }
                let rows = try transaction.query(
                    "SELECT \(Self.zoneColumns) FROM zone z WHERE owner = $1 AND name = $2 AND NOT deleted",
                    .int(owner),
                    .text(id.zoneName)
                )
                return rows.first.map { Self.zone($0, of: id.owner) }
            }
        }

        // The writer overrides these, so they cannot be in an extension.

        package func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
            try readZone(id, sharedWith: user)
        }

        package func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
            try readShares(covering: names, in: zone)
        }

        private func zones(of owner: UserID, _ which: String, _ more: [PostgresValue] = []) throws(RelayError) -> [Zone]
        {
            try attempt {
                guard let number = try transaction.number(of: owner) else { return [] }
                var query = PostgresPipeline()
                query.add("SELECT \(Self.zoneColumns) FROM zone z WHERE \(which)", [.int(number)] + more)
                return try transaction.run(query)[0].map { Self.zone($0, of: owner) }
            }
        }

        package func liveZones(of owner: UserID) throws(RelayError) -> [Zone] {
            try zones(of: owner, "owner = $1 AND NOT deleted ORDER BY last_change")
        }

        package func endedZones(of owner: UserID, after change: UInt64) throws(RelayError) -> [Zone] {
            try zones(of: owner, "owner = $1 AND deleted AND ended > $2 ORDER BY ended", [.unsigned(change)])
        }

        package func lastDeletion(ofZonesOf owner: UserID) throws(RelayError) -> UInt64 {
            try number("SELECT coalesce(max(ended), 0) FROM zone WHERE owner = $1 AND deleted", of: owner)
        }

        package func zoneCount(of owner: UserID) throws(RelayError) -> Int {
            Int(try number("SELECT count(*) FROM zone WHERE owner = $1 AND NOT deleted", of: owner))
        }

        private func number(_ sql: String, of owner: UserID) throws(RelayError) -> UInt64 {
            try attempt {
                guard let number = try transaction.number(of: owner) else { return 0 }
                return try transaction.query(sql, .int(number)).first?.unsigned(0) ?? 0
            }
        }

        package func deletionReason(of id: ZoneID, identity: UInt64) throws(RelayError) -> ZoneDeletionReason? {
            try attempt {
                guard let owner = try transaction.number(of: id.owner) else { return nil }
                let row = try transaction.query(
                    "SELECT loss FROM zone WHERE identity = $1 AND owner = $2 AND name = $3 AND deleted",
                    .unsigned(identity),
                    .int(owner),
                    .text(id.zoneName)
                ).first
                return row.flatMap { ZoneDeletionReason(rawValue: $0.int(0)) }
            }
        }

        // MARK: Storage

        package func storageUse(of owner: UserID) throws(RelayError) -> StorageUse {
            try attempt {
                guard let number = try transaction.number(of: owner) else { return StorageUse() }
                let row = try transaction.query(
                    """
                    SELECT coalesce(sum(record_bytes), 0)::bigint, coalesce(sum(asset_bytes), 0)::bigint FROM zone
                    WHERE owner = $1 AND NOT deleted
                    """,
                    .int(number)
                ).first
                return row.map { StorageUse(records: $0.int(0), assets: $0.int(1)) } ?? StorageUse()
            }
        }

        /// The number of users, counted by their default zones.
        ///
        /// A user has a default zone from the first request on. A user that was only named by others has none. Shard 1 also
        /// counts the users whose default zone is on another shard: see `ShardPeers.note(_:isUser:)`.
        package var userCount: Int {
            get throws(RelayError) {
                try attempt {
                    let rows = try transaction.query(
                        """
                        SELECT (
                            SELECT count(*) FROM zone z JOIN owner o ON o.id = z.owner AND o.state < 2
                            WHERE z.home = $1 AND z.name = '_defaultZone' AND NOT z.deleted AND z.owner <> $2
                        ) + (
                            SELECT count(*) FROM owner o JOIN person p ON p.id = o.id AND p.home = $1
                            WHERE o.state = 2 AND o.is_user
                        )
                        """,
                        .int(home.number),
                        .int(home.publicOwner)
                    )
                    return Int(rows.first?.int(0) ?? 0)
                }
            }
        }

        package func transfer(in month: CalendarMonth) throws(RelayError) -> Int64 {
            try attempt {
                try transaction.query(
                    "SELECT bytes FROM transfer WHERE home = $1 AND month = $2",
                    .int(home.number),
                    .int(Int64(month.number))
                ).first?.int(0) ?? 0
            }
        }

        // MARK: Records

        static let recordColumns = """
            r.change, r.name, r.type, r.deleted, r.created_at, r.created_by, r.created_device, \
            r.modified_at, r.modified_by, r.modified_device, r.parent, r.share, r.fields
            """
        static let recordColumnCount: Int32 = 13
        /// The same with the fields of shares alone, whose type has the name `$4` in the home `$3`.
        private static let columnsWithoutFields = recordColumns.replacing(
            "r.fields",
            with: """
                CASE WHEN r.type IN (SELECT id FROM record_type WHERE home = $3 AND name = $4) THEN r.fields ELSE '{}' END
                """
        )
        private static let named = """
            FROM unnest($2::text[]) AS n (name) CROSS JOIN \(PostgresSharingRows.record(named: "n.name")) r
            """

        package func records(
            named wanted: [String],
            in zone: Zone,
            withFields: Bool
        ) throws(RelayError) -> [String: StoredRecord] {
            guard !wanted.isEmpty else { return [:] }
            return try attempt {
                if let view = zone.view, view.isPartial {
                    return try records(named: wanted, in: zone, through: view, withFields: withFields)
                }
                let values: [PostgresValue] = [.int(zone.number), .texts(Array(Set(wanted)))]
                var query = PostgresPipeline()
                if withFields {
                    query.add("SELECT \(Self.recordColumns) \(Self.named)", values)
                } else {
                    query.add(
                        "SELECT \(Self.columnsWithoutFields) \(Self.named)",
                        values + [.int(home.number), .text(Share.recordType)]
                    )
                }
                let records = try self.records(in: transaction.run(query)[0])
                return Dictionary(records.map { ($0.name, $0) }) { first, _ in first }
            }
        }

        /// Returns the records in rows that begin with `recordColumns`, with the shares of those that are share records.
        func records(in rows: PostgresRows) throws -> [StoredRecord] {
            try learnNames(in: rows)
            var records = try rows.map { try record(in: $0) }
            try addShares(to: &records)
            return records
        }

        /// Looks up the authors and types of all rows at once; `record` then needs no round trip.
        func learnNames(in rows: PostgresRows, from first: Int32 = 0) throws {
            var (users, types): (Set<Int64>, Set<Int64>) = ([], [])
            for row in rows where !row.isNull(first) {
                users.insert(row.int(first + 5))
                users.insert(row.int(first + 8))
                types.insert(row.int(first + 2))
            }
            try transaction.learn(users: users, types: types)
        }

        /// Returns the record in a row of `recordColumns`, without the participants of a share.
        func record(in row: PostgresRow, from first: Int32 = 0) throws -> StoredRecord {
            let record = StoredRecord(
                name: row.text(first + 1),
                type: try transaction.type(row.int(first + 2)),
                change: row.unsigned(first),
                created: .init(
                    at: Timestamp(milliseconds: row.int(first + 4)),
                    by: try transaction.user(row.int(first + 5)),
                    device: DeviceFingerprint(bits: row.unsigned(first + 6))
                ),
                modified: .init(
                    at: Timestamp(milliseconds: row.int(first + 7)),
                    by: try transaction.user(row.int(first + 8)),
                    device: DeviceFingerprint(bits: row.unsigned(first + 9))
                ),
                parent: row.optionalText(first + 10),
                share: row.optionalText(first + 11),
                fields: row.bytes(first + 12),
                isDeleted: row.bool(first + 3)
            )
            recordBytes += record.fields.count + Self.bytesOfRow
            return record
        }
    }
#endif
