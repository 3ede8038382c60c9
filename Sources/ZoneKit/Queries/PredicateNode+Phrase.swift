import Foundation
import Records

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
    private func phrase(inside outer: PredicateNode) -> String { bond < outer.bond ? "(\(phrase))" : phrase }

    private var bond: Int {
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
        case .timestamp(let moment): "CAST(\(Date(moment).timeIntervalSinceReferenceDate), \"NSDate\")"
        case .list(_, let elements): "{" + elements.map(\.phrase).joined(separator: ", ") + "}"
        default: object(in: .default).map { "\($0)" } ?? "nil"
        }
    }
}
