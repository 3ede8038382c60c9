import Foundation
import Records

/// A parsed predicate, for conversion to a query and for evaluation in memory.
indirect enum PredicateNode: Hashable, Sendable {
    case constant(Bool)
    /// A comparison that the relay supports.
    case filter(Query.Filter)
    /// A comparison that only works in memory.
    case local(LocalComparison)
    case and([PredicateNode])
    case or([PredicateNode])
    case not(PredicateNode)

    /// The conditions to send, or the reason why the predicate cannot be sent.
    var form: PredicateConditions {
        switch self {
        case .constant(true): .all
        case .constant(false): .none
        case .filter(let filter): .filters([filter])
        case .local(let comparison): .refused(comparison.reason)
        case .and(let parts): parts.reduce(.all) { $0.and($1.form) }
        case .or(let parts) where parts.count == 1: parts[0].form
        case .or: .refused("comparisons can only be joined by AND")
        case .not(let part):
            part.form.negated
                ?? .refused("NOT supports only a single comparison with =, IN, BEGINSWITH or CONTAINS")
        }
    }

    /// Returns whether the predicate matches a record.
    func holds(for record: some PredicateSubject) -> Bool {
        switch self {
        case .constant(let value): value
        case .filter(let filter): filter.holds(for: record)
        case .local(let comparison): comparison.holds(for: record)
        case .and(let parts): parts.allSatisfy { $0.holds(for: record) }
        case .or(let parts): parts.contains { $0.holds(for: record) }
        case .not(let part): !part.holds(for: record)
        }
    }
}

/// A comparison that the relay does not support: by pattern, by suffix, case-insensitive, or with `nil`.
struct LocalComparison: Hashable, Sendable {
    enum Operator: Sendable { case equals, notEquals, beginsWith, endsWith, contains, like, matches }

    var field: Query.Field
    var comparison: Operator
    /// `nil` for a comparison with `nil`.
    var operand: FieldValue?
    var ignoresCase = false
    var ignoresDiacritics = false
    /// The reason why the comparison cannot be sent, as part of a sentence.
    var reason: String

    func holds(for record: some PredicateSubject) -> Bool {
        let value = record.value(of: field)
        guard let operand else {
            return comparison == .notEquals ? value != nil : value == nil
        }
        guard case .string(let wanted) = operand else {
            return comparison == .equals ? value?.isEquivalent(operand) == true : value?.isEquivalent(operand) != true
        }
        let texts: [String] =
            switch value {
            case .string(let text)?: [text]
            case .list(.string, let texts)? where comparison == .contains: texts.compactMap(\.text)
            default: []
            }
        if case .list? = value { return texts.contains { fold($0) == fold(wanted) } }
        guard let text = texts.first else { return comparison == .notEquals }
        return holds(fold(text), fold(wanted))
    }

    private func holds(_ text: String, _ wanted: String) -> Bool {
        switch comparison {
        case .equals: text == wanted
        case .notEquals: text != wanted
        case .beginsWith: text.hasPrefix(wanted)
        case .endsWith: text.hasSuffix(wanted)
        case .contains: text.contains(wanted)
        case .like: Self.matches(text, Self.pattern(like: wanted))
        case .matches: Self.matches(text, wanted)
        }
    }

    private func fold(_ text: String) -> String {
        var options: String.CompareOptions = []
        if ignoresCase { options.insert(.caseInsensitive) }
        if ignoresDiacritics { options.insert(.diacriticInsensitive) }
        return options.isEmpty ? text : text.folding(options: options, locale: nil)
    }

    private static func pattern(like text: String) -> String {
        text.map { character in
            switch character {
            case "*": ".*"
            case "?": "."
            default: NSRegularExpression.escapedPattern(for: String(character))
            }
        }.joined()
    }

    private static func matches(_ text: String, _ pattern: String) -> Bool {
        guard let expression = try? NSRegularExpression(pattern: "^(?:\(pattern))$", options: .dotMatchesLineSeparators)
        else { return false }
        return expression.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)) != nil
    }
}

/// Printing of predicates in the format language.
extension PredicateNode {
    /// The predicate in the format language, with values in place of the arguments.
    var phrase: String {
        switch self {
        case .constant(let value): value ? "TRUEPREDICATE" : "FALSEPREDICATE"
        case .filter(let filter): filter.phrase
        case .local(let comparison): comparison.phrase
        case .and(let parts): parts.map { $0.phrase(inside: .and([])) }.joined(separator: " AND ")
        case .or(let parts): parts.map { $0.phrase(inside: .or([])) }.joined(separator: " OR ")
        case .not(let part): "NOT " + part.phrase(inside: .not(.constant(true)))
        }
    }

    /// Returns the phrase, in parentheses if its precedence is lower than that of the surrounding operator.
    private func phrase(inside outer: PredicateNode) -> String {
        precedence < outer.precedence ? "(\(phrase))" : phrase
    }

    private var precedence: Int {
        switch self {
        case .or: 0
        case .and: 1
        case .not: 2
        case .constant, .filter, .local: 3
        }
    }
}

extension LocalComparison {
    fileprivate var phrase: String {
        let sign =
            switch comparison {
            case .equals: "=="
            case .notEquals: "!="
            case .beginsWith: "BEGINSWITH"
            case .endsWith: "ENDSWITH"
            case .contains: "CONTAINS"
            case .like: "LIKE"
            case .matches: "MATCHES"
            }
        let marks = (ignoresCase ? "c" : "") + (ignoresDiacritics ? "d" : "")
        return "\(field.programName) \(sign)\(marks.isEmpty ? "" : "[\(marks)]") \(operand?.phrase ?? "nil")"
    }
}

extension FieldValue {
    /// The value in the format language, or its description if the language has no literal for it.
    var phrase: String {
        switch self {
        case .string(let text):
            "\"" + text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"") + "\""
        case .timestamp(let timestamp): "CAST(\(Date(timestamp).timeIntervalSinceReferenceDate), \"NSDate\")"
        case .list(_, let elements): "{" + elements.map(\.phrase).joined(separator: ", ") + "}"
        default: object(in: .default).map { "\($0)" } ?? "nil"
        }
    }
}

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
    func isEquivalent(_ other: FieldValue) -> Bool {
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
        if comparator.looksForTokens { return matchesTokens(in: record) }
        guard let value = record.value(of: field), let first = values.first else { return false }
        switch comparator {
        case .equals: return value.isEquivalent(first)
        case .lessThan, .lessThanOrEquals, .greaterThan, .greaterThanOrEquals: return isInRange(value.order(first))
        case .in: return values.contains { value.isEquivalent($0) }
        case .beginsWith: return first.text.map { value.text?.hasPrefix($0) ?? false } ?? false
        case .near: return isNear(value)
        case .listContains:
            // For a text, `CONTAINS` in memory means a substring search.
            if let text = value.text, let part = first.text { return text.contains(part) }
            return value.elements.contains { $0.isEquivalent(first) }
        case .listContainsAny: return values.contains { wanted in value.elements.contains { $0.isEquivalent(wanted) } }
        case .listContainsAll:
            return values.allSatisfy { wanted in value.elements.contains { $0.isEquivalent(wanted) } }
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

    private func matchesTokens(in record: some PredicateSubject) -> Bool {
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
