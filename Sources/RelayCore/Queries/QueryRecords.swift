package import Records

/// Reads one page of a query's results.
///
/// See Wire.md, "Queries".
package struct QueryRecords: Sendable {
    package var database: DatabaseAddress
    /// The zone to query; `nil` for every zone of the database.
    package var zone: ZoneID?
    package var query: Query
    package var limit: Int
    package var bytes: Int
    package var position: Query.Position?
    private let types: (any TypeWitness)?

    package init(
        _ query: Query,
        in zone: ZoneID?,
        of database: DatabaseAddress,
        limit: Int,
        bytes: Int,
        after position: Query.Position? = nil,
        types: (any TypeWitness)? = nil
    ) {
        self.types = types
        self.query = query
        self.zone = zone
        self.database = database
        self.limit = limit
        self.bytes = bytes
        self.position = position
    }

    /// Throws if the query is not allowed, and as `StoreReader.page` does.
    package func read(from reader: any StoreReader) throws(RelayError) -> QueryPage {
        let schema = try reader.schema
        guard let type = schema.queryable(query.recordType) else {
            var error = RelayError.unknownType(query.recordType, types)
            // Programs match this wording.
            error.reason = "Did not find record type: \(query.recordType.prefix(64)). \(error.reason)"
            throw error
        }
        try QueryCheck(query, of: type).check()
        if let position, position.keys.count != QueryOrder(query).sorts.count {
            throw .badRequest("The continuationMarker is damaged.")
        }
        guard let restricted = restrictedQuery(of: type, schema) else { return QueryPage(records: [], next: nil) }
        let zones = try zones(in: reader)
        guard zones.contains(where: { !$0.aliases.isEmpty }) else {
            return try reader.page(of: restricted, in: zones, after: position, limit: limit, bytes: bytes)
        }
        let names = Dictionary(zones.map { ($0.id, $0.aliases) }) { first, _ in first }
        let start = position.map { names.exchange($0) }
        var page = try reader.page(of: restricted, in: zones, after: start, limit: limit, bytes: bytes)
        page.records = page.records.map { ($0.zone, names[$0.zone]?.viewed($0.record) ?? $0.record) }
        page.next = page.next.map { names.exchange($0) }
        return page
    }

    private func zones(in reader: any StoreReader) throws(RelayError) -> [Zone] {
        if let zone {
            guard let zone = try reader.zone(zone, in: database) else { throw .zoneNotFound }
            return [zone]
        }
        return try reader.livingZones(in: database)
    }

    /// Returns the query restricted to what the caller may read; `nil` if the caller can read no record of the type.
    private func restrictedQuery(of type: RecordType, _ schema: Schema) -> Query? {
        let query = query.meant(in: database)
        guard database.scope == .public, !database.rights(toType: type, in: schema).contains(.read) else {
            return query
        }
        guard let user = database.caller.user, database.rights(toOwnOfType: type, in: schema).contains(.read) else {
            return nil
        }
        var own = query
        own.filters.append(.init(.createdBy, .equals, [.string(user.recordName)]))
        return own
    }
}

extension [ZoneID: RecordAliases] {
    fileprivate func exchange(_ position: Query.Position) -> Query.Position {
        var position = position
        position.recordName = self[position.zone]?.exchanged(position.recordName) ?? position.recordName
        return position
    }
}
