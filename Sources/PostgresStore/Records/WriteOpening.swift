#if Postgres
    import Records
    import RelayCore

    /// The first round trip of a transaction that writes: its locks, its change numbers, and what its writes read first.
    struct WriteOpening {
        /// The numbers of the owners to lock.
        let owners: [UserID: Int64]
        /// The zones, and the names of records in each, as far as the writes have announced them.
        private var zones: [(id: ZoneID, names: [String])] = []
        private var outcomes: [(key: OutcomeKey, person: Int64)] = []
        /// The number of change numbers to take.
        private var changes = 0

        /// The most records that are read ahead: their fields may take much memory.
        private static let mostRecords = 2_000

        /// - Parameters:
        ///   - writes: the writes of the transaction.
        ///   - ensureOwners: returns the numbers of users, who all have a row in `owner` then.
        /// - Throws: what `ensureOwners` throws.
        init(
            _ writes: [any StoreWrite],
            ensureOwners: (Set<UserID>) throws(PostgresError) -> [UserID: Int64]
        ) throws(PostgresError) {
            owners = try ensureOwners(Set(writes.compactMap(\.owner)))
            var records: [ZoneID: Set<String>] = [:]
            var count = 0
            for write in writes {
                changes += 2
                guard let owner = write.owner else { continue }
                let prefetch = write.prefetch
                // What belongs to another owner may change until it is used.
                for (zone, names) in prefetch.records where zone.owner == owner {
                    changes += names.count
                    let isTooMuch = count + names.count > Self.mostRecords
                    if !isTooMuch { count += names.count }
                    records[zone, default: []].formUnion(isTooMuch ? [] : names)
                }
                if let key = prefetch.idempotencyKey, let person = owners[key.user] {
                    outcomes.append((OutcomeKey(owner: owner, user: key.user, id: key.id), person))
                }
            }
            zones = records.map { ($0, Array($1)) }
            changes = min(changes, 10_000)
        }

        func statements(of home: HomeRow, exclusively isExclusive: Bool) -> PostgresPipeline {
            var statements = PostgresPipeline()
            // The first lock of all: see `HomeRow.schemaLock`.
            statements.add(
                isExclusive ? "SELECT pg_advisory_xact_lock($1)" : "SELECT pg_advisory_xact_lock_shared($1)",
                .int(home.schemaLock)
            )
            let ids = owners.values.sorted()
            // In the order of the numbers, so that two transactions never wait for each other.
            let lock: (String, PostgresValue) = (
                """
                SELECT id, epoch, last_change, done_writes, state, moved_to FROM owner WHERE id = ANY($1)
                ORDER BY id FOR UPDATE
                """,
                .ints(ids)
            )
            let numbers: (String, PostgresValue) = (
                "SELECT nextval('change') FROM generate_series(1, $1)", .int(Int64(changes))
            )
            // In a statement behind the lock: numbers that are taken while it waits would be smaller than those of the
            // transaction for which it waits.
            let (first, second) = Self.ordered(lock, numbers)
            for (sql, value) in [first, second] { statements.add(sql, value) }
            statements.add(HomeVersions.select, .int(home.number))
            statements.add(
                """
                SELECT owner, sum(record_bytes)::bigint, sum(asset_bytes)::bigint FROM zone
                WHERE owner = ANY($1) AND NOT deleted GROUP BY owner
                """,
                .ints(ids)
            )
            let zones = zones.map { (owner: owners[$0.id.owner], name: $0.id.zoneName, names: $0.names) }
            statements.add(
                """
                SELECT \(PostgresReader.zoneColumns), z.owner FROM unnest($1::bigint[], $2::text[]) AS w (owner, name)
                CROSS JOIN \(LookUp.rows(of: "zone", where: "owner = w.owner AND name = w.name AND NOT deleted")) z
                """,
                .ints(zones.map(\.owner)),
                .texts(zones.map(\.name))
            )
            let records = zones.flatMap { zone in zone.names.map { (zone.owner, zone.name, $0) } }
            statements.add(
                """
                SELECT \(PostgresReader.recordColumns), r.zone
                FROM unnest($1::bigint[], $2::text[], $3::text[]) AS w (owner, zone, name)
                CROSS JOIN \(LookUp.rows(of: "zone", where: "owner = w.owner AND name = w.zone AND NOT deleted")) z
                CROSS JOIN \(LookUp.rows(of: "record", where: "zone = z.id AND name = w.name")) r
                """,
                .ints(records.map(\.0)),
                .texts(records.map(\.1)),
                .texts(records.map(\.2))
            )
            statements.add(
                """
                SELECT d.owner, d.person, d.id, d.print, d.places
                FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS w (owner, person, id)
                CROSS JOIN \(LookUp.rows(of: "done_write", where: "owner = w.owner AND person = w.person AND id = w.id")) d
                """,
                .ints(outcomes.map { owners[$0.key.owner] }),
                .ints(outcomes.map(\.person)),
                .texts(outcomes.map(\.key.id))
            )
            return statements
        }

        /// What the first round trip has returned.
        struct Answer {
            private(set) var owners: [UserID: PostgresWriter.LockedOwner] = [:]
            /// The owners whose data must not be written here.
            private(set) var elsewhere: [UserID: OwnerPlace] = [:]
            private var numbers: [UInt64]
            let versions: HomeVersions
            private let zones: PostgresRows
            private let records: PostgresRows
            private let outcomes: PostgresRows

            init(
                _ rows: ArraySlice<PostgresRows>,
                of opening: WriteOpening,
                versions read: (PostgresRows) throws(PostgresError) -> HomeVersions
            ) throws(PostgresError) {
                let rows = Array(rows)
                let names = Dictionary(opening.owners.map { ($0.value, $0.key) }) { $1 }
                let (locked, taken) = WriteOpening.ordered(rows[1], rows[2])
                for row in locked {
                    guard let owner = names[row.int(0)] else { continue }
                    owners[owner] = PostgresWriter.LockedOwner(
                        number: row.int(0),
                        epoch: row.unsigned(1),
                        lastChange: row.unsigned(2),
                        doneWrites: row.int(3),
                        use: StorageUse()
                    )
                    let place = OwnerPlace(state: row.int(4), movedTo: row.optionalInt(5))
                    if place != .here, !PostgresFault.oldMapServed.isPlanted { elsewhere[owner] = place }
                }
                numbers = taken.reversed().map { $0.unsigned(0) }
                versions = try read(rows[3])
                for row in rows[4] {
                    guard let owner = names[row.int(0)] else { continue }
                    owners[owner]?.use = StorageUse(records: row.int(1), assets: row.int(2))
                }
                (zones, records, outcomes) = (rows[5], rows[6], rows[7])
            }

            /// Gives a writer what was read.
            func enter(into writer: PostgresWriter, _ opening: WriteOpening) throws {
                writer.owners = owners
                writer.numbers = numbers
                let names = Dictionary(opening.owners.map { ($0.value, $0.key) }) { $1 }
                var found: [ZoneID: Zone] = [:]
                for row in zones {
                    guard let owner = names[row.int(PostgresReader.zoneColumnCount)] else { continue }
                    let zone = PostgresReader.zone(row, of: owner)
                    found[zone.id] = zone
                }
                for (id, names) in opening.zones {
                    let zone = found[id]
                    writer.keep(zone, of: id)
                    guard let zone else { continue }
                    let missing = names.map { ($0, StoredRecord?.none) }
                    writer.knownRecords[zone.number] = Dictionary(missing) { first, _ in first }
                }
                let read = try writer.records(in: records)
                for (row, record) in zip(records, read) {
                    writer.knownRecords[row.int(PostgresReader.recordColumnCount), default: [:]][record.name] = record
                }
                for (key, _) in opening.outcomes { writer.knownOutcomes.updateValue(nil, forKey: key) }
                for row in outcomes {
                    guard let owner = names[row.int(0)], let user = names[row.int(1)] else { continue }
                    writer.knownOutcomes[OutcomeKey(owner: owner, user: user, id: row.text(2))] = IdempotencyRecord(
                        fingerprint: row.unsigned(3),
                        completedOperations: row.bytes(4)
                    )
                }
            }
        }
    }
#endif
