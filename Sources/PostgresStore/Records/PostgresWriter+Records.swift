#if Postgres
    package import Records
    package import RelayCore
    import StoreKit
    import Wire

    /// Rows of `record` that a transaction has yet to write, with one statement for the new ones and one for the others.
    struct PostgresRecordRows {
        private struct Row {
            var zone: Int64
            var type: Int64
            var createdBy: Int64
            var modifiedBy: Int64
            var record: StoredRecord
            /// Whether the database has no row of this name; the statement fails if it has.
            var isNew: Bool
        }

        private struct Key: Hashable {
            var zone: Int64
            var name: String
        }

        private var rows: [Row] = []
        private var removed: [Key] = []
        /// The place of each record in `rows`: one statement must not write a row twice.
        private var places: [Key: Int] = [:]

        /// Adds a row.
        ///
        /// - Throws: `duplicate` if it is new and there is one of this name already.
        mutating func add(
            _ record: StoredRecord,
            isNew: Bool,
            zone: Int64,
            type: Int64,
            createdBy: Int64,
            modifiedBy: Int64
        ) throws(PostgresError) {
            let key = Key(zone: zone, name: record.name)
            var row = Row(
                zone: zone,
                type: type,
                createdBy: createdBy,
                modifiedBy: modifiedBy,
                record: record,
                isNew: isNew
            )
            guard let place = places[key] else {
                places[key] = rows.count
                rows.append(row)
                return
            }
            guard !isNew else { throw PostgresError(.duplicate, "A transaction writes a new record twice.") }
            row.isNew = rows[place].isNew
            rows[place] = row
        }

        /// Deletes the record instead of keeping a tombstone; flush the rows first if one of them has this name.
        mutating func remove(_ name: String, zone: Int64) { removed.append(Key(zone: zone, name: name)) }

        func contains(_ name: String, zone: Int64) -> Bool { places[Key(zone: zone, name: name)] != nil }

        mutating func flush(into pipeline: inout PostgresPipeline) {
            if !removed.isEmpty {
                pipeline.add(
                    """
                    DELETE FROM record r USING unnest($1::bigint[], $2::text[]) AS n(zone, name)
                    WHERE r.zone = n.zone AND r.name = n.name
                    """,
                    .ints(removed.map(\.zone)),
                    .texts(removed.map(\.name))
                )
                removed = []
            }
            guard !rows.isEmpty else { return }
            add(Self.insertion, rows.filter(\.isNew), to: &pipeline)
            add(Self.insertion + Self.replacement, rows.filter { !$0.isNew }, to: &pipeline)
            (rows, places) = ([], [:])
        }

        private func add(_ sql: String, _ rows: [Row], to pipeline: inout PostgresPipeline) {
            guard !rows.isEmpty else { return }
            pipeline.add(
                sql,
                .ints(rows.map(\.zone)),
                .texts(rows.map(\.record.name)),
                .unsigneds(rows.map(\.record.change)),
                .ints(rows.map(\.type)),
                .bools(rows.map(\.record.isDeleted)),
                .ints(rows.map(\.record.created.at.milliseconds)),
                .ints(rows.map(\.createdBy)),
                .unsigneds(rows.map(\.record.created.device.bits)),
                .ints(rows.map(\.record.modified.at.milliseconds)),
                .ints(rows.map(\.modifiedBy)),
                .unsigneds(rows.map(\.record.modified.device.bits)),
                .texts(rows.map(\.record.parent)),
                .texts(rows.map(\.record.share)),
                .blobs(rows.map(\.record.fields))
            )
        }

        private static let insertion = """
            INSERT INTO record (zone, name, change, type, deleted, created_at, created_by, created_device,
                modified_at, modified_by, modified_device, parent, share, fields)
            SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[],
                $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[],
                $14::bytea[])
            """

        private static let replacement = """

            ON CONFLICT (zone, name) DO UPDATE SET change = excluded.change, type = excluded.type,
                deleted = excluded.deleted, created_at = excluded.created_at, created_by = excluded.created_by,
                created_device = excluded.created_device, modified_at = excluded.modified_at,
                modified_by = excluded.modified_by, modified_device = excluded.modified_device,
                parent = excluded.parent, share = excluded.share, fields = excluded.fields
            """
    }

    /// Writes records.
    extension PostgresWriter {
        package func put(
            _ records: [StoredRecord],
            replacing replaced: [String: StoredRecord],
            in zone: Zone,
            by device: String
        ) throws(RelayError) {
            try requireOwner(zone.id.owner)
            guard let author = records.last?.modified.by else { return }
            if zone.view != nil {
                guard let whole = try self.zone(zone.id) else { throw .zoneNotFound }
                return try put(records, replacing: replaced, in: whole, by: device)
            }
            let covers = sharing.takeCovers(in: zone.number)
            try attempt {
                var last = records.reduce(0) { max($0, $1.change) }
                // An earlier write of this commit may have changed the zone since the caller read it.
                var zone = zones[zone.number] ?? zone
                var growth = StorageUse()
                var relations = RelationUpdate()
                var hasShares = false
                let users = try transaction.ensureNumbers(of: records.flatMap { [$0.created.by, $0.modified.by] })
                let assetTypes = known.state.assetTypes
                for record in records {
                    let before = replaced[record.name]
                    let type = try transaction.ensureNumber(ofType: record.type)
                    try updateIndexes(for: record, ofType: type, over: before, in: zone)
                    growth = growth + StorageUse(of: record) - StorageUse(of: before)
                    try relations.add(record, replacing: before, hasAssets: assetTypes.contains(record.type))
                    recordBytes += record.fields.count + Self.bytesOfRow
                    if record.isDeleted, !zone.keepsTombstones {
                        if rowsToWrite.contains(record.name, zone: zone.number) { transaction.flush() }
                        if before != nil { rowsToWrite.remove(record.name, zone: zone.number) }
                        knownRecords[zone.number, default: [:]].updateValue(nil, forKey: record.name)
                    } else {
                        try rowsToWrite.add(
                            record,
                            isNew: before == nil,
                            zone: zone.number,
                            type: type,
                            createdBy: users[record.created.by] ?? 0,
                            modifiedBy: users[record.modified.by] ?? 0
                        )
                        knownRecords[zone.number, default: [:]].updateValue(record, forKey: record.name)
                    }
                    if record.isShare { hasShares = true }
                    if known.watchedTypes.contains(record.type) {
                        let known = before.map { sharing.recordForNotices($0) }
                        changedRecords.append(.init(zone: zone.id, before: known, after: record, device: device))
                    }
                }
                growth.assets += try relations.write(to: rows, zone: zone.number)
                if hasShares || zone.sharing == .hierarchies {
                    last = max(last, try updateSharing(for: records, replacing: replaced, covers: covers, in: &zone))
                }
                zone.lastChange = max(zone.lastChange, last)
                if zone.isPublic, let time = records.last?.modified.at {
                    zone.lastModified = max(zone.lastModified, time)
                }
                zone.use = zone.use + growth
                zones.keep(zone)
                if let use = owners[zone.id.owner]?.use { owners[zone.id.owner]?.use = use + growth }
                stamped.insert(zone.number)
                noteChange(zone.lastChange, of: zone.id.owner)
                try note(zone, by: device, of: author)
            }
        }
    }

    extension StoredRecord {
        /// The record with only the fields that a share needs.
        var withoutFields: StoredRecord {
            guard !isShare else { return self }
            var record = self
            record.fields = FieldsJSON.empty
            return record
        }
    }
#endif
