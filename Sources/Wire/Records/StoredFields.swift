import Records

/// Finds fields in a stored `fields` object without reading the others: one pass over the bytes, nothing made for what is
/// not asked for.
///
/// For bytes that `FieldsJSON` wrote and nobody else: without blanks, and checked when they came.
enum StoredFields {
    /// The value of a field object that holds a string without escapes, as most do; `nil` for others.
    static func plainText(in object: ArraySlice<UInt8>) -> FieldValue? {
        guard object.starts(with: opening), object.count >= opening.count + closing.count,
            object.suffix(closing.count).elementsEqual(closing)
        else { return nil }
        let text = object.dropFirst(opening.count).dropLast(closing.count)
        // A quote in it would be escaped; so without a backslash it is all text.
        guard !text.contains(UInt8(ascii: "\\")) else { return nil }
        return .string(String(decoding: text, as: UTF8.self))
    }

    private static let opening = Array(#"{"value":""#.utf8)
    private static let closing = Array(#"","type":"STRING"}"#.utf8)

    /// Where the objects of these fields stand; `nil` for bytes that are better read in the ordinary way.
    static func places(of names: Set<String>, in bytes: [UInt8]) -> [(name: String, place: Range<Int>)]? {
        bytes.withUnsafeBufferPointer { text in
            guard text.first == UInt8(ascii: "{") else { return nil }
            var found: [(name: String, place: Range<Int>)] = []
            var position = 1
            while position < text.count, text[position] == UInt8(ascii: "\"") {
                guard let nameEnd = endOfString(text, from: position),
                    nameEnd + 1 < text.count, text[nameEnd] == UInt8(ascii: ":"),
                    let end = endOfObject(text, from: nameEnd + 1)
                else { return nil }
                let name = UnsafeBufferPointer(rebasing: text[position + 1..<nameEnd - 1])
                if let wanted = names.first(where: { $0.utf8.elementsEqual(name) }) {
                    found.append((wanted, nameEnd + 1..<end))
                }
                position = end
                if position < text.count, text[position] == UInt8(ascii: ",") { position += 1 }
            }
            // Names need no escapes; where there is one after all, or anything else unforeseen, the other way knows it.
            return position == text.count - 1 && text[position] == UInt8(ascii: "}") ? found : nil
        }
    }

    /// Just after the closing quote of a name; `nil` for one without, and for one with escapes.
    private static func endOfString(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        var position = start + 1
        while position < text.count {
            switch text[position] {
            case UInt8(ascii: "\""): return position + 1
            case UInt8(ascii: "\\"): return nil
            default: position += 1
            }
        }
        return nil
    }

    /// Just after the brace that closes the object at `start`.
    private static func endOfObject(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        var depth = 0
        var isInString = false
        var position = start
        while position < text.count {
            let byte = text[position]
            position += 1
            if isInString {
                if byte == UInt8(ascii: "\\") { position += 1 }
                if byte == UInt8(ascii: "\"") { isInString = false }
            } else if byte == UInt8(ascii: "\"") {
                isInString = true
            } else if byte == UInt8(ascii: "{") {
                depth += 1
            } else if byte == UInt8(ascii: "}") {
                depth -= 1
                if depth == 0 { return position }
            }
        }
        return nil
    }
}
