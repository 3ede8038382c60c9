package import Records
import Wire

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

    package func matches(for values: QueryValues) -> Bool {
        conditions.allSatisfy { $0.matches(for: values) }
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

    func matches(for values: QueryValues) -> Bool { isPositive(for: values) != isNegative }

    private func isPositive(for values: QueryValues) -> Bool {
        switch comparator {
        case .containsAllTokens: return !tokens.isEmpty && tokens.isSubset(of: values.tokens(of: fieldNames))
        case .containsAnyTokens: return !tokens.isDisjoint(with: values.tokens(of: fieldNames))
        default: break
        }
        guard let value = values.value(of: filter.field) else { return false }
        if case .list(_, let members) = value { return matches(forList: members) }
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

    private func matches(forList members: [FieldValue]) -> Bool {
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

/// The values of one record that queries read: the named fields, decoded once, and its system fields.
package struct QueryValues {
    private let record: StoredRecord
    private let own: [String: FieldValue]

    /// Throws `internalError` if the stored bytes are corrupt.
    package init(_ record: StoredRecord, fields names: Set<String>) throws(RelayError) {
        self.record = record
        guard !names.isEmpty else {
            own = [:]
            return
        }
        do {
            own = try FieldsJSON.values(of: names, in: record.fields)
        } catch {
            throw .unreadableRecord
        }
    }

    /// Returns the field's value; `nil` if the record has none.
    func value(of field: Query.Field) -> FieldValue? {
        switch field {
        case .own(let name): own[name]
        case .system(let system): record.value(of: system)
        case .anySearchable: nil
        }
    }

    /// Returns the key for comparing and sorting by the field: `absent` for a missing value and for lists.
    package func key(of field: Query.Field) -> QueryKey {
        switch field {
        case .system(let system): record.key(of: system)
        case .own(let name): own[name].flatMap { QueryKey($0) } ?? .absent
        case .anySearchable: .absent
        }
    }

    /// Returns the distinct keys of a list's members.
    package func memberKeys(of name: String) -> Set<QueryKey> {
        guard case .list(_, let members)? = own[name] else { return [] }
        return Set(members.compactMap { QueryKey($0) })
    }

    /// Returns the distinct words in these fields together.
    package func tokens(of names: some Sequence<String>) -> Set<String> {
        var tokens: Set<String> = []
        for name in names {
            switch own[name] {
            case .string(let text)?: SearchTokens.insert(text, into: &tokens)
            case .list(.string, let members)?:
                for case .string(let text) in members { SearchTokens.insert(text, into: &tokens) }
            default: break
            }
        }
        return tokens
    }
}

extension RelayError {
    fileprivate static let unreadableRecord = RelayError(
        .internalError,
        "A stored record could not be read; the operator should check the store."
    )
}

extension StoredRecord {
    /// Returns one field, decoded without the others; `nil` if the record does not have it.
    ///
    /// Throws `internalError` if the stored bytes are corrupt.
    func value(ofField name: String) throws(RelayError) -> FieldValue? {
        do {
            return try FieldsJSON.value(of: name, in: fields)
        } catch {
            throw .unreadableRecord
        }
    }

    /// Returns a system field's value as queries see it: a timestamp or text.
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

    /// Returns the key for comparing and sorting by a system field.
    package func key(of field: Query.SystemField) -> QueryKey {
        switch field {
        case .changeTag: .number(Int64(clamping: change))
        default: QueryKey(value(of: field)) ?? .absent
        }
    }
}

extension Query.Filter {
    /// The comparison keys of the filter's values.
    package var keys: [QueryKey] {
        values.map { value in
            if field == .system(.changeTag), case .string(let tag) = value {
                // Change numbers are not negative, so an invalid tag equals nothing.
                return .number(UInt64(tag, radix: 36).flatMap { Int64(exactly: $0) } ?? -1)
            }
            return QueryKey(value) ?? .absent
        }
    }

    /// The words of the filter's text.
    package var tokens: Set<String> {
        guard case .string(let text)? = values.first else { return [] }
        return SearchTokens.of(text)
    }
}
