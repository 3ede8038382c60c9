import Records

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Finds fields in a stored `fields` object in one pass, without decoding the others.
///
/// Only for bytes written by `FieldsJSON`: without blanks, and validated before they were stored.
enum StoredFields {
    /// The position of a field.
    enum Place {
        case at(Range<Int>)
        case nowhere
        /// The bytes must be decoded with `JSONDocument`.
        case unknown
    }

    /// Returns the value of a field object with a string without escapes, the most common kind; `nil` for others.
    static func plainText(in object: ArraySlice<UInt8>) -> FieldValue? {
        object.withUnsafeBytes { object in
            let length = object.count - opening.utf8CodeUnitCount - closing.utf8CodeUnitCount
            guard length >= 0, let start = object.baseAddress else { return nil }
            let text = start + opening.utf8CodeUnitCount
            // A quote within the text would be escaped, so a text without a backslash has none.
            guard memcmp(start, opening.utf8Start, opening.utf8CodeUnitCount) == 0,
                memcmp(text + length, closing.utf8Start, closing.utf8CodeUnitCount) == 0,
                memchr(text, CInt(UInt8(ascii: "\\")), length) == nil
            else { return nil }
            return .string(String(decoding: UnsafeRawBufferPointer(start: text, count: length), as: UTF8.self))
        }
    }

    private static let opening: StaticString = #"{"value":""#
    private static let closing: StaticString = #"","type":"STRING"}"#

    /// Returns the position of this field's object; reads no further.
    static func place(of name: String, in bytes: [UInt8]) -> Place {
        var name = name
        return name.withUTF8 { name in
            var place: Place?
            let isRead = walk(bytes) { found, range in
                guard isEqual(found, name) else { return true }
                place = .at(range)
                return false
            }
            return place ?? (isRead ? .nowhere : .unknown)
        }
    }

    /// Returns the positions of these fields' objects; `nil` if the bytes must be decoded with `JSONDocument`.
    static func places(of names: Set<String>, in bytes: [UInt8]) -> [(name: String, place: Range<Int>)]? {
        var found: [(name: String, place: Range<Int>)] = []
        let isRead = walk(bytes) { name, range in
            if let wanted = names.first(where: { $0.utf8.elementsEqual(name) }) { found.append((wanted, range)) }
            return true
        }
        return isRead ? found : nil
    }

    /// Returns all fields with the positions of their objects.
    static func parts(of bytes: [UInt8]) -> [EncodedFields.Part] {
        var parts: [EncodedFields.Part] = []
        let isRead = walk(bytes) { name, range in
            parts.append(EncodedFields.Part(name: String(decoding: name, as: UTF8.self), place: range))
            return true
        }
        if isRead { return parts }
        let members = try? JSONDocument(parsing: bytes, limits: .response).root.members()
        return (members ?? []).map { EncodedFields.Part(name: $0.name, place: $0.value.place) }
    }

    /// Visits the fields until `visit` returns `false`; returns `false` if the bytes must be decoded with
    /// `JSONDocument`.
    private static func walk(
        _ bytes: [UInt8],
        _ visit: (_ name: UnsafeBufferPointer<UInt8>, _ object: Range<Int>) -> Bool
    ) -> Bool {
        bytes.withUnsafeBufferPointer { text in
            guard text.first == UInt8(ascii: "{") else { return false }
            var position = 1
            while position < text.count, text[position] == UInt8(ascii: "\"") {
                guard let nameEnd = endOfString(text, from: position),
                    nameEnd + 1 < text.count, text[nameEnd] == UInt8(ascii: ":"),
                    let end = endOfObject(text, from: nameEnd + 1)
                else { return false }
                let name = UnsafeBufferPointer(rebasing: text[position + 1..<nameEnd - 1])
                // Names normally need no escapes; anything unexpected is left to `JSONDocument`.
                if name.contains(UInt8(ascii: "\\")) { return false }
                guard visit(name, nameEnd + 1..<end) else { return true }
                position = end
                if position < text.count, text[position] == UInt8(ascii: ",") { position += 1 }
            }
            return position == text.count - 1 && text[position] == UInt8(ascii: "}")
        }
    }

    private static func isEqual(_ a: UnsafeBufferPointer<UInt8>, _ b: UnsafeBufferPointer<UInt8>) -> Bool {
        guard a.count == b.count, let first = a.baseAddress, let second = b.baseAddress else { return false }
        return memcmp(first, second, a.count) == 0
    }

    /// Returns the position after the closing quote of the string at `start`; `nil` if there is none.
    private static func endOfString(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard let base = text.baseAddress else { return nil }
        var position = start + 1
        while position < text.count,
            let quote = memchr(base + position, CInt(UInt8(ascii: "\"")), text.count - position)
        {
            let end = UnsafeRawPointer(quote) - UnsafeRawPointer(base)
            // After an odd number of backslashes, the quote is escaped.
            var first = end
            while first - 1 > start, text[first - 1] == UInt8(ascii: "\\") { first -= 1 }
            position = end + 1
            if (end - first).isMultiple(of: 2) { return position }
        }
        return nil
    }

    /// Returns the position after the closing brace of the object at `start`.
    private static func endOfObject(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        var depth = 0
        var position = start
        while position < text.count {
            switch text[position] {
            case UInt8(ascii: "\""):
                guard let end = endOfString(text, from: position) else { return nil }
                position = end
                continue
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return position + 1 }
            default: break
            }
            position += 1
        }
        return nil
    }
}
