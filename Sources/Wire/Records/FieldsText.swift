package import Records

/// A `fields` object as it was written here.
package struct FieldsText: Sendable {
    /// A field and where its value stands: `{"value":…,"type":…}`.
    struct Part: Sendable {
        var name: String
        var place: Range<Int>
    }

    package fileprivate(set) var bytes = FieldsJSON.empty

    /// Which of the bytes are whose, in their order.
    ///
    /// Looked up when somebody asks: most records are stored as they come, and nobody does.
    var parts: [Part] { StoredFields.parts(of: bytes) }

    package init() {}

    /// A field whose value somebody has to know, and its place among all.
    package typealias Known = (place: Int, entry: FieldsJSON.Entry)

    /// The same with other values for some of the fields, in their order.
    package func replacing(_ changed: [Known]) -> FieldsText {
        var rest = changed[...]
        var writer = FieldsWriter(reserving: bytes.count + 64 * changed.count)
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
    /// How many there are.
    package private(set) var count = 0

    /// `capacity`: about how many bytes it will be.
    package init(reserving capacity: Int) {
        writer = JSONWriter(reserving: capacity)
        writer.open(UInt8(ascii: "{"))
    }

    /// What stands before the value of a field: `"name":{"value":`.
    package static func key(_ name: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.key(name)
        writer.fragment(#"{"value":"#)
        return writer.bytes
    }

    package mutating func add(_ entry: FieldsJSON.Entry) {
        writer.key(entry.name)
        FieldCodec.write(entry.value, isEncrypted: entry.isEncrypted, to: &writer)
        count += 1
    }

    mutating func add(_ name: String, raw value: ArraySlice<UInt8>) {
        writer.key(name)
        writer.raw(value)
        count += 1
    }

    /// Takes a value over from the text that it came in, where the form it has there is the one that is kept; answers how
    /// many bytes a string's content has (0 for numbers), or `nil`, and nothing added, for any other.
    ///
    /// Strings without escapes and integers, which most fields are, need be read by nobody. `key` is as the function of that
    /// name makes it.
    package mutating func add(
        _ key: [UInt8],
        _ field: FieldInput,
        of record: borrowing RecordInput,
        ofType type: FieldType,
        isEncrypted: Bool
    ) -> Int? {
        guard let (form, place) = record.plainValue(of: field, type) else { return nil }
        writer.key(finished: key)
        record.withText(place) { writer.raw($0) }
        writer.fragment(form.typeText)
        if isEncrypted { writer.fragment(#","isEncrypted":true"#) }
        writer.close(UInt8(ascii: "}"))
        count += 1
        return form == .string ? place.count - 2 : 0
    }

    /// The whole object; nothing can be added to it.
    package consuming func finish() -> FieldsText {
        writer.close(UInt8(ascii: "}"))
        var text = FieldsText()
        text.bytes = writer.bytes
        return text
    }
}

/// What a value is that stands in its text as it is kept.
enum PlainForm {
    case string, int64, timestamp

    /// `nil` for a value whose text is not what is kept.
    init?(_ document: JSONDocument, _ index: Int, _ type: FieldType) {
        switch type {
        // Without escapes: then it has none that it need not have, either.
        case .scalar(.string) where document.tape[index].kind == .string: self = .string
        case .scalar(.int64) where document.isPlainInteger(at: index): self = .int64
        case .scalar(.timestamp) where document.isPlainInteger(at: index): self = .timestamp
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

extension JSONDocument {
    /// An integer that surely fits 64 bits, and is written as we write it: all but minus nought.
    fileprivate func isPlainInteger(at index: Int) -> Bool {
        let node = tape[index]
        guard node.kind == .integer, node.end - node.start <= 18 else { return false }
        return bytes[Int(node.start)] != UInt8(ascii: "-") || bytes[Int(node.start) + 1] != UInt8(ascii: "0")
    }
}
