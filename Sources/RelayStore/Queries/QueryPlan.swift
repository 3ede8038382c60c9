import Records
import RelayCore

/// How one zone's matches of a query are found.
enum QueryPlan: Hashable, Sendable {
    /// Which records have these names?
    case names([String])
    /// Visit the entries of one index in the order of the results, and stop when the page is full.
    case inOrder(IndexTarget, KeyRange)
    /// Visit the entries under several keys of one index together, by name, and stop when the page is full.
    case byName(IndexTarget, [QueryKey])
    /// Visit all that is in these ranges, and keep the first of the order.
    case gather(IndexTarget, [KeyRange])
    /// Look at squares of the globe, from the nearest to a place to the farthest or back, until the page is full.
    case byDistance(IndexTarget)
    /// Look at every record there is, while they are few.
    case scan
}

/// A set of index entries that holds all matches: one way to find them.
struct QueryOption: Hashable, Sendable {
    var target: IndexTarget
    var ranges: [KeyRange]
    /// Its entries, counted up to some limit.
    var count = 0

    /// The keys of its ranges, where each is but one: the entries under them stand in the order of their names.
    var points: [QueryKey]? {
        let points = ranges.compactMap(\.point)
        return points.count == ranges.count ? points : nil
    }
}

/// Chooses a plan by what was counted.
struct QueryPlanner {
    let query: Query
    let order: QueryOrder
    let tuning: QueryTuning
    /// Whether this index is there and complete.
    let isReady: (IndexTarget) -> Bool

    /// The names that a filter asks for, if one does.
    var names: [String]? {
        for filter in query.filters
        where filter.field == .system(.recordName) && (filter.comparator == .equals || filter.comparator == .in) {
            return filter.values.compactMap { if case .string(let name) = $0 { name } else { nil } }
        }
        return nil
    }

    /// The ways that the filters offer, those whose index is not ready included.
    var options: [QueryOption] {
        var options: [QueryOption] = []
        var scalarRanges: [Query.Field: KeyRange] = [:]
        for filter in query.filters {
            switch filter.ranges {
            case .anyOf(let ranges)? where filter.isScalarRange:
                scalarRanges[filter.field] = ranges.reduce(scalarRanges[filter.field] ?? .everything) {
                    $0.intersection($1)
                }
            case .anyOf(let ranges)?: options.append(QueryOption(target: IndexTarget(filter), ranges: ranges.unique))
            case .eachOf(let ranges)?:
                options += ranges.unique.map { QueryOption(target: IndexTarget(filter), ranges: [$0]) }
            case nil: break
            }
        }
        return options + scalarRanges.map { QueryOption(target: .value($0), ranges: [$1]) }
    }

    /// The index in whose order the results come; `nil` for an order by distance.
    var orderTarget: IndexTarget? {
        guard let sort = order.sorts.first else { return .value(.system(.recordName)) }
        return sort.relativeLocation == nil ? .value(sort.field) : nil
    }

    /// `options` are those that are ready, counted up to `manyEntries` where even the least has more than `fewEntries`; `nil`
    /// where none of them serves.
    func plan(_ options: [QueryOption]) -> QueryPlan? {
        let best = options.min { $0.count < $1.count }
        if let best {
            if let points = best.points, order.sorts.isEmpty { return .byName(best.target, points) }
            if best.target == orderTarget, best.ranges.count == 1 { return .inOrder(best.target, best.ranges[0]) }
            if best.count < tuning.manyEntries { return .gather(best.target, best.ranges) }
        }
        if let target = distanceTarget, isReady(target) { return .byDistance(target) }
        if let target = orderTarget, isReady(target) {
            let own = options.first { $0.target == target && $0.ranges.count == 1 }
            return .inOrder(target, own?.ranges[0] ?? .everything)
        }
        return best.map { .gather($0.target, $0.ranges) }
    }

    /// The index of places for an order by distance, if that is what is asked.
    var distanceTarget: IndexTarget? {
        order.sorts.first.flatMap { $0.relativeLocation == nil ? nil : .value($0.field) }
    }

    /// The indexes that this query should have had: those of the filters first, and that of the order where no filter says
    /// much.
    ///
    /// `options` are as for `plan`.
    func missing(_ options: [QueryOption]) -> Set<IndexTarget> {
        let least = options.map(\.count).min() ?? .max
        guard least >= tuning.fewEntries else { return [] }
        let unready = Set(self.options.map(\.target).filter { !isReady($0) })
        guard unready.isEmpty else { return unready }
        if order.sorts.isEmpty, options.contains(where: { $0.points != nil }) { return [] }
        guard least >= tuning.manyEntries,
            let target = distanceTarget ?? orderTarget
        else { return [] }
        return isReady(target) ? [] : [target]
    }
}

extension Query.Filter {
    /// Whether it is a bound on a field with one value, so that several of them make one range.
    fileprivate var isScalarRange: Bool { comparator.isRange || comparator == .beginsWith }
}

extension [KeyRange] {
    fileprivate var unique: [KeyRange] {
        var seen: Set<KeyRange> = []
        return filter { seen.insert($0).inserted }
    }
}
