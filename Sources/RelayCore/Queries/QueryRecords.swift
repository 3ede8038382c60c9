package import Records

/// One page of a query.
///
/// Wire reference 7.
package struct QueryRecords: Sendable {
    package var database: DatabaseAddress
    /// `nil`: every zone of the database.
    package var zone: ZoneID?
    package var query: Query
    package var limit: Int
    package var position: Query.Position?

    package init(
        _ query: Query,
        in zone: ZoneID?,
        of database: DatabaseAddress,
        limit: Int,
        after position: Query.Position? = nil
    ) {
        self.query = query
        self.zone = zone
        self.database = database
        self.limit = limit
        self.position = position
    }

    /// Throws where the query may not be asked, and as `StoreReader.page` does.
    package func read(from reader: any StoreReader) throws(RelayError) -> QueryPage {
        let schema = try reader.schema
        guard let type = schema.types[query.recordType] else {
            throw RelayError(
                .notFound,
                "Record type '\(query.recordType.prefix(64))' does not exist in this environment."
            )
        }
        try QueryCheck(query, of: type).check()
        if let position, position.keys.count != QueryOrder(query).sorts.count {
            throw .badRequest("The continuationMarker is damaged.")
        }
        guard let restricted = restrictedQuery(of: type, schema) else { return QueryPage(records: [], next: nil) }
        return try reader.page(of: restricted, in: try zones(in: reader), after: position, limit: limit)
    }

    private func zones(in reader: any StoreReader) throws(RelayError) -> [Zone] {
        if let zone {
            guard let zone = try reader.zone(zone, in: database) else { throw .zoneNotFound }
            return [zone]
        }
        return try reader.zones(in: database).filter { !$0.isDeleted }
    }

    /// The query as this caller may ask it; `nil` where no record of the type can be theirs to read.
    private func restrictedQuery(of type: RecordType, _ schema: Schema) -> Query? {
        guard database.scope == .public, !database.rights(toType: type, in: schema).contains(.read) else {
            return query
        }
        guard let user = database.caller.user, type.rights(of: [.creator]).contains(.read) else { return nil }
        var own = query
        own.filters.append(.init(.createdBy, .equals, [.string(user.recordName)]))
        return own
    }
}
