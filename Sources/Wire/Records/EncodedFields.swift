package import Records

/// An encoded `fields` object.
package struct EncodedFields: Sendable {
    /// A field and the position of its object `{"value":…,"type":…}`.
    struct Part: Sendable {
        var name: String
        var place: Range<Int>
    }

    package fileprivate(set) var bytes = FieldsJSON.empty

    /// The fields and their positions, in order.
    ///
    /// Computed on demand, because most records are stored as they are.
    var parts: [Part] { StoredFields.parts(of: bytes) }

    package init() {}

    /// A field with its decoded value and its index.
    package typealias DecodedField = (place: Int, entry: FieldsJSON.Entry)

    /// Returns the object with some fields replaced; `changed` is in order.
    package func replacing(_ changed: [DecodedField]) -> EncodedFields {
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

/// Encodes a `fields` object field by field.
package struct FieldsWriter: ~Copyable {
    private var writer: JSONWriter
    /// The number of fields.
    package private(set) var count = 0

    /// `capacity` is the approximate size in bytes.
    package init(reserving capacity: Int) {
        writer = JSONWriter(reserving: capacity)
        writer.open(UInt8(ascii: "{"))
    }

    /// Returns the encoded text before a field's value: `"name":{"value":`.
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

    /// Copies a value from the client's JSON if its text is already in the stored format.
    ///
    /// Returns the number of content bytes of a string (0 for numbers), or `nil`, without adding anything, for any
    /// other value. Most fields are strings without escapes or integers, which need no decoding. `key` is the result of
    /// `key(_:)`.
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

    /// Returns the whole object.
    package consuming func finish() -> EncodedFields {
        writer.close(UInt8(ascii: "}"))
        var text = EncodedFields()
        text.bytes = writer.bytes
        return text
    }
}

/// The type of a value whose JSON text is already in the stored format.
enum PlainForm {
    case string, int64, timestamp

    /// Returns `nil` for a value whose text differs from the stored format.
    init?(_ document: JSONDocument, _ index: Int, _ type: FieldType) {
        switch type {
        // A string without escapes, which is also how it is stored.
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
    /// Returns whether an integer surely fits in 64 bits and is written canonically; the only exception is -0.
    fileprivate func isPlainInteger(at index: Int) -> Bool {
        let node = tape[index]
        guard node.kind == .integer, node.end - node.start <= 18 else { return false }
        return bytes[Int(node.start)] != UInt8(ascii: "-") || bytes[Int(node.start) + 1] != UInt8(ascii: "0")
    }
}
