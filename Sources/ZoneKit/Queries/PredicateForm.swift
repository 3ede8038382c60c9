import Foundation
import Records
import Synchronization

/// The conditions of a predicate, as far as the relay supports them.
enum PredicateForm: Sendable {
    case all
    case none
    case filters([Query.Filter])
    /// The reason why the relay does not support the predicate, as a sentence for developers.
    case refused(String)

    init(_ predicate: NSPredicate) {
        // Must come first, because on Linux a compound predicate equals a constant one.
        if let compound = predicate as? NSCompoundPredicate {
            self = Self.joined(compound)
        } else if predicate == NSPredicate(value: true) {
            self = .all
        } else if predicate == NSPredicate(value: false) {
            self = .none
        } else {
            self = Self.written(predicate)
        }
    }

    /// Creates the conditions of a parsed format.
    init(_ format: String, _ node: Result<PredicateNode, PredicateParser.Refusal>) {
        let form: PredicateForm =
            switch node {
            case .success(let node): node.form
            case .failure(let refusal): .refused(refusal.why)
            }
        if case .refused(let why) = form {
            self = .refused("The predicate \"\(format)\" cannot be sent: \(why).")
        } else {
            self = form
        }
    }
}

extension PredicateForm {
    /// Returns the conjunction of both.
    func and(_ other: PredicateForm) -> PredicateForm {
        switch (self, other) {
        case (.refused, _): self
        case (_, .refused): other
        case (.none, _), (_, .none): .none
        case (.all, _): other
        case (_, .all): self
        case (.filters(let some), .filters(let more)): .filters(some + more)
        }
    }

    /// The negation; `nil` if the relay does not support it.
    var negated: PredicateForm? {
        switch self {
        case .all: return PredicateForm.none
        case PredicateForm.none: return .all
        case .refused: return self
        case .filters(let filters):
            guard filters.count == 1, var filter = filters.first, let comparator = filter.comparator.negation else {
                return nil
            }
            filter.comparator = comparator
            return .filters([filter])
        }
    }

    private static func joined(_ compound: NSCompoundPredicate) -> PredicateForm {
        var parts: [PredicateForm] = []
        for case let predicate as NSPredicate in compound.subpredicates as [Any] { parts.append(Self(predicate)) }
        switch compound.compoundPredicateType {
        case .and: return parts.reduce(.all) { $0.and($1) }
        case .not where parts.count == 1:
            return parts[0].negated
                ?? .refused("NOT supports only a single comparison with =, IN, BEGINSWITH or CONTAINS.")
        default: return .refused("The predicate cannot be sent: comparisons can only be joined by AND.")
        }
    }
}

extension Query.Comparator {
    /// The comparator with both sides exchanged.
    var mirrored: Query.Comparator {
        switch self {
        case .lessThan: .greaterThan
        case .lessThanOrEquals: .greaterThanOrEquals
        case .greaterThan: .lessThan
        case .greaterThanOrEquals: .lessThanOrEquals
        default: self
        }
    }

    /// The comparator with the opposite meaning.
    fileprivate var negation: Query.Comparator? {
        opposite ?? Self.allCases.first { $0.opposite == self }
    }
}

#if canImport(Darwin)
    extension PredicateForm {
        /// Parses a predicate.
        ///
        /// Comparisons are split and formatted again with their values as arguments, because not all values can be
        /// printed. Other predicates are parsed from their own format.
        private static func written(_ predicate: NSPredicate) -> PredicateForm {
            let format = predicate.predicateFormat
            if let comparison = predicate as? NSComparisonPredicate, let word = comparison.word,
                let left = side(comparison.leftExpression), let right = side(comparison.rightExpression)
            {
                let text = "\(left.text) \(word) \(right.text)"
                return PredicateForm(format, PredicateParser.parse(text, left.arguments + right.arguments))
            }
            return PredicateForm(format, PredicateParser.parse(format, []))
        }

        /// Returns one side of a comparison with its arguments; `nil` for expressions that can only print themselves.
        private static func side(_ expression: NSExpression) -> (text: String, arguments: [Any])? {
            switch expression.expressionType {
            case .keyPath: return ("%K", [expression.keyPath])
            case .evaluatedObject: return ("self", [])
            case .constantValue: return expression.constantValue.map { ("%@", [$0]) }
            case .aggregate:
                let values = (expression.collection as? [NSExpression])?.compactMap(\.constantValue)
                return values.map { ("%@", [$0]) }
            case .function:
                guard expression.function == "distanceToLocation:fromLocation:",
                    let parts = expression.arguments, parts.count == 2,
                    let from = side(parts[0]), let to = side(parts[1])
                else { return nil }
                return (
                    "distanceToLocation:fromLocation:(\(from.text), \(to.text))", from.arguments + to.arguments
                )
            default: return nil
            }
        }
    }

    extension NSComparisonPredicate {
        /// The operator in the format language; `nil` for operators that CloudKit does not support.
        fileprivate var word: String? {
            guard comparisonPredicateModifier == .direct else { return nil }
            let word: String? =
                switch predicateOperatorType {
                case .equalTo: "="
                case .notEqualTo: "!="
                case .lessThan: "<"
                case .lessThanOrEqualTo: "<="
                case .greaterThan: ">"
                case .greaterThanOrEqualTo: ">="
                case .beginsWith: "BEGINSWITH"
                case .contains: "CONTAINS"
                case .in: "IN"
                case .between: "BETWEEN"
                default: nil
                }
            var marks = options.contains(.caseInsensitive) ? "c" : ""
            if options.contains(.diacriticInsensitive) { marks += "d" }
            return word.map { marks.isEmpty ? $0 : "\($0)[\(marks)]" }
        }
    }
#else
    extension PredicateForm {
        /// Returns the conditions of a predicate that was created from a format.
        private static func written(_ predicate: NSPredicate) -> PredicateForm {
            (predicate as? FormatPredicate)?.form
                ?? .refused("A predicate with a block cannot be sent. Use a format or a value.")
        }
    }
#endif
