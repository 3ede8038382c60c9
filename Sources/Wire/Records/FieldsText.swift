package import Records

/// A `fields` object, with which of its bytes are whose.
package struct FieldsText: Sendable {
    /// A field and where its value stands: `{"value":…,"type":…}`.
    struct Part: Sendable {
        var name: String
        var place: Range<Int>
    }

    package fileprivate(set) var bytes = FieldsJSON.empty
    fileprivate(set) var parts: [Part] = []

    package init() {}

    /// A field whose value somebody has to know, and its place among all.
    package typealias Known = (place: Int, entry: FieldsJSON.Entry)

    /// The same with other values for some of the fields, in their order.
    package func replacing(_ changed: [Known]) -> FieldsText {
        var rest = changed[...]
        var writer = FieldsWriter(count: parts.count, reserving: bytes.count + 64 * changed.count)
        for (place, part) in parts.enumerated() {
            if rest.first?.place == place, let known = rest.popFirst() {
                writer.add(known.entry)
            } else {
                writer.add(part.name, raw: bytes[part.place])
            }
        }
        return writer.finish()
    }
}

/// Writes a `fields` object field by field.
package struct FieldsWriter: ~Copyable {
    private var writer: JSONWriter
    private var parts: [FieldsText.Part] = []

    /// `capacity`: about how many bytes it will be.
    package init(count: Int, reserving capacity: Int) {
        writer = JSONWriter(reserving: capacity)
        parts.reserveCapacity(count)
        writer.open(UInt8(ascii: "{"))
    }

    /// How many there are.
    package var count: Int { parts.count }

    package mutating func add(_ entry: FieldsJSON.Entry) {
        let start = begin(entry.name)
        FieldCodec.write(entry.value, isEncrypted: entry.isEncrypted, to: &writer)
        end(entry.name, start)
    }

    mutating func add(_ name: String, raw value: ArraySlice<UInt8>) {
        let start = begin(name)
        writer.raw(value)
        end(name, start)
    }

    /// Takes a value over from the text that it came in, where the form it has there is the one that is kept; answers the bytes
    /// of its content, or `nil`, and nothing added, for any other.
    ///
    /// Strings without escapes and integers, which most fields are, need be read by nobody.
    package mutating func add(
        _ name: String,
        _ value: JSONValue,
        ofType type: FieldType,
        isEncrypted: Bool
    ) -> Int? {
        guard let form = PlainForm(value, type) else { return nil }
        let start = begin(name)
        let raw = value.rawBytes
        writer.fragment(#"{"value":"#)
        writer.raw(raw)
        writer.fragment(form.typeText)
        if isEncrypted { writer.fragment(#","isEncrypted":true"#) }
        writer.close(UInt8(ascii: "}"))
        end(name, start)
        return form == .string ? raw.count - 2 : 0
    }

    /// The whole object; nothing can be added to it.
    package consuming func finish() -> FieldsText {
        writer.close(UInt8(ascii: "}"))
        var text = FieldsText()
        text.bytes = writer.bytes
        text.parts = parts
        return text
    }

    private mutating func begin(_ name: String) -> Int {
        writer.key(name)
        return writer.length
    }

    private mutating func end(_ name: String, _ start: Int) {
        parts.append(FieldsText.Part(name: name, place: start..<writer.length))
    }
}

/// What a value is that stands in its text as it is kept.
private enum PlainForm {
    case string, int64, timestamp

    init?(_ value: JSONValue, _ type: FieldType) {
        switch type {
        case .scalar(.string) where value.isPlainString: self = .string
        case .scalar(.int64) where value.isPlainInteger: self = .int64
        case .scalar(.timestamp) where value.isPlainInteger: self = .timestamp
        default: return nil
        }
    }

    var typeText: StaticString {
        switch self {
        case .string: #","type":"STRING""#
        case .int64: #","type":"INT64""#
        case .timestamp: #","type":"TIMESTAMP""#
        }
    }
}

extension JSONValue {
    /// A string without escapes: then it has none that it need not have, either.
    fileprivate var isPlainString: Bool { document.tape[index].kind == .string }

    /// An integer that surely fits 64 bits, and is written as we write it: all but minus nought.
    fileprivate var isPlainInteger: Bool {
        let node = document.tape[index]
        guard node.kind == .integer, node.end - node.start <= 18 else { return false }
        return document.bytes[Int(node.start)] != UInt8(ascii: "-")
            || document.bytes[Int(node.start) + 1] != UInt8(ascii: "0")
    }
}
