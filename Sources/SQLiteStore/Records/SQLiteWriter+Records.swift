import GRDB
import Records
import RelayCore
import StoreKit

/// Writes records to the file.
extension SQLiteWriter {
    func put(
        _ records: [StoredRecord],
        replacing replaced: [String: StoredRecord],
        in zone: Zone,
        by device: String
    ) throws(RelayError) {
        try requireOwner(zone.id.owner)
        guard let author = records.last?.modified.by else { return }
        var last = records.reduce(0) { max($0, $1.change) }
        if zone.view != nil {
            guard let whole = try self.zone(zone.id) else { throw .zoneNotFound }
            return try put(records, replacing: replaced, in: whole, by: device)
        }
        let covers = sharing.takeCovers(in: zone.number)
        try attempt {
            // An earlier write of this commit may have changed the zone since the caller read it.
            var zone = cache.zones[zone.number] ?? zone
            var run = zone.lastChange >> StoreLayout.runShift
            var growth = StorageUse()
            var relations = RelationUpdate()
            var hasShares = false
            // Inserts new records several at a time if there are enough of them.
            let isLong = records.count >= Self.rowsAtOnce
            var new = 0..<0
            for (index, record) in records.enumerated() {
                let before = replaced.isEmpty ? nil : replaced[record.name]
                try updateIndexes(for: record, ofType: ensureNumber(ofType: record.type), over: before, in: zone)
                growth = growth + StorageUse(of: record) - StorageUse(of: before)
                try relations.add(record, replacing: before, hasAssets: assetTypes.contains(record.type))
                recordBytes += record.fields.count + Self.bytesOfRow
                if isLong, before == nil, !record.isShare, zone.keepsTombstones || !record.isDeleted {
                    new = new.lowerBound..<index + 1
                } else {
                    if !new.isEmpty { try insert(records[new], in: zone) }
                    new = index + 1..<index + 1
                    try enter(record, over: before, in: zone)
                }
                if record.isShare { hasShares = true }
                if !cache.watchedTypes.isEmpty, cache.watchedTypes[record.type] != nil {
                    let known = before.map { sharing.recordForNotices($0) }
                    changedRecords.append(.init(zone: zone.id, before: known, after: record, device: device))
                }
                if record.change >> StoreLayout.runShift != run {
                    try enterRun(of: record.change, zone: zone.number)
                    run = record.change >> StoreLayout.runShift
                }
            }
            if !new.isEmpty { try insert(records[new], in: zone) }
            growth.assets += try relations.write(to: self, zone: zone.number)
            if hasShares || zone.sharing == .hierarchies {
                last = max(last, try updateSharing(for: records, replacing: replaced, covers: covers, in: &zone))
                // A moved entry may have the first number of a run. The next record in that run would not enter it,
                // since the zone's last change is in the run already.
                if last >> StoreLayout.runShift != run { try enterRun(of: last, zone: zone.number) }
            }
            zone.lastChange = last
            if zone.isPublic, let time = records.last?.modified.at { zone.lastModified = max(zone.lastModified, time) }
            zone.use = zone.use + growth
            cache.zones.keep(zone)
            if let place = cache.use.index(forKey: zone.id.owner) {
                cache.use.values[place] = cache.use.values[place] + growth
            }
            stampLater(zone.number)
            note(zone, by: device, of: author)
        }
    }

    private func enter(_ record: StoredRecord, over before: StoredRecord?, in zone: Zone) throws {
        guard record.isDeleted, !zone.keepsTombstones else {
            guard let before else { return try run(statement(.insertRecord), record, in: zone) }
            let update = try statement(.updateRecord)
            update.bind(Self.columns + 1, before.change)
            return try run(update, record, in: zone)
        }
        guard let before else { return }
        let statement = try SQL("DELETE FROM record WHERE change = ?", in: database)
        statement.bind(1, before.change)
        try statement.run()
    }

    private func insert(_ records: ArraySlice<StoredRecord>, in zone: Zone) throws {
        var rest = records
        while rest.count >= Self.rowsAtOnce {
            try insertSeveral(rest.prefix(Self.rowsAtOnce), in: zone)
            rest = rest.dropFirst(Self.rowsAtOnce)
        }
        if rest.isEmpty { return }
        let insert = try statement(.insertRecord)
        for record in rest { try run(insert, record, in: zone) }
    }

    private func insertSeveral(_ records: ArraySlice<StoredRecord>, in zone: Zone) throws {
        let insert = try statement(.insertRecords)
        // Contiguous, so that all of them can be lent to the statement together.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(records.reduce(0) { $0 + $1.name.utf8.count + $1.fields.count })
        for record in records {
            bytes += record.name.utf8
            bytes += record.fields
        }
        try bytes.withUnsafeBufferPointer { bytes in
            var (first, place): (Int32, Int) = (1, 0)
            for record in records {
                let fields = place + record.name.utf8.count
                let end = fields + record.fields.count
                try bind(record, in: zone, to: insert, from: first)
                insert.bind(first + 12, borrowedText: .init(rebasing: bytes[place..<fields]))
                insert.bind(first + 13, borrowedBlob: .init(UnsafeBufferPointer(rebasing: bytes[fields..<end])))
                place = end
                first += Self.columns
            }
            try insert.run()
        }
    }

    private func run(_ statement: SQL, _ record: StoredRecord, in zone: Zone) throws {
        try bind(record, in: zone, to: statement, from: 1)
        var name = record.name
        try name.withUTF8 { name in
            try record.fields.withUnsafeBytes { fields in
                statement.bind(13, borrowedText: name)
                statement.bind(14, borrowedBlob: fields)
                try statement.run()
            }
        }
    }

    /// Binds all columns but `name` and `fields`.
    private func bind(_ record: StoredRecord, in zone: Zone, to statement: SQL, from first: Int32) throws {
        statement.bind(first, record.change)
        statement.bind(first + 1, zone.number)
        statement.bind(first + 2, try ensureNumber(ofType: record.type))
        statement.bind(first + 3, record.isDeleted)
        statement.bind(first + 4, record.created.at.milliseconds)
        statement.bind(first + 5, try ensureNumber(of: record.created.by))
        statement.bind(first + 6, record.created.device.bits)
        statement.bind(first + 7, record.modified.at.milliseconds)
        statement.bind(first + 8, try ensureNumber(of: record.modified.by))
        statement.bind(first + 9, record.modified.device.bits)
        statement.bind(first + 10, record.parent)
        statement.bind(first + 11, record.share)
    }

    private static let columns: Int32 = 14
    /// The number of new records in one statement: half of SQLite's work is per statement, whatever the number of rows.
    private static let rowsAtOnce = 10

    static let insert = inserting(rows: 1)
    static let insertSeveral = inserting(rows: rowsAtOnce)

    /// Returns a statement that inserts so many rows.
    ///
    /// Uses `OR FAIL`: a failure rolls the transaction back anyway, so SQLite need not keep copies of pages to undo
    /// earlier rows.
    private static func inserting(rows: Int) -> String {
        let row = "(" + Array(repeating: "?", count: Int(columns)).joined(separator: ", ") + ")"
        return """
            INSERT OR FAIL INTO record (
                change, zone, type, deleted, created_at, created_by, created_device, modified_at, modified_by,
                modified_device, parent, share, name, fields
            ) VALUES \(Array(repeating: row, count: rows).joined(separator: ", "))
            """
    }

    static let update = """
        UPDATE record SET
            change = ?1, zone = ?2, type = ?3, deleted = ?4, created_at = ?5, created_by = ?6, created_device = ?7,
            modified_at = ?8, modified_by = ?9, modified_device = ?10, parent = ?11, share = ?12, name = ?13,
            fields = ?14
        WHERE change = ?15
        """
}
