package import Records

/// The order of a query's results: total, so that a page can start just after any record, whatever was written meanwhile.
///
/// Records that the sorts hold equal follow their names and then their zones, in the direction of the last sort. A query
/// without sorts has no promised order; it gets the one that costs least: zone after zone, and inside one by the field of
/// its first range or prefix filter, else by name. A record without a value comes before those with one, and after them where the
/// sort descends; from a place it is farthest away.
package struct QueryOrder: Sendable {
    package let sorts: [Query.Sort]
    /// Whether the order of names goes up.
    package let namesAscend: Bool
    /// Whether all results of one zone come before those of the next.
    package let isZoneByZone: Bool
    /// The type's own fields that the sorts look at.
    package let fieldNames: Set<String>

    package init(_ query: Query) {
        var sorts = query.sorts
        isZoneByZone = sorts.isEmpty
        if sorts.isEmpty, let range = query.filters.first(where: \.isRangeOfOrder) {
            sorts = [Query.Sort(range.field)]
        }
        // Names are different: what follows them decides nothing.
        if let names = sorts.firstIndex(where: { $0.field == .system(.recordName) }) {
            namesAscend = sorts[names].isAscending
            sorts.removeSubrange(names...)
        } else {
            namesAscend = sorts.last?.isAscending ?? true
        }
        self.sorts = sorts
        fieldNames = Set(sorts.compactMap { if case .own(let name) = $0.field { name } else { nil } })
    }

    /// What a record is sorted by, one key for each sort.
    package func keys(of values: QueryValues) -> [QueryKey] {
        sorts.map { sort in
            guard let center = sort.relativeLocation else { return values.key(of: sort.field) }
            guard case .location(let place)? = values.value(of: sort.field) else { return .real(.infinity) }
            return .real(Distance.between(place, center))
        }
    }

    /// Whether `a` comes before `b`.
    package func areInOrder(_ a: Query.Position, _ b: Query.Position) -> Bool {
        if isZoneByZone, a.zone != b.zone { return Self.isBefore(a.zone, b.zone) }
        for ((x, y), sort) in zip(zip(a.keys, b.keys), sorts) where x != y { return (x < y) == sort.isAscending }
        if a.recordName != b.recordName { return (a.recordName < b.recordName) == namesAscend }
        return a.zone != b.zone && Self.isBefore(a.zone, b.zone) == namesAscend
    }

    /// Owners and names of zones in binary order; both are ASCII.
    package static func isBefore(_ a: ZoneID, _ b: ZoneID) -> Bool {
        (a.owner.recordName, a.zoneName) < (b.owner.recordName, b.zoneName)
    }
}

extension Query.Filter {
    /// Whether its matches are neighbours in the field's order.
    fileprivate var isRangeOfOrder: Bool { comparator.isRange || comparator == .beginsWith }
}
