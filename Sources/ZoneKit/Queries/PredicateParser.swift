import Foundation
import Records

/// Reads what CloudKit takes of the predicate format language: comparisons of one field each, joined by `AND`.
///
/// `field = value` and its kin, `BEGINSWITH`, `BETWEEN`, `IN`, `CONTAINS` and `ANY` for lists, `value IN list`,
/// `self CONTAINS` and `TOKENMATCHES` for words, `distanceToLocation:fromLocation:(field, place) < metres`, and `NOT` before
/// any of these that has an opposite.
struct PredicateParser {
    /// Why a format cannot be read or sent.
    struct Refusal: Error {
        var why: String
    }

    private var tokens: ArraySlice<PredicateToken>
    private var arguments: ArraySlice<Any>

    static func parse(_ format: String, _ arguments: [Any]) -> PredicateForm {
        do throws(Refusal) {
            guard let tokens = PredicateToken.tokens(of: format) else { throw Refusal(why: "it cannot be read") }
            var parser = PredicateParser(tokens: tokens[...], arguments: arguments[...])
            let form = try parser.conjunction()
            guard parser.tokens.isEmpty else { throw Refusal(why: "comparisons can only be joined by AND") }
            return form
        } catch {
            return .refused("The predicate \"\(format)\" cannot be sent: \(error.why).")
        }
    }

    // MARK: Structure

    private mutating func conjunction() throws(Refusal) -> PredicateForm {
        var form = try term()
        while tokens.first == .word("AND") || tokens.first == .sign("&&") {
            tokens.removeFirst()
            form = form.and(try term())
        }
        return form
    }

    private mutating func term() throws(Refusal) -> PredicateForm {
        switch tokens.first {
        case .word("NOT"), .sign("!"):
            tokens.removeFirst()
            guard let form = try term().negated else {
                throw Refusal(why: "NOT can stand before one comparison by =, IN, BEGINSWITH or CONTAINS only")
            }
            return form
        case .sign("("):
            tokens.removeFirst()
            let form = try conjunction()
            guard tokens.popFirst() == .sign(")") else { throw Refusal(why: "comparisons can only be joined by AND") }
            return form
        case .word("TRUEPREDICATE"):
            tokens.removeFirst()
            return .all
        case .word("FALSEPREDICATE"):
            tokens.removeFirst()
            return .none
        default: return .filters(try comparison())
        }
    }

    // MARK: Comparisons

    private mutating func comparison() throws(Refusal) -> [Query.Filter] {
        switch tokens.first {
        case .word("distanceToLocation:fromLocation:"):
            tokens.removeFirst()
            return [try nearness()]
        case .word("SELF"), .word("allTokens"):
            tokens.removeFirst()
            return [try words(in: .anySearchable)]
        case .word("ANY"), .word("SOME"):
            tokens.removeFirst()
            return [try membership(of: field())]
        case .text, .number, .argument("@"), .argument("d"), .argument("i"), .argument("ld"), .argument("f"):
            let value = try self.value()
            guard tokens.popFirst() == .word("IN") else {
                throw Refusal(why: "each comparison must begin with a field's name")
            }
            let field = try field()
            return [try filter(field, .listContains, [value])]
        default: return try comparison(of: field())
        }
    }

    private mutating func comparison(of field: Query.Field) throws(Refusal) -> [Query.Filter] {
        switch tokens.first {
        case .word("IN"):
            tokens.removeFirst()
            return [try filter(field, .in, elements("IN"))]
        case .word("BETWEEN"):
            tokens.removeFirst()
            let bounds = try elements("BETWEEN")
            guard bounds.count == 2 else { throw Refusal(why: "BETWEEN needs an array of two") }
            return [
                try filter(field, .greaterThanOrEquals, [bounds[0]]), try filter(field, .lessThanOrEquals, [bounds[1]]),
            ]
        case .word("TOKENMATCHES"): return [try words(in: field)]
        case .word("CONTAINS"):
            tokens.removeFirst()
            try refuseOptions()
            return [try filter(field, .listContains, [value()])]
        case .word("BEGINSWITH"):
            tokens.removeFirst()
            try refuseOptions()
            return [try filter(field, .beginsWith, [value()])]
        default:
            let comparator = try self.comparator()
            try refuseOptions()
            return [try filter(field, comparator, [value()])]
        }
    }

    /// `ANY list = value`, `ANY list IN values`, `ANY list BEGINSWITH text`.
    private mutating func membership(of field: Query.Field) throws(Refusal) -> Query.Filter {
        let sign = tokens.popFirst()
        try refuseOptions()
        switch sign {
        case .sign("="), .sign("=="): return try filter(field, .listContains, [value()])
        case .word("IN"): return try filter(field, .listContainsAny, elements("IN"))
        case .word("BEGINSWITH"): return try filter(field, .listMemberBeginsWith, [value()])
        default: throw Refusal(why: "ANY goes with =, IN and BEGINSWITH only")
        }
    }

    /// `CONTAINS 'words'` of everything, `TOKENMATCHES 'words'` of that or of a field.
    private mutating func words(in field: Query.Field) throws(Refusal) -> Query.Filter {
        let sign = tokens.popFirst()
        guard sign == .word("TOKENMATCHES") || (sign == .word("CONTAINS") && field == .anySearchable) else {
            throw Refusal(why: "words are looked for by CONTAINS or TOKENMATCHES")
        }
        // Words are without case and diacritics anyhow.
        if case .sign(let options) = tokens.first, options.hasPrefix("[") { tokens.removeFirst() }
        guard let text = try value() as? String else { throw Refusal(why: "words are looked for by a text") }
        return Query.Filter(field, .containsAllTokens, [.string(text)])
    }

    /// `(field, place) < metres`, the places in either order.
    private mutating func nearness() throws(Refusal) -> Query.Filter {
        guard tokens.popFirst() == .sign("(") else { throw Refusal(why: "a distance is between two places") }
        let field = try self.field()
        guard tokens.popFirst() == .sign(","), let place = try value() as? CLLocation, tokens.popFirst() == .sign(")")
        else { throw Refusal(why: "a distance is between a field and a CLLocation") }
        switch try comparator() {
        case .lessThan, .lessThanOrEquals: break
        default: throw Refusal(why: "a distance can only be less than some metres")
        }
        guard let metres = try value() as? NSNumber else { throw Refusal(why: "a distance is a number of metres") }
        return Query.Filter(field, .near, [.location(place.value)], distance: metres.doubleValue)
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
            throw Refusal(why: "'\(other)' is not a comparison it can be asked for")
        default: throw Refusal(why: "a comparison is missing")
        }
    }

    private func refuseOptions() throws(Refusal) {
        if case .sign(let options) = tokens.first, options.hasPrefix("[") {
            throw Refusal(why: "comparisons are exact, and '\(options)' is for words only")
        }
    }

    // MARK: Operands

    private mutating func field() throws(Refusal) -> Query.Field {
        switch tokens.popFirst() {
        case .word(let name): return Query.Field(named: name, in: nil)
        case .argument("K"):
            guard let name = arguments.popFirst() as? String else { throw Refusal(why: "%K needs a string") }
            return name.lowercased() == "self" ? .anySearchable : Query.Field(named: name, in: nil)
        default: throw Refusal(why: "each comparison must begin with a field's name")
        }
    }

    private mutating func value() throws(Refusal) -> Any {
        switch tokens.popFirst() {
        case .text(let text): return text
        case .number(let digits):
            if let number = Int64(digits) { return number }
            guard let number = Double(digits) else { throw Refusal(why: "'\(digits)' is not a number") }
            return number
        case .argument:
            guard let argument = arguments.popFirst() else { throw Refusal(why: "an argument is missing") }
            return argument
        case .word("TRUE"), .word("YES"): return Int64(1)
        case .word("FALSE"), .word("NO"): return Int64(0)
        case .word("NULL"), .word("NIL"): throw Refusal(why: "nothing can be compared with nil")
        case .word("CAST"): return try cast()
        case .sign("{"): return try literal()
        default: throw Refusal(why: "a value is missing")
        }
    }

    /// `(seconds, "NSDate")`, as predicates print their dates.
    private mutating func cast() throws(Refusal) -> Date {
        guard tokens.popFirst() == .sign("("), let seconds = try value() as? NSNumber, tokens.popFirst() == .sign(","),
            tokens.popFirst() == .text("NSDate"), tokens.popFirst() == .sign(")")
        else { throw Refusal(why: "only dates can be cast") }
        return Date(timeIntervalSinceReferenceDate: seconds.doubleValue)
    }

    private mutating func literal() throws(Refusal) -> [Any] {
        var elements: [Any] = []
        while tokens.first != .sign("}") {
            elements.append(try value())
            if tokens.first == .sign(",") { tokens.removeFirst() } else { break }
        }
        guard tokens.popFirst() == .sign("}") else { throw Refusal(why: "an array has no end") }
        return elements
    }

    private mutating func elements(_ word: String) throws(Refusal) -> [Any] {
        let value = try self.value()
        if let set = value as? NSSet { return set.allObjects }
        guard let elements = value as? [Any] else { throw Refusal(why: "\(word) needs an array") }
        return elements
    }

    // MARK: Filters

    private func filter(
        _ field: Query.Field,
        _ comparator: Query.Comparator,
        _ values: [Any]
    ) throws(Refusal) -> Query.Filter {
        var operands: [FieldValue] = []
        for value in values { operands.append(try operand(value, of: field)) }
        if case .system(let system) = field, comparator.valueType(for: system) == nil {
            throw Refusal(why: "\(comparator.rawValue) does not apply to '\(system.rawValue)'")
        }
        guard !operands.isEmpty else { throw Refusal(why: "an array to compare with is empty") }
        return Query.Filter(field, comparator, operands)
    }

    /// A value in the form that the field is compared in: moments and names for the fields every record has.
    private func operand(_ value: Any, of field: Query.Field) throws(Refusal) -> FieldValue {
        let named =
            (value as? CKRecord.ID)?.recordName ?? (value as? CKRecord.Reference)?.recordID.recordName
            ?? (value as? CKRecord)?.recordID.recordName
        switch field {
        case .system(.created), .system(.modified):
            guard let date = value as? Date else { throw Refusal(why: "dates are compared with dates") }
            return .timestamp(Timestamp(date))
        case .system:
            guard let name = named ?? value as? String else {
                throw Refusal(why: "records and users are compared with a CKRecord.ID or a reference")
            }
            return .string(name)
        case .own, .anySearchable:
            if let named { return .reference(Reference(recordName: named)) }
            guard let operand = FieldValue(value, in: .default), case .scalar(let type) = operand.type, type != .asset
            else { throw Refusal(why: "'\(field.name)' is compared with a value that no field can be compared with") }
            return operand
        }
    }
}
