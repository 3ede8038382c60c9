import Foundation
import Records

/// An object on which a predicate can be evaluated in memory.
protocol PredicateSubject {
    func value(of field: Query.Field) -> FieldValue?
    /// All words of all texts, in lower case.
    var words: Set<String> { get }
}

extension RecordState: PredicateSubject {
    func value(of field: Query.Field) -> FieldValue? {
        switch field {
        case .own(let name): fields[name]
        case .system(.recordName): .string(id.recordName)
        case .system(.created): created.map { .timestamp($0.at) }
        case .system(.modified): modified.map { .timestamp($0.at) }
        case .system(.createdBy): created.map { .string($0.by.recordName) }
        case .system(.modifiedBy): modified.map { .string($0.by.recordName) }
        case .system(.changeTag): changeTag.map { .string($0) }
        case .anySearchable: nil
        }
    }

    var words: Set<String> { fields.values.reduce(into: []) { $0.formUnion($1.words) } }
}

/// A dictionary of values in the types that apps use.
struct DictionarySubject: PredicateSubject {
    var values: [String: Any]

    func value(of field: Query.Field) -> FieldValue? {
        let name: String =
            switch field {
            case .own(let name): name
            case .system(let system): system.rawValue
            case .anySearchable: ""
            }
        return values[name].flatMap { FieldValue($0, in: .default) }
    }

    var words: Set<String> {
        values.values.reduce(into: []) { $0.formUnion(FieldValue($1, in: .default)?.words ?? []) }
    }
}

extension FieldValue {
    var text: String? {
        if case .string(let text) = self { return text }
        return nil
    }

    /// The words of the value for a full-text search, without case and diacritics.
    fileprivate var words: Set<String> {
        switch self {
        case .string(let text): Self.words(of: text)
        case .list(.string, let texts): texts.reduce(into: []) { $0.formUnion($1.words) }
        default: []
        }
    }

    static func words(of text: String) -> Set<String> {
        let plain = text.folding(options: [.caseInsensitive, .diacriticInsensitive], locale: nil)
        return Set(plain.split { !$0.isLetter && !$0.isNumber }.map(String.init))
    }

    /// Returns whether two values are equal: numbers by value, references by the record they refer to.
    func means(_ other: FieldValue) -> Bool {
        switch (self, other) {
        case (.reference(let a), .reference(let b)): a.recordName == b.recordName
        case (.string(let a), .reference(let b)), (.reference(let b), .string(let a)): a == b.recordName
        case (.location(let a), .location(let b)): a.latitude == b.latitude && a.longitude == b.longitude
        default: if let a = number, let b = other.number { a == b } else { self == other }
        }
    }

    fileprivate var number: Double? {
        switch self {
        case .int64(let number): Double(number)
        case .double(let number): number
        default: nil
        }
    }

    /// Returns -1, 0 or 1, or `nil` if the values have no order.
    func order(_ other: FieldValue) -> Int? {
        func sign<T: Comparable>(_ a: T, _ b: T) -> Int { a < b ? -1 : a == b ? 0 : 1 }
        switch (self, other) {
        case (.int64(let a), .int64(let b)): return sign(a, b)
        case (.string(let a), .string(let b)): return sign(a, b)
        case (.timestamp(let a), .timestamp(let b)): return sign(a, b)
        default:
            guard let a = number, let b = other.number else { return nil }
            return sign(a, b)
        }
    }
}

extension Query.Filter {
    /// Returns whether a record matches, by the relay's rules: a comparison with an absent field is false.
    func holds(for record: some PredicateSubject) -> Bool {
        if let opposite = comparator.opposite {
            return !Query.Filter(field, opposite, values, distance: distance).holds(for: record)
        }
        if comparator.looksForTokens { return findsWords(in: record) }
        guard let value = record.value(of: field), let first = values.first else { return false }
        switch comparator {
        case .equals: return value.means(first)
        case .lessThan, .lessThanOrEquals, .greaterThan, .greaterThanOrEquals: return isInRange(value.order(first))
        case .in: return values.contains { value.means($0) }
        case .beginsWith: return first.text.map { value.text?.hasPrefix($0) ?? false } ?? false
        case .near: return isNear(value)
        case .listContains:
            // For a text, `CONTAINS` in memory means a substring search.
            if let text = value.text, let part = first.text { return text.contains(part) }
            return value.elements.contains { $0.means(first) }
        case .listContainsAny: return values.contains { wanted in value.elements.contains { $0.means(wanted) } }
        case .listContainsAll: return values.allSatisfy { wanted in value.elements.contains { $0.means(wanted) } }
        case .listMemberBeginsWith:
            return value.elements.contains { element in first.text.map { element.text?.hasPrefix($0) ?? false } ?? false
            }
        default: return false
        }
    }

    private func isInRange(_ order: Int?) -> Bool {
        guard let order else { return false }
        return switch comparator {
        case .lessThan: order < 0
        case .lessThanOrEquals: order <= 0
        case .greaterThan: order > 0
        default: order >= 0
        }
    }

    private func findsWords(in record: some PredicateSubject) -> Bool {
        guard let text = values.first?.text else { return false }
        let wanted = FieldValue.words(of: text)
        let there = field == .anySearchable ? record.words : record.value(of: field)?.words ?? []
        return comparator == .containsAnyTokens ? !wanted.isDisjoint(with: there) : wanted.isSubset(of: there)
    }

    private func isNear(_ value: FieldValue) -> Bool {
        guard case .location(let here) = value, case .location(let there)? = values.first, let distance else {
            return false
        }
        return CLLocation(here).distance(from: CLLocation(there)) < distance
    }
}

extension FieldValue {
    fileprivate var elements: [FieldValue] {
        if case .list(_, let elements) = self { return elements }
        return []
    }
}
