import Foundation
import Records

/// Reads the part of the predicate format language that this version can send: `field operator value AND …`.
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
            return try parser.form()
        } catch {
            return .refused("The predicate \"\(format)\" cannot be sent: \(error.why).")
        }
    }

    private mutating func form() throws(Refusal) -> PredicateForm {
        var filters: [Query.Filter] = []
        var canMatch = true
        while true {
            switch tokens.first {
            case .word("TRUEPREDICATE"): tokens.removeFirst()
            case .word("FALSEPREDICATE"):
                tokens.removeFirst()
                canMatch = false
            default: filters.append(try comparison())
            }
            guard let joint = tokens.popFirst() else { break }
            guard joint == .word("AND") || joint == .sign("&&") else {
                throw Refusal(why: "comparisons can only be joined by AND")
            }
        }
        guard canMatch else { return .none }
        return filters.isEmpty ? .all : .filters(filters)
    }

    private mutating func comparison() throws(Refusal) -> Query.Filter {
        let name = try fieldName()
        guard let field = Query.SystemField(anyName: name) else {
            throw Refusal(
                why: "'\(name)' is not one of the fields that every record has, and only those can be compared"
            )
        }
        let comparator = try self.comparator()
        let value = try self.value()
        if comparator == .in {
            guard let elements = value as? [Any] else { throw Refusal(why: "IN needs an array") }
            var values: [FieldValue] = []
            for element in elements { values.append(try operand(element, of: field)) }
            return Query.Filter(field, .in, values)
        }
        return Query.Filter(field, comparator, [try operand(value, of: field)])
    }

    private mutating func fieldName() throws(Refusal) -> String {
        switch tokens.popFirst() {
        case .word(let name): return name
        case .argument("K"):
            guard let name = arguments.popFirst() as? String else { throw Refusal(why: "%K needs a string") }
            return name
        default: throw Refusal(why: "each comparison must begin with a field's name")
        }
    }

    private mutating func comparator() throws(Refusal) -> Query.Comparator {
        switch tokens.popFirst() {
        case .sign("="), .sign("=="): return .equals
        case .sign("!="), .sign("<>"): return .notEquals
        case .sign("<"): return .lessThan
        case .sign("<="), .sign("=<"): return .lessThanOrEquals
        case .sign(">"): return .greaterThan
        case .sign(">="), .sign("=>"): return .greaterThanOrEquals
        case .word("IN"): return .in
        case .word("BEGINSWITH"): return .beginsWith
        case .word(let other), .sign(let other):
            throw Refusal(why: "'\(other)' is not a comparison it can be asked for")
        default: throw Refusal(why: "a comparison is missing")
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
        default: throw Refusal(why: "a value is missing")
        }
    }

    /// A value in the form that the field is compared in: moments, names.
    private func operand(_ value: Any, of field: Query.SystemField) throws(Refusal) -> FieldValue {
        switch field {
        case .created, .modified:
            guard let date = value as? Date else { throw Refusal(why: "dates are compared with dates") }
            return .timestamp(Timestamp(date))
        case .recordName, .createdBy, .modifiedBy, .changeTag:
            if let id = value as? CKRecord.ID { return .string(id.recordName) }
            if let reference = value as? CKRecord.Reference { return .string(reference.recordID.recordName) }
            if let record = value as? CKRecord { return .string(record.recordID.recordName) }
            if let text = value as? String { return .string(text) }
            throw Refusal(why: "records and users are compared with a CKRecord.ID or a reference")
        }
    }
}

/// A word or sign of the predicate format language.
enum PredicateToken: Equatable {
    /// A field's name, or a word of the language in capitals.
    case word(String)
    case sign(String)
    case text(String)
    case number(String)
    /// `K` for a field's name, anything else for a value.
    case argument(String)

    private static let language: Set<String> = [
        "AND", "OR", "NOT", "IN", "BETWEEN", "CONTAINS", "BEGINSWITH", "ENDSWITH", "LIKE", "MATCHES", "ANY", "ALL",
        "NONE",
        "TRUEPREDICATE", "FALSEPREDICATE",
    ]

    /// All tokens of a format; `nil` for a string without an end or an unknown character.
    static func tokens(of format: String) -> [PredicateToken]? {
        var rest = Substring(format)
        var tokens: [PredicateToken] = []
        while let first = rest.first {
            if first.isWhitespace {
                rest.removeFirst()
            } else if first == "'" || first == "\"" {
                let content = rest.dropFirst()
                guard let end = content.firstIndex(of: first) else { return nil }
                tokens.append(.text(String(content[..<end])))
                rest = content[content.index(after: end)...]
            } else if first == "%" {
                rest.removeFirst()
                let kind = rest.prefix { $0.isLetter || $0 == "@" }
                guard !kind.isEmpty else { return nil }
                tokens.append(.argument(String(kind)))
                rest = rest.dropFirst(kind.count)
            } else if first.isNumber || first == "-" {
                let digits = rest.prefix { $0.isNumber || $0 == "." || $0 == "-" }
                tokens.append(.number(String(digits)))
                rest = rest.dropFirst(digits.count)
            } else if first.isLetter || first == "_" {
                let word = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." }
                tokens.append(.word(language.contains(word.uppercased()) ? word.uppercased() : String(word)))
                rest = rest.dropFirst(word.count)
            } else {
                let sign = rest.prefix { "=<>!&|".contains($0) }
                guard !sign.isEmpty else { return nil }
                tokens.append(.sign(String(sign)))
                rest = rest.dropFirst(sign.count)
            }
        }
        return tokens
    }
}
