#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    /// The state that the next commit of some owners creates.
    ///
    /// Lives for one transaction, which holds the locks of these owners, on a commit thread.
    package final class PostgresWriter: PostgresReader, StoreWriter {
        /// An owner whose row the transaction has locked.
        struct LockedOwner {
            var number: Int64
            var epoch: UInt64
            /// The greatest change number that the owner has used.
            var lastChange: UInt64
            /// The number of outcomes that have been kept.
            var doneWrites: Int64
            var use: StorageUse?
            var isChanged = false
            var hasKeptOutcomes = false
        }

        /// What the store knows when the transaction begins, under the lock of the schema.
        struct Known {
            var state: PostgresState
            /// The record types that query subscriptions watch.
            var watchedTypes: Set<String>
            /// The indexes of queries, by the numbers of their record types.
            var indexes: [Int64: [FieldIndex]]
        }

        /// The owner of the write that runs; `nil` for work of the store itself.
        var owner: UserID?
        /// Whether the lock of the schema is held exclusively, so that no other write of the container runs anywhere.
        let isExclusive: Bool
        var owners: [UserID: LockedOwner] = [:]
        var known: Known
        var zones = ZoneCache()
        /// The zones that were looked for and do not exist.
        private var missingZones: Set<ZoneID> = []
        /// The records that are known, by the number of their zone; `nil` for one that does not exist.
        var knownRecords: [Int64: [String: StoredRecord?]] = [:]
        var knownOutcomes: [OutcomeKey: IdempotencyRecord?] = [:]
        /// The change numbers that were taken from the sequence and not used yet, in descending order.
        var numbers: [UInt64] = []
        var rowsToWrite = PostgresRecordRows()
        var indexEntries = PostgresIndexEntries()
        /// The zones whose last change and storage must be written before the commit.
        var stamped: Set<Int64> = []
        private var changedZones = ChangedZones()
        /// The changed records of watched types, in the order of the changes.
        var changedRecords: [CommittedRecord] = []
        var changedSubscriptions: [CommittedSubscription] = []
        var changedSubscriptionsVersion: UInt64 = 0
        /// Set when a statement fails: nothing of this transaction may be committed then.
        private(set) var failure: (any Error)?
        /// What a write needs that this transaction has not; the write runs again with it.
        enum Need {
            /// The lock of the schema exclusively.
            case exclusion
            /// The schema that shard 1 has.
            case newerSchema
            /// To run on shard 1.
            case control
        }

        private(set) var need: Need?
        var sharing = SharingState()
        /// The number of outcomes that are kept for each owner.
        let idempotencyRecordLimit: Int
        package let drawIdentity: () -> UInt64
        /// Whether idle work has been left: records of deleted zones, or entries of dropped indexes.
        var leavesIdleWork = false

        init(
            _ transaction: PostgresTransaction,
            known: Known,
            isExclusive: Bool,
            idempotencyRecordLimit: Int,
            drawIdentity: @escaping () -> UInt64
        ) {
            self.known = known
            self.isExclusive = isExclusive
            self.idempotencyRecordLimit = idempotencyRecordLimit
            self.drawIdentity = drawIdentity
            super.init(transaction) { () throws(PostgresError) in known.state }
            transaction.beforeSending = { [unowned self] in
                rowsToWrite.flush(into: &$0)
                indexEntries.flush(into: &$0)
            }
        }

        /// Begins a write.
        func begin(for owner: UserID?) {
            self.owner = owner
            sharing.endWrite()
        }

        package override var schema: Schema {
            get throws(RelayError) { known.state.schema }
        }

        package override var subscriptionsVersion: UInt64 {
            get throws(RelayError) { known.state.subscriptionsVersion }
        }

        override func report(_ error: any Error) -> RelayError {
            failure = failure ?? error
            return super.report(error)
        }

        /// Fails the transaction if the write that runs did not name this owner, whose row is not locked then.
        func requireOwner(_ touched: UserID) throws(RelayError) {
            guard let owner, owner != touched else { return }
            throw report(
                PostgresError(
                    .foreignOwner,
                    "A write of \(owner.recordName) touched the data of \(touched.recordName)."
                )
            )
        }

        /// Ends this run of the transaction's writes if the lock of the schema is not held exclusively; they run again.
        ///
        /// A shared lock cannot become an exclusive one: two transactions that tried would wait for each other.
        func requireExclusion() throws(RelayError) {
            guard !isExclusive, try !upgradesLock() else { return }
            need = need ?? .exclusion
            throw report(PostgresError(.conflict, "The write needs the schema's lock."))
        }

        /// Ends this run if the database is not that of shard 1, which has the subscriptions of all users.
        func requireControl() throws(RelayError) {
            guard transaction.peers != nil else { return }
            need = .control
            throw report(PostgresError(.conflict, "The write belongs to shard 1."))
        }

        // MARK: Numbers

        package func takeChangeNumber() -> UInt64 {
            if numbers.isEmpty {
                do throws(PostgresError) { try takeNumbers(64) } catch { _ = report(error) }
            }
            // After a failure nothing is committed.
            let number = numbers.popLast() ?? 0
            if let owner { noteChange(number, of: owner) }
            return number
        }

        /// Takes numbers from the sequence; the rows of the owners are locked.
        private func takeNumbers(_ count: Int) throws(PostgresError) {
            let rows = try transaction.query("SELECT nextval('change') FROM generate_series(1, $1)", .int(Int64(count)))
            numbers = rows.reversed().map { $0.unsigned(0) }
        }

        func noteChange(_ number: UInt64, of owner: UserID) {
            guard let place = owners.index(forKey: owner) else { return }
            if owners.values[place].lastChange < number { owners.values[place].lastChange = number }
            owners.values[place].isChanged = true
        }

        func epoch(of owner: UserID) throws -> UInt64 {
            if let locked = owners[owner] { return locked.epoch }
            guard isExclusive, let number = try transaction.number(of: owner) else {
                throw PostgresError.missing("an owner")
            }
            let row = try transaction.query(
                "SELECT epoch, last_change, done_writes FROM owner WHERE id = $1 FOR UPDATE",
                .int(number)
            ).first
            guard let row else { throw PostgresError.missing("an owner") }
            owners[owner] = LockedOwner(
                number: number,
                epoch: row.unsigned(0),
                lastChange: row.unsigned(1),
                doneWrites: row.int(2)
            )
            return row.unsigned(0)
        }

        // MARK: Zones

        package override func zone(_ id: ZoneID) throws(RelayError) -> Zone? {
            if let zone = zones.select(to: id) { return zone }
            if missingZones.contains(id) { return nil }
            let zone = try super.zone(id)
            // The zones of other owners may change at any time.
            guard isExclusive || owners[id.owner] != nil else { return zone }
            keep(zone, of: id)
            return zone
        }

        func keep(_ zone: Zone?, of id: ZoneID) {
            if let zone {
                zones.keep(zone)
                missingZones.remove(id)
            } else {
                missingZones.insert(id)
            }
        }

        package override func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
            guard var zone = try super.zone(id, sharedWith: user), let view = zone.view else { return nil }
            if !view.isPartial, let known = zones[id] { zone.lastChange = max(zone.lastChange, known.lastChange) }
            return zone
        }

        package override func liveZones(of owner: UserID) throws(RelayError) -> [Zone] {
            let found = try super.liveZones(of: owner).map { zones[$0.id] ?? $0 }
            return found.sorted { $0.lastChange < $1.lastChange }
        }

        package override func storageUse(of owner: UserID) throws(RelayError) -> StorageUse {
            if let use = owners[owner]?.use { return use }
            // Zones that this transaction has changed are written at its end.
            let use = try liveZones(of: owner).reduce(StorageUse()) { $0 + $1.use }
            owners[owner]?.use = use
            return use
        }

        package override func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
            let found = try super.shares(covering: names, in: zone)
            sharing.keep(covers: found, of: names, in: zone.number)
            return found
        }

        package func makeZone(_ id: ZoneID, by device: String) throws(RelayError) -> Zone {
            try requireOwner(id.owner)
            return try attempt {
                if id.isDefault { try transaction.peers?.note(id.owner, isUser: true) }
                let change = takeChangeNumber()
                let identity = drawIdentity()
                let row = try transaction.query(
                    """
                    INSERT INTO zone (home, owner, name, identity, last_change) VALUES ($1, $2, $3, $4, $5) RETURNING id
                    """,
                    .int(home.number),
                    .int(try transaction.ensureNumber(of: id.owner)),
                    .text(id.zoneName),
                    .unsigned(identity),
                    .unsigned(change)
                ).first
                guard let row else { throw PostgresError(.failed, "A zone was not inserted.") }
                let zone = Zone(number: row.int(0), id: id, identity: identity, lastChange: change)
                keep(zone, of: id)
                noteChange(change, of: id.owner)
                changedZones.zoneCreated(zone)
                try note(zone, by: device, of: id.owner)
                return zone
            }
        }

        package func deleteZone(_ zone: Zone, by device: String) throws(RelayError) {
            try requireOwner(zone.id.owner)
            try attempt {
                var zone = zone
                zone.lastChange = takeChangeNumber()
                zone.isDeleted = true
                noteChange(zone.lastChange, of: zone.id.owner)
                if zone.id.isDefault { try transaction.peers?.note(zone.id.owner, isUser: false) }
                if zone.sharing != .nothing {
                    sharing.audience.add(try ShareUpdate.end(sharesOf: zone, rows: rows, numbers: self), of: zone.id)
                }
                transaction.later(
                    """
                    UPDATE zone SET deleted = true, ended = $2, last_change = $2, loss = $3, record_bytes = $4, asset_bytes = $5
                    WHERE id = $1
                    """,
                    .int(zone.number),
                    .unsigned(zone.lastChange),
                    .int(zone.deletionReason.rawValue),
                    .int(zone.use.records),
                    .int(zone.use.assets)
                )
                zones.forget(zone)
                keep(nil, of: zone.id)
                owners[zone.id.owner]?.use = nil
                stamped.remove(zone.number)
                try note(zone, by: device, of: zone.id.owner)
                changedZones.zoneDeleted(zone)
                leavesIdleWork = true
            }
        }

        /// Adds the zone to the changes that the commit reports.
        ///
        /// `device` is the device of `author` that made the change.
        func note(_ zone: Zone, by device: String, of author: UserID) throws {
            guard zone.tracksChanges else { return }
            changedZones.note(zone, epoch: try epoch(of: zone.id.owner), by: device, of: author)
        }

        func token(of owner: UserID) throws -> (_ identity: UInt64, _ position: UInt64) -> ChangeToken {
            let epoch = try epoch(of: owner)
            return { ChangeToken(kind: .zone, log: $0, epoch: epoch, position: $1) }
        }

        // MARK: Records

        package override func records(
            named wanted: [String],
            in zone: Zone,
            withFields: Bool
        ) throws(RelayError) -> [String: StoredRecord] {
            if zone.view?.isPartial == true {
                return try super.records(named: wanted, in: zone, withFields: withFields)
            }
            let known = knownRecords[zone.number] ?? [:]
            var unknown: [String] = []
            var found: [String: StoredRecord] = [:]
            for name in wanted {
                if let record = known[name] {
                    found[name] = withFields ? record : record?.withoutFields
                } else {
                    unknown.append(name)
                }
            }
            guard !unknown.isEmpty else { return found }
            let read = try super.records(named: unknown, in: zone, withFields: withFields)
            // Records of other owners may change at any time.
            if withFields, isExclusive || owners[zone.id.owner] != nil {
                for name in unknown { knownRecords[zone.number, default: [:]].updateValue(read[name], forKey: name) }
            }
            return found.merging(read) { $1 }
        }

        // MARK: The end

        /// Adds the statements that were deferred, so that the transaction can be committed.
        func finish() throws {
            try addAudience()
            if !stamped.isEmpty { writeStamps() }
            writeOwners()
            if !changedSubscriptions.isEmpty {
                let rows = try transaction.query(
                    "UPDATE home SET subscriptions_version = subscriptions_version + 1 WHERE id = $1 RETURNING subscriptions_version",
                    .int(home.number)
                )
                changedSubscriptionsVersion = rows.first?.unsigned(0) ?? 0
            }
        }

        private func addAudience() throws {
            let shared = changedZones.changes { sharing.audience.hasRecipients || zones.sharing(of: $0) != .nothing }
            if !shared.isEmpty {
                var audiences = try sharing.audience.participants(of: [], rows: rows) { _, _ in
                    preconditionFailure("no zone")
                }
                // Each owner has an epoch.
                for (owner, ids) in Dictionary(grouping: Set(shared), by: \.owner) {
                    let found = try sharing.audience.participants(
                        of: ids.compactMap { zones[$0] },
                        rows: rows,
                        token: try token(of: owner)
                    )
                    for (id, participants) in found where id.owner == owner { audiences[id] = participants }
                }
                changedZones.setAudiences(audiences)
            }
            if !changedRecords.isEmpty || sharing.audience.hasMovedRecords {
                var records: [CommittedRecord] = []
                swap(&records, &changedRecords)
                try sharing.audience.addViewers(to: &records, zone: { zones[$0] }, rows: rows)
                changedRecords = records
            }
        }

        private func writeStamps() {
            let zones = stamped.sorted().compactMap { self.zones[$0] }
            transaction.later(
                """
                UPDATE zone z SET last_change = n.last_change, record_bytes = n.record_bytes, asset_bytes = n.asset_bytes,
                    last_modified = n.last_modified
                FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                    AS n(id, last_change, record_bytes, asset_bytes, last_modified)
                WHERE z.id = n.id
                """,
                .ints(zones.map(\.number)),
                .unsigneds(zones.map(\.lastChange)),
                .ints(zones.map(\.use.records)),
                .ints(zones.map(\.use.assets)),
                .ints(zones.map { $0.isPublic ? $0.lastModified.milliseconds : 0 })
            )
            stamped = []
        }

        private func writeOwners() {
            let changed = owners.values.filter { $0.isChanged || $0.hasKeptOutcomes }.sorted { $0.number < $1.number }
            guard !changed.isEmpty else { return }
            transaction.later(
                """
                UPDATE owner o SET last_change = n.last_change, done_writes = n.done_writes
                FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n(id, last_change, done_writes) WHERE o.id = n.id
                """,
                .ints(changed.map(\.number)),
                .unsigneds(changed.map(\.lastChange)),
                .ints(changed.map(\.doneWrites))
            )
            let keeping = changed.filter { $0.hasKeptOutcomes && $0.doneWrites > Int64(idempotencyRecordLimit) }
            guard !keeping.isEmpty else { return }
            transaction.later(
                """
                DELETE FROM done_write d USING unnest($1::bigint[], $2::bigint[]) AS n(owner, place)
                WHERE d.owner = n.owner AND d.place <= n.place
                """,
                .ints(keeping.map(\.number)),
                .ints(keeping.map { $0.doneWrites - Int64(idempotencyRecordLimit) })
            )
        }

        /// The changes to report once the transaction is committed.
        var commit: Commit {
            Commit(
                zones: changedZones.changes,
                records: changedRecords,
                subscriptions: changedSubscriptions,
                subscriptionsVersion: changedSubscriptionsVersion,
                schema: known.state.schema
            )
        }

        // MARK: Assets and transfer

        package func storedAssets(among hashes: Set<AssetHash>) -> Set<AssetHash> {
            guard !hashes.isEmpty else { return [] }
            let found = try? attempt {
                try rows.lockStored(among: hashes)
            }
            // After a failure nothing is committed.
            return found ?? []
        }

        package func addTransfer(_ bytes: Int64, in month: CalendarMonth) throws(RelayError) {
            try requireOwner(Zone.publicOwner)
            transaction.later(
                """
                INSERT INTO transfer (home, month, bytes) VALUES ($1, $2, $3)
                ON CONFLICT (home, month) DO UPDATE SET bytes = transfer.bytes + excluded.bytes
                """,
                .int(home.number),
                .int(Int64(month.number)),
                .int(bytes)
            )
        }

        // MARK: Schema

        package func define(_ types: [String: RecordType]) throws(RelayError) {
            try requireExclusion()
            try attempt {
                let rows = PostgresSchemaRows(transaction)
                let old = known.state.schema
                if let peers = transaction.peers {
                    guard let new = try peers.define(types, over: old.version) else {
                        need = .newerSchema
                        throw PostgresError(.conflict, "Shard 1 has a newer schema.")
                    }
                    known.state.schema = new
                    if try rows.dropIndexes(from: old, to: new) { leavesIdleWork = true }
                    return rows.write(version: new.version)
                }
                for (name, type) in types {
                    rows.write(type, over: old.types[name], number: try transaction.ensureNumber(ofType: name))
                    known.state.schema.types[name] = type
                }
                if try rows.dropIndexes(from: old, to: known.state.schema) { leavesIdleWork = true }
                known.state.schema.version += 1
                rows.write(version: known.state.schema.version)
            }
        }
    }

#endif
