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
    private let types: (any TypePromotionCheck)?

    package init(
        _ query: Query,
        in zone: ZoneID?,
        of database: DatabaseAddress,
        limit: Int,
        bytes: Int,
        after position: Query.Position? = nil,
        types: (any TypePromotionCheck)? = nil
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
        return try reader.liveZones(in: database)
    }

    /// Returns the query restricted to what the caller may read; `nil` if the caller can read no record of the type.
    private func restrictedQuery(of type: RecordType, _ schema: Schema) -> Query? {
        let query = query.resolvingZoneOwners(in: database)
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

/// Resolution of the zones in a query's references.
///
/// A reference cannot cross zones, so a reference to a record of another zone equals nothing in the queried zone. See
/// Wire.md, "References".
extension Query {
    /// Returns the query with the owners of the zones in its references filled in, from the caller's point of view.
    func resolvingZoneOwners(in database: DatabaseAddress) -> Query {
        mappingReferences { reference in
            guard let named = reference.zone else { return reference }
            var reference = reference
            // A zone that the caller cannot access is not queried, so it can stay as it is.
            reference.zone = (try? database.zone(named)) ?? named
            return reference
        }
    }

    /// Returns the query for one zone, with references reduced to record names.
    package func restricted(to zone: ZoneID) -> Query {
        guard namesZones else { return self }
        var query = mappingReferences { reference in
            // No record has an empty name, so it matches nothing.
            Reference(recordName: reference.zone ?? zone == zone ? reference.recordName : "", action: reference.action)
        }
        for index in query.filters.indices where query.filters[index].field == .system(.recordName) {
            query.filters[index].values = query.filters[index].values.map { value in
                if case .reference(let reference) = value { .string(reference.recordName) } else { value }
            }
        }
        return query
    }

    /// Whether some of the query's references name a zone.
    var namesZones: Bool {
        filters.contains { $0.values.contains { $0.references.contains { $0.zone != nil } } }
    }

    private func mappingReferences(_ change: (Reference) -> Reference) -> Query {
        guard namesZones else { return self }
        var query = self
        for index in query.filters.indices {
            query.filters[index].values = query.filters[index].values.map { $0.mappingReferences(change) }
        }
        return query
    }
}

/// The order of a query's results: a total order, so that a page can start after any record despite concurrent writes.
///
/// Records that are equal by the sort descriptors are ordered by name and then by zone, in the direction of the last
/// sort descriptor. A query without sort descriptors has no guaranteed order and uses the cheapest: zone by zone, and
/// within a zone by the field of the first range or prefix filter, else by name. A record without a value sorts before
/// all others, or last in descending order; when sorting by distance, it is the farthest away.
package struct QueryOrder: Sendable {
    package let sorts: [Query.Sort]
    /// Whether record names sort in ascending order.
    package let namesAscend: Bool
    /// Whether all results of one zone precede those of the next.
    package let isZoneByZone: Bool
    /// The record type's fields that the sort descriptors read.
    package let fieldNames: Set<String>

    package init(_ query: Query) {
        var sorts = query.sorts
        isZoneByZone = sorts.isEmpty
        if sorts.isEmpty, let range = query.filters.first(where: \.isRangeOfOrder) {
            sorts = [Query.Sort(range.field)]
        }
        // Record names are unique, so later sort descriptors have no effect.
        if let names = sorts.firstIndex(where: { $0.field == .system(.recordName) }) {
            namesAscend = sorts[names].isAscending
            sorts.removeSubrange(names...)
        } else {
            namesAscend = sorts.last?.isAscending ?? true
        }
        self.sorts = sorts
        fieldNames = Set(sorts.compactMap { if case .own(let name) = $0.field { name } else { nil } })
    }

    /// Returns a record's sort keys, one per sort descriptor.
    package func keys(of values: QueryValues) -> [QueryKey] {
        sorts.map { sort in
            guard let center = sort.relativeLocation else { return values.key(of: sort.field) }
            guard case .location(let place)? = values.value(of: sort.field) else { return .real(.infinity) }
            return .real(Distance.between(place, center))
        }
    }

    /// Returns whether `a` precedes `b`.
    package func areInOrder(_ a: Query.Position, _ b: Query.Position) -> Bool {
        if isZoneByZone, a.zone != b.zone { return Self.isBefore(a.zone, b.zone) }
        for ((x, y), sort) in zip(zip(a.keys, b.keys), sorts) where x != y { return (x < y) == sort.isAscending }
        if a.recordName != b.recordName { return (a.recordName < b.recordName) == namesAscend }
        return a.zone != b.zone && Self.isBefore(a.zone, b.zone) == namesAscend
    }

    /// Compares zones by owner and name in binary order; both are ASCII.
    package static func isBefore(_ a: ZoneID, _ b: ZoneID) -> Bool {
        (a.owner.recordName, a.zoneName) < (b.owner.recordName, b.zoneName)
    }
}

extension Query.Filter {
    /// Whether the matches are contiguous in the field's order.
    fileprivate var isRangeOfOrder: Bool { comparator.isRange || comparator == .beginsWith }
}
