import ArgumentParser
import Records
import Wire

/// A field on the command line: `title=Milk` is text, `count:=3` is JSON as in requests, `title=` clears the field.
///
/// `due:TIMESTAMP=1795809890479` also names the type, which a field needs if no schema declares it.
struct FieldArgument: ExpressibleByArgument {
    var name: String
    /// `nil` clears the field.
    var json: [UInt8]?
    /// `nil`: the schema's type, or the type that the relay infers.
    var type: FieldType?

    init?(argument: String) {
        guard let sign = argument.firstIndex(of: "=") else { return nil }
        let value = String(argument[argument.index(after: sign)...])
        let words = argument[..<sign].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let word = words.first, !word.isEmpty else { return nil }
        name = String(word)
        if words.count > 1, !words[1].isEmpty {
            guard let type = FieldType(tag: String(words[1])) else { return nil }
            self.type = type
        }
        if words.count == 1 {
            json = value.isEmpty ? nil : Self.string(value)
        } else {
            guard (try? JSONDocument(parsing: Array(value.utf8))) != nil else { return nil }
            json = Array(value.utf8)
        }
    }

    static func string(_ text: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.string(text)
        return writer.bytes
    }

    func write(to writer: inout JSONWriter) {
        writer.key(name)
        writer.object { field in
            field.key("value")
            if let json { field.raw(json) } else { field.null() }
            if let type, json != nil { field.member("type", type.tag) }
        }
    }
}

/// A filter on the command line: `FIELD COMPARATOR VALUE`, such as `title BEGINS_WITH Mi` or `count >= 3`.
///
/// The command does not know the field's type. It sends a number as text, which the relay reads by the field's type. It sends
/// other JSON as it is, and as text if the relay refuses the JSON.
struct FilterArgument {
    /// A value as it is sent.
    private struct Form {
        var json: [UInt8]
        /// The type of a list, which the relay requires for `IN`.
        var type: FieldType?
    }

    private var field: String
    private var comparator: String
    private var value: Form
    /// The value as the text that was typed; `nil` if `value` is that text already.
    private var text: Form?

    /// Whether the value can be sent as text instead of JSON.
    var mayBeText: Bool { text != nil }

    private static let signs = [
        "=": "EQUALS", "==": "EQUALS", "!=": "NOT_EQUALS", "<": "LESS_THAN", "<=": "LESS_THAN_OR_EQUALS",
        ">": "GREATER_THAN", ">=": "GREATER_THAN_OR_EQUALS",
    ]

    /// - Throws: `ValidationError` with the correct syntax if the text is not a filter.
    init(argument: String) throws {
        let words = argument.split(separator: " ", maxSplits: 2).map(String.init)
        guard words.count == 3 else {
            throw ValidationError("Write FIELD COMPARATOR VALUE, such as 'title BEGINS_WITH Mi' or 'count >= 3'.")
        }
        field = words[0]
        comparator = Self.signs[words[1]] ?? words[1].uppercased()
        guard let known = Query.Comparator(rawValue: comparator) else {
            let all = Query.Comparator.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("\(words[1]) is not a comparator. Use =, !=, <, <=, >, >=, \(all).")
        }
        let json = try? JSONDocument(parsing: Array(words[2].utf8)).root
        if known.takesList {
            guard let json, let elements = try? json.elements() else {
                throw ValidationError(
                    "\(comparator) takes a list in JSON, such as '\(field) \(comparator) [\"a\", \"b\"]'."
                )
            }
            let isListed = known == .in || known == .notIn
            value = Form(json: Array(json.rawBytes), type: isListed ? FieldCodec.inferredType(of: json) : nil)
            if !elements.allSatisfy(\.isString) {
                text = Form(json: Self.texts(elements), type: isListed ? .list(.string) : nil)
            }
        } else if let json, !json.isNumber {
            value = Form(json: Array(json.rawBytes))
            if !json.isString { text = Form(json: FieldArgument.string(words[2])) }
        } else {
            value = Form(json: FieldArgument.string(words[2]))
        }
    }

    /// A list's elements as texts.
    private static func texts(_ elements: [JSONValue]) -> [UInt8] {
        var writer = JSONWriter()
        writer.array(elements) { list, element in
            if element.isString { list.raw(element.rawBytes) } else { list.string(element.line) }
        }
        return writer.bytes
    }

    func write(asText: Bool = false, to writer: inout JSONWriter) {
        let form = asText ? text ?? value : value
        writer.object { filter in
            filter.member("fieldName", field)
            filter.member("comparator", comparator)
            filter.key("fieldValue")
            filter.object {
                $0.key("value")
                $0.raw(form.json)
                if let type = form.type { $0.member("type", type.tag) }
            }
        }
    }
}
