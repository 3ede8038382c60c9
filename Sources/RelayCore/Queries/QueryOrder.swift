package import Records

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
