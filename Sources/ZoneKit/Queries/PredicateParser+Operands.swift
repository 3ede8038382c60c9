import Foundation
import Records

/// Parsing of operands: fields, values, and the filters made of them.
extension PredicateParser {
    // MARK: Operands

    mutating func field() throws(Refusal) -> Query.Field {
        switch tokens.popFirst() {
        case .word(let name): return Query.Field(named: name, in: nil)
        case .argument("K"):
            guard let name = arguments.popFirst() as? String else { throw Refusal(why: "%K needs a string") }
            return name.lowercased() == "self" ? .anySearchable : Query.Field(named: name, in: nil)
        default: throw Refusal(why: "each comparison must begin with a field's name")
        }
    }

    mutating func value() throws(Refusal) -> Any {
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
        case .word("now"):
            guard tokens.popFirst() == .sign("("), tokens.popFirst() == .sign(")") else {
                throw Refusal(why: "now() takes no arguments")
            }
            return Date()
        case .sign("{"): return try literal()
        default: throw Refusal(why: "a value is missing")
        }
    }

    /// Parses `(seconds, "NSDate")`, the form in which predicates print dates.
    private mutating func cast() throws(Refusal) -> Date {
        guard tokens.popFirst() == .sign("("), tokens.first != .word("CAST"), tokens.first != .sign("{"),
            let seconds = try value() as? NSNumber, tokens.popFirst() == .sign(","),
            tokens.popFirst() == .text("NSDate"), tokens.popFirst() == .sign(")")
        else { throw Refusal(why: "only dates can be cast") }
        return Date(timeIntervalSinceReferenceDate: seconds.doubleValue)
    }

    private mutating func literal() throws(Refusal) -> [Any] {
        var elements: [Any] = []
        while tokens.first != .sign("}") {
            if tokens.first == .sign("{") { throw Refusal(why: "arrays cannot be nested") }
            elements.append(try value())
            if tokens.first == .sign(",") { tokens.removeFirst() } else { break }
        }
        guard tokens.popFirst() == .sign("}") else { throw Refusal(why: "an array is not closed") }
        return elements
    }

    mutating func elements(_ word: String) throws(Refusal) -> [Any] {
        let value = try self.value()
        if let set = value as? NSSet { return set.allObjects }
        guard let elements = value as? [Any] else { throw Refusal(why: "\(word) needs an array") }
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
            throw Refusal(why: "\(comparator.rawValue) does not apply to '\(system.rawValue)'")
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
            guard let date = value as? Date else { throw Refusal(why: "dates can only be compared with dates") }
            return .timestamp(Timestamp(date))
        case .system:
            guard let name = named ?? value as? String else {
                throw Refusal(why: "records and users can only be compared with a CKRecord.ID or a reference")
            }
            return .string(name)
        case .own, .anySearchable:
            if let named { return .reference(Reference(recordName: named)) }
            guard let operand = FieldValue(value, in: .default), case .scalar(let type) = operand.type, type != .asset
            else { throw Refusal(why: "'\(field.name)' is compared with a value of an unsupported type") }
            return operand
        }
    }
}
