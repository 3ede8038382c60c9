import Foundation
import Records

/// A word or sign of the predicate format language.
enum PredicateToken: Equatable {
    /// A field's name, or a keyword in capitals.
    case word(String)
    case sign(String)
    case text(String)
    case number(String)
    /// `K` for a field's name, any other letter for a value.
    case argument(String)

    private static let language: Set<String> = [
        "AND", "OR", "NOT", "IN", "BETWEEN", "CONTAINS", "BEGINSWITH", "ENDSWITH", "LIKE", "MATCHES", "TOKENMATCHES",
        "ANY", "SOME", "ALL", "NONE", "TRUEPREDICATE", "FALSEPREDICATE", "SELF", "CAST", "TRUE", "YES", "FALSE", "NO",
        "NULL", "NIL",
    ]

    /// Returns the tokens of a format; `nil` for an unterminated string or an unknown character.
    static func tokens(of format: String) -> [PredicateToken]? {
        var rest = Substring(format)
        var tokens: [PredicateToken] = []
        while let first = rest.first {
            if first.isWhitespace {
                rest.removeFirst()
            } else if let token = next(of: &rest) {
                tokens.append(token)
            } else {
                return nil
            }
        }
        return tokens
    }

    private static func next(of rest: inout Substring) -> PredicateToken? {
        guard let first = rest.first else { return nil }
        switch first {
        case "'", "\"":
            return quoted(of: &rest, by: first)
        case "%":
            rest.removeFirst()
            if rest.first == "@" {
                rest.removeFirst()
                return .argument("@")
            }
            let kind = take(&rest) { $0.isLetter }
            return kind.isEmpty ? nil : .argument(kind)
        case "(", ")", "{", "}", ",":
            rest.removeFirst()
            return .sign(String(first))
        case "[":
            // Options after an operator: case-insensitive, diacritic-insensitive.
            let options = take(&rest) { $0 != "]" }
            guard rest.popFirst() == "]" else { return nil }
            return .sign(options.lowercased() + "]")
        default: break
        }
        if first.isNumber || first == "-" { return .number(take(&rest) { $0.isNumber || ".-+eE".contains($0) }) }
        if first.isLetter || first == "_" {
            let word = take(&rest) { $0.isLetter || $0.isNumber || "_.:".contains($0) }
            return .word(language.contains(word.uppercased()) ? word.uppercased() : word)
        }
        let sign = take(&rest) { "=<>!&|".contains($0) }
        return sign.isEmpty ? nil : .sign(sign)
    }

    private static func quoted(of rest: inout Substring, by quote: Character) -> PredicateToken? {
        rest.removeFirst()
        var text = ""
        while let character = rest.popFirst() {
            if character == quote { return .text(text) }
            if character == "\\", let escaped = rest.popFirst() { text.append(escaped) } else { text.append(character) }
        }
        return nil
    }

    private static func take(_ rest: inout Substring, while isPart: (Character) -> Bool) -> String {
        let part = rest.prefix(while: isPart)
        rest = rest.dropFirst(part.count)
        return String(part)
    }
}

/// Parses the part of the predicate format language that CloudKit supports: comparisons of one field each, joined by
/// `AND`.
///
/// Supported are `field = value` and similar comparisons in either order, `BEGINSWITH`, `BETWEEN` and `IN`; `CONTAINS`,
/// `ANY` and `value IN list` for lists; `self CONTAINS`, `TOKENMATCHES` and `ALL tokenize(words, 'cdl') IN allTokens`
/// for full-text searches; `distanceToLocation:fromLocation:(field, place) < metres`; `now()` as a date; and `NOT`
/// before those that have an opposite. `OR`, `LIKE`, `MATCHES`, `ENDSWITH`, `[cd]` and `nil` are parsed too: predicates
/// with them can be evaluated in memory, and report the reason when they are sent.
struct PredicateParser {
    /// The reason why a format cannot be parsed or sent.
    struct Refusal: Error {
        var reason: String
    }

    var tokens: ArraySlice<PredicateToken>
    var arguments: ArraySlice<Any>
    /// The number of surrounding parentheses and negations.
    private var depth = 0

    /// The maximum depth: more than any real predicate needs, and small enough for a thread's stack.
    private static let maxDepth = 64

    private init(tokens: ArraySlice<PredicateToken>, arguments: ArraySlice<Any>) {
        self.tokens = tokens
        self.arguments = arguments
    }

    /// Parses a format.
    ///
    /// A failure contains the reason.
    static func parse(_ format: String, _ arguments: [Any]) -> Result<PredicateNode, Refusal> {
        do throws(Refusal) {
            guard let tokens = PredicateToken.tokens(of: format) else { throw Refusal(reason: "it cannot be parsed") }
            var parser = PredicateParser(tokens: tokens[...], arguments: arguments[...])
            let node = try parser.disjunction()
            guard parser.tokens.isEmpty else { throw Refusal(reason: "comparisons can only be joined by AND") }
            return .success(node)
        } catch {
            return .failure(error)
        }
    }

    // MARK: Structure

    private mutating func disjunction() throws(Refusal) -> PredicateNode {
        var parts = [try conjunction()]
        while tokens.first == .word("OR") || tokens.first == .sign("||") {
            tokens.removeFirst()
            parts.append(try conjunction())
        }
        return parts.count == 1 ? parts[0] : .or(parts)
    }

    private mutating func conjunction() throws(Refusal) -> PredicateNode {
        var parts = [try term()]
        while tokens.first == .word("AND") || tokens.first == .sign("&&") {
            tokens.removeFirst()
            parts.append(try term())
        }
        return parts.count == 1 ? parts[0] : .and(parts)
    }

    private mutating func term() throws(Refusal) -> PredicateNode {
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.maxDepth else { throw Refusal(reason: "it is nested more than \(Self.maxDepth) times") }
        switch tokens.first {
        case .word("NOT"), .sign("!"):
            tokens.removeFirst()
            return .not(try term())
        case .sign("("):
            tokens.removeFirst()
            let node = try disjunction()
            guard tokens.popFirst() == .sign(")") else { throw Refusal(reason: "a parenthesis is not closed") }
            return node
        case .word("TRUEPREDICATE"):
            tokens.removeFirst()
            return .constant(true)
        case .word("FALSEPREDICATE"):
            tokens.removeFirst()
            return .constant(false)
        default: return try comparison()
        }
    }

    // MARK: Comparisons

    private mutating func comparison() throws(Refusal) -> PredicateNode {
        switch tokens.first {
        case .word("distanceToLocation:fromLocation:"):
            tokens.removeFirst()
            return .filter(try distanceFilter())
        case .word("SELF"), .word("allTokens"):
            tokens.removeFirst()
            return .filter(try words(in: .anySearchable))
        case .word("ALL") where isTokenSearch:
            tokens.removeFirst()
            return .filter(try words(by: .containsAllTokens))
        case .word("ANY"), .word("SOME"):
            let isTokenSearch = isTokenSearch
            tokens.removeFirst()
            return isTokenSearch ? .filter(try words(by: .containsAnyTokens)) : try membership(of: field())
        case .argument("K"): return try comparison(of: field())
        case .word("now") where tokens.dropFirst().first == .sign("("): return .filter(try comparisonFromValue())
        case .text, .number, .argument: return .filter(try comparisonFromValue())
        default: return try comparison(of: field())
        }
    }

    /// Parses a comparison that begins with its value: `value IN list`, or `value < field`, which means `field >
    /// value`.
    private mutating func comparisonFromValue() throws(Refusal) -> Query.Filter {
        let value = try self.value()
        if tokens.first == .word("IN") {
            tokens.removeFirst()
            return try filter(field(), .listContains, [value])
        }
        let comparator = try self.comparator().mirrored
        return try filter(field(), comparator, [value])
    }

    private mutating func comparison(of field: Query.Field) throws(Refusal) -> PredicateNode {
        switch tokens.first {
        case .word("IN"):
            tokens.removeFirst()
            return try inclusion(of: field, .in)
        case .word("BETWEEN"):
            tokens.removeFirst()
            let bounds = try elements("BETWEEN")
            guard bounds.count == 2 else { throw Refusal(reason: "BETWEEN needs an array of two values") }
            return .and([
                .filter(try filter(field, .greaterThanOrEquals, [bounds[0]])),
                .filter(try filter(field, .lessThanOrEquals, [bounds[1]])),
            ])
        case .word("TOKENMATCHES"): return .filter(try words(in: field))
        case .word("CONTAINS"): return try text(field, .contains, .listContains)
        case .word("BEGINSWITH"): return try text(field, .beginsWith, .beginsWith)
        case .word("ENDSWITH"): return try text(field, .endsWith, nil)
        case .word("LIKE"): return try text(field, .like, nil)
        case .word("MATCHES"): return try text(field, .matches, nil)
        default: return try equation(of: field)
        }
    }

    /// Parses a text comparison.
    ///
    /// The relay supports it if it has a comparator for it and there are no options.
    private mutating func text(
        _ field: Query.Field,
        _ comparison: LocalComparison.Operator,
        _ comparator: Query.Comparator?
    ) throws(Refusal) -> PredicateNode {
        guard case .word(let word)? = tokens.popFirst() else { throw Refusal(reason: "a comparison is missing") }
        let options = takeOptions()
        let value = try self.value()
        if let comparator, options == nil { return .filter(try filter(field, comparator, [value])) }
        return .local(
            local(
                field,
                comparison,
                try operand(value, of: field),
                options,
                reason: comparator == nil ? "'\(word)' is not a comparison that queries support" : nil
            )
        )
    }

    private mutating func equation(of field: Query.Field) throws(Refusal) -> PredicateNode {
        let comparator = try self.comparator()
        let options = takeOptions()
        let isEquation = comparator == .equals || comparator == .notEquals
        let comparison = comparator == .notEquals ? LocalComparison.Operator.notEquals : .equals
        if isEquation, tokens.first == .word("NULL") || tokens.first == .word("NIL") || isNil {
            _ = try? value()
            return .local(local(field, comparison, nil, nil, reason: "nothing can be compared with nil"))
        }
        let value = try self.value()
        if isEquation, let options {
            return .local(local(field, comparison, try operand(value, of: field), options, reason: nil))
        }
        return .filter(try filter(field, comparator, [value]))
    }

    /// Whether the next value is an `NSNull` argument.
    private var isNil: Bool {
        guard case .argument(let kind)? = tokens.first, kind != "K" else { return false }
        return arguments.first is NSNull
    }

    private func local(
        _ field: Query.Field,
        _ comparison: LocalComparison.Operator,
        _ operand: FieldValue?,
        _ options: String?,
        reason: String?
    ) -> LocalComparison {
        LocalComparison(
            field: field,
            comparison: comparison,
            operand: operand,
            ignoresCase: options?.contains("c") ?? false,
            ignoresDiacritics: options?.contains("d") ?? false,
            reason: reason ?? "'\(options ?? "")' is supported only in full-text searches"
        )
    }

    /// Parses `field IN list`.
    ///
    /// An empty list matches nothing.
    private mutating func inclusion(
        of field: Query.Field,
        _ comparator: Query.Comparator
    ) throws(Refusal) -> PredicateNode {
        let elements = try elements("IN")
        return elements.isEmpty ? .constant(false) : .filter(try filter(field, comparator, elements))
    }

    /// Parses `ANY list = value`, `ANY list IN values` and `ANY list BEGINSWITH text`.
    private mutating func membership(of field: Query.Field) throws(Refusal) -> PredicateNode {
        let sign = tokens.popFirst()
        if let options = takeOptions() {
            throw Refusal(reason: "'\(options)' is supported only in full-text searches")
        }
        switch sign {
        case .sign("="), .sign("=="), .word("CONTAINS"): return .filter(try filter(field, .listContains, [value()]))
        case .word("IN"): return try inclusion(of: field, .listContainsAny)
        case .word("BEGINSWITH"): return .filter(try filter(field, .listMemberBeginsWith, [value()]))
        default: throw Refusal(reason: "ANY supports only =, CONTAINS, IN and BEGINSWITH")
        }
    }

    /// Parses `(field, place) < metres`, with the field and the place in either order.
    private mutating func distanceFilter() throws(Refusal) -> Query.Filter {
        guard tokens.popFirst() == .sign("(") else { throw Refusal(reason: "a distance needs a field and a location") }
        let (field, place) = try fieldAndLocation()
        guard tokens.popFirst() == .sign(")") else { throw Refusal(reason: "a distance needs a field and a location") }
        switch try comparator() {
        case .lessThan, .lessThanOrEquals: break
        default: throw Refusal(reason: "a distance supports only < and <=")
        }
        guard let metres = try value() as? NSNumber else {
            throw Refusal(reason: "a distance is compared with a number of metres")
        }
        return Query.Filter(field, .near, [.location(place.value)], distance: metres.doubleValue)
    }

    /// Parses the field and the place of a distance.
    private mutating func fieldAndLocation() throws(Refusal) -> (Query.Field, CLLocation) {
        let mixed = Refusal(reason: "a distance needs a field and a CLLocation")
        if tokens.first == .argument("@") {
            guard let place = try value() as? CLLocation, tokens.popFirst() == .sign(",") else { throw mixed }
            return (try field(), place)
        }
        let field = try field()
        guard tokens.popFirst() == .sign(","), let place = try value() as? CLLocation else { throw mixed }
        return (field, place)
    }

    private mutating func comparator() throws(Refusal) -> Query.Comparator {
        switch tokens.popFirst() {
        case .sign("="), .sign("=="): return .equals
        case .sign("!="), .sign("<>"): return .notEquals
        case .sign("<"): return .lessThan
        case .sign("<="), .sign("=<"): return .lessThanOrEquals
        case .sign(">"): return .greaterThan
        case .sign(">="), .sign("=>"): return .greaterThanOrEquals
        case .word(let other), .sign(let other):
            throw Refusal(reason: "'\(other)' is not a comparison that queries support")
        default: throw Refusal(reason: "a comparison is missing")
        }
    }

    /// Parses the options after an operator: `[c]`, `[d]` or both.
    mutating func takeOptions() -> String? {
        guard case .sign(let options)? = tokens.first, options.hasPrefix("[") else { return nil }
        tokens.removeFirst()
        return options
    }
}

/// Parsing of operands: fields, values, and the filters made of them.
extension PredicateParser {
    // MARK: Operands

    mutating func field() throws(Refusal) -> Query.Field {
        switch tokens.popFirst() {
        case .word(let name): return Query.Field(named: name, in: nil)
        case .argument("K"):
            guard let name = arguments.popFirst() as? String else { throw Refusal(reason: "%K needs a string") }
            return name.lowercased() == "self" ? .anySearchable : Query.Field(named: name, in: nil)
        default: throw Refusal(reason: "each comparison must begin with a field's name")
        }
    }

    mutating func value() throws(Refusal) -> Any {
        switch tokens.popFirst() {
        case .text(let text): return text
        case .number(let digits):
            if let number = Int64(digits) { return number }
            guard let number = Double(digits) else { throw Refusal(reason: "'\(digits)' is not a number") }
            return number
        case .argument:
            guard let argument = arguments.popFirst() else { throw Refusal(reason: "an argument is missing") }
            return argument
        case .word("TRUE"), .word("YES"): return Int64(1)
        case .word("FALSE"), .word("NO"): return Int64(0)
        case .word("NULL"), .word("NIL"): throw Refusal(reason: "nothing can be compared with nil")
        case .word("CAST"): return try cast()
        case .word("now"):
            guard tokens.popFirst() == .sign("("), tokens.popFirst() == .sign(")") else {
                throw Refusal(reason: "now() takes no arguments")
            }
            return Date()
        case .sign("{"): return try literal()
        default: throw Refusal(reason: "a value is missing")
        }
    }

    /// Parses `(seconds, "NSDate")`, the form in which predicates print dates.
    private mutating func cast() throws(Refusal) -> Date {
        guard tokens.popFirst() == .sign("("), tokens.first != .word("CAST"), tokens.first != .sign("{"),
            let seconds = try value() as? NSNumber, tokens.popFirst() == .sign(","),
            tokens.popFirst() == .text("NSDate"), tokens.popFirst() == .sign(")")
        else { throw Refusal(reason: "only dates can be cast") }
        return Date(timeIntervalSinceReferenceDate: seconds.doubleValue)
    }

    private mutating func literal() throws(Refusal) -> [Any] {
        var elements: [Any] = []
        while tokens.first != .sign("}") {
            if tokens.first == .sign("{") { throw Refusal(reason: "arrays cannot be nested") }
            elements.append(try value())
            if tokens.first == .sign(",") { tokens.removeFirst() } else { break }
        }
        guard tokens.popFirst() == .sign("}") else { throw Refusal(reason: "an array is not closed") }
        return elements
    }

    mutating func elements(_ word: String) throws(Refusal) -> [Any] {
        let value = try self.value()
        if let set = value as? NSSet { return set.allObjects }
        guard let elements = value as? [Any] else { throw Refusal(reason: "\(word) needs an array") }
        return elements
    }

    // MARK: Filters

    func filter(
        _ field: Query.Field,
        _ comparator: Query.Comparator,
        _ values: [Any]
    ) throws(Refusal) -> Query.Filter {
        var operands: [FieldValue] = []
        for value in values { operands.append(try operand(value, of: field)) }
        if case .system(let system) = field, comparator.valueType(for: system) == nil {
            throw Refusal(reason: "\(comparator.rawValue) does not apply to '\(system.rawValue)'")
        }
        return Query.Filter(field, comparator, operands)
    }

    /// Converts a value to the type in which the field is compared: timestamps and names for the system fields.
    func operand(_ value: Any, of field: Query.Field) throws(Refusal) -> FieldValue {
        let named =
            (value as? CKRecord.ID)?.recordName ?? (value as? CKRecord.Reference)?.recordID.recordName
            ?? (value as? CKRecord)?.recordID.recordName
        switch field {
        case .system(.created), .system(.modified):
            guard let date = value as? Date else { throw Refusal(reason: "dates can only be compared with dates") }
            return .timestamp(Timestamp(date))
        case .system:
            guard let name = named ?? value as? String else {
                throw Refusal(reason: "records and users can only be compared with a CKRecord.ID or a reference")
            }
            return .string(name)
        case .own, .anySearchable:
            if let named { return .reference(Reference(recordName: named)) }
            guard let operand = FieldValue(value, in: .default), case .scalar(let type) = operand.type, type != .asset
            else { throw Refusal(reason: "'\(field.name)' is compared with a value of an unsupported type") }
            return operand
        }
    }
}

/// Full-text searches.
extension PredicateParser {
    /// Parses `CONTAINS 'words'` of the whole record, or `TOKENMATCHES 'words'` of the record or a field.
    mutating func words(in field: Query.Field) throws(Refusal) -> Query.Filter {
        let sign = tokens.popFirst()
        guard sign == .word("TOKENMATCHES") || (sign == .word("CONTAINS") && field == .anySearchable) else {
            throw Refusal(reason: "a full-text search needs CONTAINS or TOKENMATCHES")
        }
        // Full-text searches always ignore case and diacritics.
        _ = takeOptions()
        guard let text = try value() as? String else { throw Refusal(reason: "a full-text search needs a string") }
        return Query.Filter(field, .containsAllTokens, [.string(text)])
    }

    /// Whether the next tokens are `tokenize(words, 'cdl')`, possibly after `ALL` or `ANY`.
    var isTokenSearch: Bool {
        tokens.dropFirst().prefix(1).contains { $0 == .word("tokenize") || $0 == .word("tokenize:using:") }
    }

    /// Parses `tokenize(words, 'cdl') IN allTokens`, the form in which CloudKit prints `self CONTAINS`.
    mutating func words(by comparator: Query.Comparator) throws(Refusal) -> Query.Filter {
        tokens.removeFirst()
        let mistake = Refusal(reason: "a full-text search has the form tokenize(words, 'cdl') IN allTokens")
        guard tokens.popFirst() == .sign("("), let text = try value() as? String, tokens.popFirst() == .sign(","),
            try value() is String, tokens.popFirst() == .sign(")"), tokens.popFirst() == .word("IN")
        else { throw mistake }
        guard [.word("allTokens"), .word("SELF")].contains(tokens.popFirst()) else { throw mistake }
        return Query.Filter(.anySearchable, comparator, [.string(text)])
    }
}
