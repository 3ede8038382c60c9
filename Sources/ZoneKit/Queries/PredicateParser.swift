import Foundation
import Records

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
        var why: String
    }

    var tokens: ArraySlice<PredicateToken>
    var arguments: ArraySlice<Any>
    /// The number of surrounding parentheses and negations.
    private var depth = 0

    /// The maximum depth: more than any real predicate needs, and small enough for a thread's stack.
    private static let deepest = 64

    private init(tokens: ArraySlice<PredicateToken>, arguments: ArraySlice<Any>) {
        self.tokens = tokens
        self.arguments = arguments
    }

    /// Parses a format.
    ///
    /// A failure contains the reason.
    static func parse(_ format: String, _ arguments: [Any]) -> Result<PredicateNode, Refusal> {
        do throws(Refusal) {
            guard let tokens = PredicateToken.tokens(of: format) else { throw Refusal(why: "it cannot be parsed") }
            var parser = PredicateParser(tokens: tokens[...], arguments: arguments[...])
            let node = try parser.disjunction()
            guard parser.tokens.isEmpty else { throw Refusal(why: "comparisons can only be joined by AND") }
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
        guard depth <= Self.deepest else { throw Refusal(why: "it is nested more than \(Self.deepest) times") }
        switch tokens.first {
        case .word("NOT"), .sign("!"):
            tokens.removeFirst()
            return .not(try term())
        case .sign("("):
            tokens.removeFirst()
            let node = try disjunction()
            guard tokens.popFirst() == .sign(")") else { throw Refusal(why: "a parenthesis is not closed") }
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
            return .filter(try nearness())
        case .word("SELF"), .word("allTokens"):
            tokens.removeFirst()
            return .filter(try words(in: .anySearchable))
        case .word("ALL") where asksForWords:
            tokens.removeFirst()
            return .filter(try words(by: .containsAllTokens))
        case .word("ANY"), .word("SOME"):
            let asksForWords = asksForWords
            tokens.removeFirst()
            return asksForWords ? .filter(try words(by: .containsAnyTokens)) : try membership(of: field())
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
            guard bounds.count == 2 else { throw Refusal(why: "BETWEEN needs an array of two values") }
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
        guard case .word(let word)? = tokens.popFirst() else { throw Refusal(why: "a comparison is missing") }
        let options = takeOptions()
        let value = try self.value()
        if let comparator, options == nil { return .filter(try filter(field, comparator, [value])) }
        return .local(
            local(
                field,
                comparison,
                try operand(value, of: field),
                options,
                why: comparator == nil ? "'\(word)' is not a comparison that queries support" : nil
            )
        )
    }

    private mutating func equation(of field: Query.Field) throws(Refusal) -> PredicateNode {
        let comparator = try self.comparator()
        let options = takeOptions()
        let isEquation = comparator == .equals || comparator == .notEquals
        let comparison = comparator == .notEquals ? LocalComparison.Operator.notEquals : .equals
        if isEquation, tokens.first == .word("NULL") || tokens.first == .word("NIL") || isNothing {
            _ = try? value()
            return .local(local(field, comparison, nil, nil, why: "nothing can be compared with nil"))
        }
        let value = try self.value()
        if isEquation, let options {
            return .local(local(field, comparison, try operand(value, of: field), options, why: nil))
        }
        return .filter(try filter(field, comparator, [value]))
    }

    /// Whether the next value is an `NSNull` argument.
    private var isNothing: Bool {
        guard case .argument(let kind)? = tokens.first, kind != "K" else { return false }
        return arguments.first is NSNull
    }

    private func local(
        _ field: Query.Field,
        _ comparison: LocalComparison.Operator,
        _ operand: FieldValue?,
        _ options: String?,
        why: String?
    ) -> LocalComparison {
        LocalComparison(
            field: field,
            comparison: comparison,
            operand: operand,
            ignoresCase: options?.contains("c") ?? false,
            ignoresDiacritics: options?.contains("d") ?? false,
            why: why ?? "'\(options ?? "")' is supported only in full-text searches"
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
            throw Refusal(why: "'\(options)' is supported only in full-text searches")
        }
        switch sign {
        case .sign("="), .sign("=="), .word("CONTAINS"): return .filter(try filter(field, .listContains, [value()]))
        case .word("IN"): return try inclusion(of: field, .listContainsAny)
        case .word("BEGINSWITH"): return .filter(try filter(field, .listMemberBeginsWith, [value()]))
        default: throw Refusal(why: "ANY supports only =, CONTAINS, IN and BEGINSWITH")
        }
    }

    /// Parses `(field, place) < metres`, with the field and the place in either order.
    private mutating func nearness() throws(Refusal) -> Query.Filter {
        guard tokens.popFirst() == .sign("(") else { throw Refusal(why: "a distance needs a field and a location") }
        let (field, place) = try fieldAndPlace()
        guard tokens.popFirst() == .sign(")") else { throw Refusal(why: "a distance needs a field and a location") }
        switch try comparator() {
        case .lessThan, .lessThanOrEquals: break
        default: throw Refusal(why: "a distance supports only < and <=")
        }
        guard let metres = try value() as? NSNumber else {
            throw Refusal(why: "a distance is compared with a number of metres")
        }
        return Query.Filter(field, .near, [.location(place.value)], distance: metres.doubleValue)
    }

    /// Parses the field and the place of a distance.
    private mutating func fieldAndPlace() throws(Refusal) -> (Query.Field, CLLocation) {
        let mixed = Refusal(why: "a distance needs a field and a CLLocation")
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
            throw Refusal(why: "'\(other)' is not a comparison that queries support")
        default: throw Refusal(why: "a comparison is missing")
        }
    }

    /// Parses the options after an operator: `[c]`, `[d]` or both.
    mutating func takeOptions() -> String? {
        guard case .sign(let options)? = tokens.first, options.hasPrefix("[") else { return nil }
        tokens.removeFirst()
        return options
    }
}
