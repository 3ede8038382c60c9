import Records
import RelayCore

/// How the matches of a query are found in one zone.
enum QueryPlan: Hashable, Sendable {
    /// Look up the records with these names.
    case names([String])
    /// Visit the entries of one index in the order of the results, until the page is full.
    case inOrder(IndexTarget, KeyRange)
    /// Visit the entries under several keys of one index together, by name, until the page is full.
    case byName(IndexTarget, [QueryKey])
    /// Visit everything in these ranges, and keep the first records in the query's order.
    case gather(IndexTarget, [KeyRange])
    /// Visit squares of the globe by distance from a place, ascending or descending, until the page is full.
    case byDistance(IndexTarget)
    /// Read every record; only for few records.
    case scan
}

/// A set of index entries that contains all matches.
struct QueryOption: Hashable, Sendable {
    var target: IndexTarget
    var ranges: [KeyRange]
    /// The number of its entries, counted up to some limit.
    var count = 0

    /// The keys of the ranges, if each contains exactly one: entries of one key are in the order of their names.
    var points: [QueryKey]? {
        let points = ranges.compactMap(\.point)
        return points.count == ranges.count ? points : nil
    }
}

/// Chooses a plan by the number of index entries.
struct QueryPlanner {
    let query: Query
    let order: QueryOrder
    let tuning: QueryTuning
    /// Returns whether an index exists and is complete.
    let isReady: (IndexTarget) -> Bool

    /// The record names in a filter on them, if there is one.
    var names: [String]? {
        for filter in query.filters
        where filter.field == .system(.recordName) && (filter.comparator == .equals || filter.comparator == .in) {
            return filter.values.compactMap { if case .string(let name) = $0 { name } else { nil } }
        }
        return nil
    }

    /// The options that the filters offer, including those whose index is not ready.
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

    /// The index in the order of the results; `nil` for an order by distance.
    var orderTarget: IndexTarget? {
        guard let sort = order.sorts.first else { return .value(.system(.recordName)) }
        return sort.relativeLocation == nil ? .value(sort.field) : nil
    }

    /// Chooses a plan; `nil` if no index helps.
    ///
    /// `options` contains those whose index is ready, with entries counted up to `fewEntries`, or up to `manyEntries`
    /// if all of them have more.
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

    /// The index of locations, if the order is by distance.
    var distanceTarget: IndexTarget? {
        order.sorts.first.flatMap { $0.relativeLocation == nil ? nil : .value($0.field) }
    }

    /// Returns the indexes that this query lacks: those of its filters, then that of its order if no filter is selective.
    ///
    /// `options` is as for `plan`.
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
    /// Whether the filter bounds a field with a single value, so that several of them form one range.
    fileprivate var isScalarRange: Bool { comparator.isRange || comparator == .beginsWith }
}

extension [KeyRange] {
    fileprivate var unique: [KeyRange] {
        var seen: Set<KeyRange> = []
        return filter { seen.insert($0).inserted }
    }
}
