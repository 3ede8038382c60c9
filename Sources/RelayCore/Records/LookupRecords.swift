package import Records

/// Reads records by name.
///
/// Wire reference 8.
package struct LookupRecords: Sendable {
    package var database: DatabaseAddress
    package var zone: ZoneID
    package var names: [String]

    package init(_ names: [String], in zone: ZoneID, of database: DatabaseAddress) {
        self.names = names
        self.zone = zone
        self.database = database
    }

    /// One for each name, in their order.
    ///
    /// A record that the caller may not read is as absent as one that is not there.
    package func read(from reader: any StoreReader) throws(RelayError) -> [Result<StoredRecord, RelayError>] {
        guard let zone = try reader.zone(zone, in: database) else { throw .zoneNotFound }
        let aliases = zone.aliases
        let kept = aliases.isEmpty ? names : names.map(aliases.exchanged)
        let found = try reader.records(named: kept, in: zone)
        let schema = try reader.schema
        return kept.map { name in
            guard let record = found[name], !record.isDeleted,
                database.rights(to: record, in: schema).contains(.read)
            else { return .failure(.recordNotFound) }
            return .success(aliases.viewed(record))
        }
    }
}
