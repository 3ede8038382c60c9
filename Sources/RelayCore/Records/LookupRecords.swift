package import Records

/// Reads records by name.
///
/// See Wire.md, "Looking up records".
package struct LookupRecords: Sendable {
    package var database: DatabaseAddress
    package var zone: ZoneID
    package var names: [String]
    /// Whether the response contains any fields.
    package var wantsFields: Bool

    package init(_ names: [String], in zone: ZoneID, of database: DatabaseAddress, wantsFields: Bool = true) {
        self.wantsFields = wantsFields
        self.names = names
        self.zone = zone
        self.database = database
    }

    /// Maximum number of records in memory at once; each may have 1 MB.
    private static let atOnce = 16

    /// Passes the outcome of each name to `body`, with the name's index, in order.
    ///
    /// A record that the caller may not read is reported like one that does not exist.
    package func visit(
        from reader: any StoreReader,
        _ body: (Int, Result<StoredRecord, RelayError>) throws(RelayError) -> Void
    ) throws(RelayError) {
        guard let zone = try reader.zone(zone, in: database) else { throw .zoneNotFound }
        let aliases = zone.aliases
        let kept = aliases.isEmpty ? names : names.map(aliases.exchanged)
        let schema = try reader.schema
        for start in stride(from: 0, to: kept.count, by: Self.atOnce) {
            let places = start..<min(start + Self.atOnce, kept.count)
            let found = try reader.records(named: Array(kept[places]), in: zone, withFields: wantsFields)
            for place in places {
                guard let record = found[kept[place]], !record.isDeleted,
                    database.rights(to: record, in: schema).contains(.read)
                else {
                    try body(place, .failure(.recordNotFound))
                    continue
                }
                try body(place, .success(aliases.viewed(record)))
            }
        }
    }
}
