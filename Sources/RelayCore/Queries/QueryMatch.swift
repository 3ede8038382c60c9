package import Records

/// Evaluates a query's filters; the only place that defines what each comparator means.
///
/// An absent value equals nothing, is in no list and contains nothing; a negated comparator is the exact negation of
/// its positive form, so it matches an absent value. Strings compare byte for byte; only words (`CONTAINS_…_TOKENS`)
/// ignore case and diacritics. See Wire.md, "Comparators".
package struct QueryMatch: Sendable {
    private let conditions: [Condition]
    /// The record type's fields that the filters read.
    package let fieldNames: Set<String>

    /// The filters must have passed `QueryCheck` for `type`.
    package init(_ filters: some Sequence<Query.Filter>, type: RecordType) {
        conditions = filters.map { Condition($0, type: type) }
        fieldNames = conditions.reduce(into: []) { $0.formUnion($1.fieldNames) }
    }

    /// Whether there are no filters, so that every record matches.
    package var isEmpty: Bool { conditions.isEmpty }

    package func holds(for values: QueryValues) -> Bool {
        conditions.allSatisfy { $0.holds(for: values) }
    }
}

/// A filter with precomputed comparison keys.
private struct Condition: Sendable {
    let filter: Query.Filter
    let comparator: Query.Comparator
    let isNegative: Bool
    let keys: [QueryKey]
    /// The indexes of the filter's values by key, so that comparing long lists is fast.
    let places: [QueryKey: [Int]]
    let tokens: Set<String>
    let fieldNames: Set<String>

    init(_ filter: Query.Filter, type: RecordType) {
        self.filter = filter
        comparator = filter.comparator.opposite ?? filter.comparator
        isNegative = filter.comparator.opposite != nil
        tokens = comparator.looksForTokens ? filter.tokens : []
        keys = comparator.looksForTokens ? [] : filter.keys
        places = Dictionary(grouping: keys.indices) { [keys] in keys[$0] }
        switch filter.field {
        case .system: fieldNames = []
        case .own(let name): fieldNames = [name]
        case .anySearchable: fieldNames = Set(type.searchableFields)
        }
    }

    func holds(for values: QueryValues) -> Bool { isPositive(for: values) != isNegative }

    private func isPositive(for values: QueryValues) -> Bool {
        switch comparator {
        case .containsAllTokens: return !tokens.isEmpty && tokens.isSubset(of: values.tokens(of: fieldNames))
        case .containsAnyTokens: return !tokens.isDisjoint(with: values.tokens(of: fieldNames))
        default: break
        }
        guard let value = values.value(of: filter.field) else { return false }
        if case .list(_, let members) = value { return holds(forList: members) }
        switch comparator {
        case .equals, .in:
            return !equal(value, key: values.key(of: filter.field)).isEmpty
        case .near: return isNear(value)
        case .beginsWith: return begins(value)
        default: return compares(values.key(of: filter.field))
        }
    }

    private func compares(_ key: QueryKey) -> Bool {
        guard let bound = keys.first else { return false }
        return switch comparator {
        case .lessThan: key < bound
        case .lessThanOrEquals: key <= bound
        case .greaterThan: key > bound
        case .greaterThanOrEquals: key >= bound
        default: false
        }
    }

    private func holds(forList members: [FieldValue]) -> Bool {
        switch comparator {
        case .listContains, .listContainsAll:
            var missing = Set(keys.indices)
            for member in members where !missing.isEmpty {
                missing.subtract(equal(member, key: QueryKey(member) ?? .absent))
            }
            return missing.isEmpty
        case .listContainsAny: return members.contains { !equal($0, key: QueryKey($0) ?? .absent).isEmpty }
        case .listMemberBeginsWith: return members.contains(where: begins)
        default: return false
        }
    }

    /// Returns the indexes of the filter's values that equal a value.
    private func equal(_ value: FieldValue, key: QueryKey) -> [Int] {
        let found = places[key] ?? []
        // A location's key identifies only its cell.
        guard case .location(let place) = value else { return found }
        return found.filter {
            guard case .location(let other) = filter.values[$0] else { return true }
            return place.latitude == other.latitude && place.longitude == other.longitude
        }
    }

    private func begins(_ value: FieldValue) -> Bool {
        guard case .string(let text) = value, case .string(let prefix)? = filter.values.first else { return false }
        return text.utf8.starts(with: prefix.utf8)
    }

    private func isNear(_ value: FieldValue) -> Bool {
        guard case .location(let place) = value, case .location(let center)? = filter.values.first,
            let radius = filter.distance
        else { return false }
        return Distance.between(place, center) <= radius
    }
}
