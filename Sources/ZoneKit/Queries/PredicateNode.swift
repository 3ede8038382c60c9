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
    var form: PredicateForm {
        switch self {
        case .constant(true): .all
        case .constant(false): .none
        case .filter(let filter): .filters([filter])
        case .local(let comparison): .refused(comparison.why)
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
    var why: String

    func holds(for record: some PredicateSubject) -> Bool {
        let value = record.value(of: field)
        guard let operand else {
            return comparison == .notEquals ? value != nil : value == nil
        }
        guard case .string(let wanted) = operand else {
            return comparison == .equals ? value?.means(operand) == true : value?.means(operand) != true
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
