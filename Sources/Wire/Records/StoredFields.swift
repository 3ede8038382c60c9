import Records

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Finds fields in a stored `fields` object without reading the others: one pass over the bytes, nothing made for what is
/// not asked for.
///
/// For bytes that `FieldsJSON` wrote and nobody else: without blanks, and checked when they came.
enum StoredFields {
    /// Where one field stands.
    enum Place {
        case at(Range<Int>)
        case nowhere
        /// The bytes are better read in the ordinary way.
        case unknown
    }

    /// The value of a field object that holds a string without escapes, as most do; `nil` for others.
    static func plainText(in object: ArraySlice<UInt8>) -> FieldValue? {
        object.withUnsafeBytes { object in
            let length = object.count - opening.utf8CodeUnitCount - closing.utf8CodeUnitCount
            guard length >= 0, let start = object.baseAddress else { return nil }
            let text = start + opening.utf8CodeUnitCount
            // A quote in it would be escaped; so without a backslash it is all text.
            guard memcmp(start, opening.utf8Start, opening.utf8CodeUnitCount) == 0,
                memcmp(text + length, closing.utf8Start, closing.utf8CodeUnitCount) == 0,
                memchr(text, CInt(UInt8(ascii: "\\")), length) == nil
            else { return nil }
            return .string(String(decoding: UnsafeRawBufferPointer(start: text, count: length), as: UTF8.self))
        }
    }

    private static let opening: StaticString = #"{"value":""#
    private static let closing: StaticString = #"","type":"STRING"}"#

    /// Where the object of this field stands; looks no further than there.
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

    /// Where the objects of these fields stand; `nil` for bytes that are better read in the ordinary way.
    static func places(of names: Set<String>, in bytes: [UInt8]) -> [(name: String, place: Range<Int>)]? {
        var found: [(name: String, place: Range<Int>)] = []
        let isRead = walk(bytes) { name, range in
            if let wanted = names.first(where: { $0.utf8.elementsEqual(name) }) { found.append((wanted, range)) }
            return true
        }
        return isRead ? found : nil
    }

    /// All fields and where their objects stand.
    static func parts(of bytes: [UInt8]) -> [FieldsText.Part] {
        var parts: [FieldsText.Part] = []
        let isRead = walk(bytes) { name, range in
            parts.append(FieldsText.Part(name: String(decoding: name, as: UTF8.self), place: range))
            return true
        }
        if isRead { return parts }
        let members = try? JSONDocument(parsing: bytes, limits: .response).root.members()
        return (members ?? []).map { FieldsText.Part(name: $0.name, place: $0.value.place) }
    }

    /// Shows one field after the other, until `visit` has seen enough; false for bytes that are better read in the ordinary
    /// way.
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
                // Names need no escapes; where there is one after all, or anything else unforeseen, the other way knows it.
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

    /// Just after the quote that closes the string that begins at `start`; `nil` without one.
    private static func endOfString(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard let base = text.baseAddress else { return nil }
        var position = start + 1
        while position < text.count,
            let quote = memchr(base + position, CInt(UInt8(ascii: "\"")), text.count - position)
        {
            let end = UnsafeRawPointer(quote) - UnsafeRawPointer(base)
            // An odd number of backslashes makes the quote a part of the text.
            var first = end
            while first - 1 > start, text[first - 1] == UInt8(ascii: "\\") { first -= 1 }
            position = end + 1
            if (end - first).isMultiple(of: 2) { return position }
        }
        return nil
    }

    /// Just after the brace that closes the object at `start`.
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
