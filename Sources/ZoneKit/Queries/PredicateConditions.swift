import Foundation
import Records
import Synchronization

/// The conditions of a predicate, as far as the relay supports them.
enum PredicateConditions: Sendable {
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
        let form: PredicateConditions =
            switch node {
            case .success(let node): node.form
            case .failure(let refusal): .refused(refusal.reason)
            }
        if case .refused(let reason) = form {
            self = .refused("The predicate \"\(format)\" cannot be sent: \(reason).")
        } else {
            self = form
        }
    }
}

extension PredicateConditions {
    /// Returns the conjunction of both.
    func and(_ other: PredicateConditions) -> PredicateConditions {
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
    var negated: PredicateConditions? {
        switch self {
        case .all: return PredicateConditions.none
        case PredicateConditions.none: return .all
        case .refused: return self
        case .filters(let filters):
            guard filters.count == 1, var filter = filters.first, let comparator = filter.comparator.negation else {
                return nil
            }
            filter.comparator = comparator
            return .filters([filter])
        }
    }

    private static func joined(_ compound: NSCompoundPredicate) -> PredicateConditions {
        var parts: [PredicateConditions] = []
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
    extension PredicateConditions {
        /// Parses a predicate.
        ///
        /// Comparisons are split and formatted again with their values as arguments, because not all values can be
        /// printed. Other predicates are parsed from their own format.
        private static func written(_ predicate: NSPredicate) -> PredicateConditions {
            let format = predicate.predicateFormat
            if let comparison = predicate as? NSComparisonPredicate, let word = comparison.word,
                let left = side(comparison.leftExpression), let right = side(comparison.rightExpression)
            {
                let text = "\(left.text) \(word) \(right.text)"
                return PredicateConditions(format, PredicateParser.parse(text, left.arguments + right.arguments))
            }
            return PredicateConditions(format, PredicateParser.parse(format, []))
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
    extension PredicateConditions {
        /// Returns the conditions of a predicate that was created from a format.
        private static func written(_ predicate: NSPredicate) -> PredicateConditions {
            (predicate as? FormatPredicate)?.form
                ?? .refused("A predicate with a block cannot be sent. Use a format or a value.")
        }
    }
#endif

extension NSPredicate {
    /// Returns a predicate with these conditions, to show the app the predicate of a decoded or fetched query.
    ///
    /// `zone` is the zone of the records. Returns `nil` if the format language cannot express one of the filters.
    static func matching(_ filters: [Query.Filter], in zone: CKRecordZone.ID) -> NSPredicate? {
        guard !filters.isEmpty else { return NSPredicate(value: true) }
        var clauses: [String] = []
        var arguments: [Any] = []
        for filter in filters {
            guard let format = filter.format, let values = filter.arguments(in: zone) else { return nil }
            clauses.append(format)
            arguments += values
        }
        let predicate = NSPredicate(format: clauses.joined(separator: " AND "), argumentArray: arguments)
        // Not a predicate with another meaning than the filters.
        guard case .filters(let read) = PredicateConditions(predicate), read == filters else { return nil }
        return predicate
    }
}

extension Query.Filter {
    /// The comparison in the format language, with arguments for the field, if there is one, and for the values.
    fileprivate var format: String? {
        switch comparator {
        case .equals: "%K == %@"
        case .notEquals: "%K != %@"
        case .lessThan: "%K < %@"
        case .lessThanOrEquals: "%K <= %@"
        case .greaterThan: "%K > %@"
        case .greaterThanOrEquals: "%K >= %@"
        case .in: "%K IN %@"
        case .notIn: "NOT (%K IN %@)"
        case .beginsWith: "%K BEGINSWITH %@"
        case .notBeginsWith: "NOT (%K BEGINSWITH %@)"
        case .near: "distanceToLocation:fromLocation:(%K, %@) < %@"
        case .containsAllTokens: field == .anySearchable ? "allTokens TOKENMATCHES[cdl] %@" : "%K TOKENMATCHES[cdl] %@"
        case .listContains: "%K CONTAINS %@"
        case .notListContains: "NOT (%K CONTAINS %@)"
        case .listContainsAny: "ANY %K IN %@"
        case .notListContainsAny: "NOT (ANY %K IN %@)"
        case .listMemberBeginsWith: "ANY %K BEGINSWITH %@"
        case .notListMemberBeginsWith: "NOT (ANY %K BEGINSWITH %@)"
        case .containsAnyTokens: field == .anySearchable ? "ANY tokenize(%@, 'cdl') IN allTokens" : nil
        case .listContainsAll, .notListContainsAll: nil
        }
    }

    /// The comparison with the field and the values in place of the arguments.
    var phrase: String {
        let parts = (format ?? "%K \(comparator.rawValue) %@").replacingOccurrences(of: "%K", with: field.programName)
            .components(separatedBy: "%@")
        let operand = comparator.takesList ? FieldValue.list(.string, values).phrase : values.first?.phrase
        let operands = [operand ?? "nil"] + (distance.map { ["\($0)"] } ?? [])
        return zip(parts, operands + [""]).map { $0 + $1 }.joined()
    }

    /// Returns the arguments; `nil` for values without a Swift type, and for invalid field names.
    fileprivate func arguments(in zone: CKRecordZone.ID) -> [Any]? {
        let objects = values.compactMap { object($0, in: zone) }
        guard objects.count == values.count, let first = objects.first, field.hasValidName else { return nil }
        var arguments: [Any] = field == .anySearchable ? [] : [field.programName]
        arguments.append(comparator.takesList ? objects : first)
        if let distance { arguments.append(NSNumber(value: distance)) }
        return arguments
    }

    /// Returns a value in the type that apps use: record IDs for records and users, unless they are compared as text.
    private func object(_ value: FieldValue, in zone: CKRecordZone.ID) -> Any? {
        guard case .system(let system) = field, system.type == .scalar(.reference), let name = value.text,
            comparator.isEquality
        else { return value.object(in: zone) }
        return CKRecord.ID(recordName: name, zoneID: system == .recordName ? zone : .default)
    }
}

extension Query.Field {
    /// Whether the name is valid for a field.
    ///
    /// Apple's parser of formats traps on some other names.
    fileprivate var hasValidName: Bool {
        programName.first?.isLetter == true
            && programName.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
    }

    /// The name of the field in apps.
    var programName: String {
        switch self {
        case .system(.recordName): CKRecord.SystemFieldKey.recordID
        case .system(.created): CKRecord.SystemFieldKey.creationDate
        case .system(.modified): CKRecord.SystemFieldKey.modificationDate
        case .system(.createdBy): CKRecord.SystemFieldKey.creatorUserRecordID
        case .system(.modifiedBy): CKRecord.SystemFieldKey.lastModifiedUserRecordID
        case .system(.changeTag): "recordChangeTag"
        case .own(let name): name
        case .anySearchable: "self"
        }
    }
}
