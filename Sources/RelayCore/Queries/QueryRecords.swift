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
    package var position: QueryPosition?

    package init(
        _ query: Query,
        in zone: ZoneID?,
        of database: DatabaseAddress,
        limit: Int,
        after position: QueryPosition? = nil
    ) {
        self.query = query
        self.zone = zone
        self.database = database
        self.limit = limit
        self.position = position
    }

    package struct Page: Sendable {
        /// Each with the zone it is from.
        package var records: [(zone: ZoneID, record: StoredRecord)]
        /// Where the next page starts; `nil` when this was the last.
        package var next: QueryPosition?
    }

    /// Looks one record ahead, so that a result that exactly fits ends without an empty page.
    package func read(from reader: any StoreReader) throws(RelayError) -> Page {
        guard let restricted = try restrictedQuery(in: try reader.schema) else { return Page(records: [], next: nil) }
        var found: [(zone: ZoneID, record: StoredRecord)] = []
        for zone in try zones(in: reader) {
            let records = try reader.records(matching: restricted, in: zone, after: position, limit: limit + 1)
            found += records.map { (zone.id, $0) }
        }
        if zone == nil { found.sort { QueryOrder(query).areInOrder($0.record, $1.record) } }
        guard found.count > limit, let last = found.prefix(limit).last else { return Page(records: found, next: nil) }
        return Page(records: Array(found.prefix(limit)), next: QueryOrder(query).position(of: last.record))
    }

    private func zones(in reader: any StoreReader) throws(RelayError) -> [Zone] {
        if let zone {
            guard let zone = try reader.zone(zone) else { throw .zoneNotFound }
            return [zone]
        }
        guard let owner = database.owner else { return [] }
        return try reader.zones(of: owner).filter { !$0.isDeleted }
    }

    /// The query as this caller may ask it; `nil` where no record of the type can be theirs to read.
    private func restrictedQuery(in schema: Schema) throws(RelayError) -> Query? {
        guard let type = schema.types[query.recordType] else {
            throw RelayError(
                .notFound,
                "Record type '\(query.recordType.prefix(64))' does not exist in this environment."
            )
        }
        guard database.scope == .public, !type.rights(of: database.roles).contains(.read) else { return query }
        guard let user = database.caller.user, type.rights(of: [.creator]).contains(.read) else { return nil }
        var own = query
        own.filters.append(.init(.createdBy, .equals, [.string(user.recordName)]))
        return own
    }
}

/// The order that a query's sorts make; records equal under them follow their names, so that the order is total.
package struct QueryOrder {
    private let sorts: [Query.Sort]

    package init(_ query: Query) { sorts = query.sorts }

    package func position(of record: StoredRecord) -> QueryPosition {
        QueryPosition(sortValues: sorts.map { record.value(of: $0.field) }, recordName: record.name)
    }

    func areInOrder(_ a: StoredRecord, _ b: StoredRecord) -> Bool {
        for sort in sorts {
            let (x, y) = (a.value(of: sort.field), b.value(of: sort.field))
            if x == y { continue }
            return Self.isLess(x, y) == sort.isAscending
        }
        return a.name < b.name
    }

    private static func isLess(_ x: FieldValue, _ y: FieldValue) -> Bool {
        switch (x, y) {
        case (.timestamp(let x), .timestamp(let y)): x < y
        case (.string(let x), .string(let y)): x.utf8.lexicographicallyPrecedes(y.utf8)
        default: false
        }
    }
}

extension StoredRecord {
    /// A system field as a query sees it: a moment, or text.
    package func value(of field: Query.SystemField) -> FieldValue {
        switch field {
        case .recordName: .string(name)
        case .created: .timestamp(created.at)
        case .modified: .timestamp(modified.at)
        case .createdBy: .string(created.by.recordName)
        case .modifiedBy: .string(modified.by.recordName)
        case .changeTag: .string(changeTag)
        }
    }
}
