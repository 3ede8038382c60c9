#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Validates a JSON text in one pass and writes the tape.
///
/// Follows RFC 8259, with the stricter rules described in `JSONDocument`.
struct JSONScanner: ~Copyable {
    typealias Text = UnsafeBufferPointer<UInt8>

    private var tape: JSONTape
    private let limits: JSONLimits
    private var position = 0
    private var members = 0
    /// The number of open objects and arrays.
    private var depth = 0
    /// The tape index of the innermost open container; each container's `end` holds the index of the enclosing one.
    private var container = 0

    /// `bytes` is the length of the text.
    init(limits: JSONLimits, bytes: Int) {
        self.limits = limits
        tape = JSONTape(reserving: bytes / 12 + 8)
    }

    /// Returns the tape of a valid text.
    consuming func finish() -> JSONTape { tape }

    mutating func scan(_ text: Text) throws(JSONError) {
        skipBlanks(text)
        repeat {
            try scanValue(text)
            // Close the containers that end here, and stop before the next value.
            while true {
                skipBlanks(text)
                if depth == 0 { break }
                if try continues(text) { break }
                try close(text)
            }
        } while depth > 0
        guard position == text.count else { throw syntax("text after the end") }
    }

    /// Returns whether the container has another value; reads the comma and, in objects, the next name.
    @inline(__always)
    private mutating func continues(_ text: Text) throws(JSONError) -> Bool {
        let isObject = tape[container].kind == .object
        guard position < text.count else { throw syntax("the text ends inside \(isObject ? "an object" : "an array")") }
        if text[position] == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
            position += 1
            return false
        }
        let isFirst = container == tape.count - 1
        if !isFirst {
            guard text[position] == UInt8(ascii: ",") else { throw syntax("a comma is missing") }
            position += 1
            skipBlanks(text)
        }
        members += 1
        guard members <= limits.members else { throw limit("more than \(limits.members) members and elements") }
        if isObject { try scanKey(text) }
        return true
    }

    @inline(__always)
    private mutating func scanKey(_ text: Text) throws(JSONError) {
        guard position < text.count, text[position] == UInt8(ascii: "\"") else {
            throw syntax("a member name is missing")
        }
        try scanString(text)
        skipBlanks(text)
        guard position < text.count, text[position] == UInt8(ascii: ":") else { throw syntax("a colon is missing") }
        position += 1
        skipBlanks(text)
    }

    @inline(__always)
    private mutating func close(_ text: Text) throws(JSONError) {
        let closed = container
        var node = tape[closed]
        container = Int(node.end)
        depth -= 1
        node.end = UInt32(truncatingIfNeeded: position)
        node.next = UInt32(truncatingIfNeeded: tape.count)
        tape[closed] = node
        if node.kind == .object, hasDuplicateMember(closed, text) {
            throw syntax("a member name that stands twice in one object")
        }
    }

    /// Returns whether an object has two members with the same name.
    ///
    /// Duplicates are rejected because parsers disagree on which one counts, which attackers can exploit. Comparing
    /// pairs is fastest for the usual small objects; large objects use a set.
    private func hasDuplicateMember(_ object: Int, _ text: Text) -> Bool {
        var second = object + 1
        var count = 0
        while second < tape.count {
            count += 1
            let name = tape[second]
            guard count <= 32, name.kind == .string else { return hasDuplicateAmongMany(object, text) }
            var first = object + 1
            while first < second {
                if Self.isSameText(tape[first], name, text) { return true }
                first = Int(tape[first + 1].next)
            }
            second = Int(tape[second + 1].next)
        }
        return false
    }

    /// Compares bytes, as all lookups do: two encodings of one accented letter are two names.
    private func hasDuplicateAmongMany(_ object: Int, _ text: Text) -> Bool {
        var seen: Set<[UInt8]> = []
        var index = object + 1
        while index < tape.count {
            let key = tape[index]
            let raw = text[Int(key.start)..<Int(key.end)]
            let name = key.kind == .string ? Array(raw) : Array(JSONValue.unescape(raw).utf8)
            guard seen.insert(name).inserted else { return true }
            index = Int(tape[index + 1].next)
        }
        return false
    }

    /// Compares the first byte first, because few names of equal length begin with the same byte.
    @inline(__always)
    private static func isSameText(_ a: JSONTape.Node, _ b: JSONTape.Node, _ text: Text) -> Bool {
        guard a.length == b.length, let start = text.baseAddress else { return false }
        let (a, b, length) = (start + Int(a.start), start + Int(b.start), a.length)
        return length == 0 || (a.pointee == b.pointee && memcmp(a, b, length) == 0)
    }

    private mutating func scanValue(_ text: Text) throws(JSONError) {
        guard position < text.count else { throw syntax("a value is missing") }
        switch text[position] {
        case UInt8(ascii: "\""): try scanString(text)
        case UInt8(ascii: "{"): try openContainer(.object)
        case UInt8(ascii: "["): try openContainer(.array)
        case UInt8(ascii: "-"), 0x30...0x39: try scanNumber(text)
        case UInt8(ascii: "t"): try scanWord("true", .true, text)
        case UInt8(ascii: "f"): try scanWord("false", .false, text)
        case UInt8(ascii: "n"): try scanWord("null", .null, text)
        default: throw syntax("an unexpected character")
        }
    }

    @inline(__always)
    private mutating func openContainer(_ kind: JSONDocument.Kind) throws(JSONError) {
        guard depth < limits.depth else { throw limit("more than \(limits.depth) levels") }
        tape.append(kind, from: position, to: container)
        container = tape.count - 1
        depth += 1
        position += 1
    }

    private mutating func scanWord(_ word: StaticString, _ kind: JSONDocument.Kind, _ text: Text) throws(JSONError) {
        let end = position + word.utf8CodeUnitCount
        guard end <= text.count else { throw syntax("an unexpected character") }
        for offset in 0..<word.utf8CodeUnitCount where text[position + offset] != word.utf8Start[offset] {
            throw syntax("an unexpected character")
        }
        tape.append(kind, from: position, to: end)
        position = end
    }

    private mutating func scanNumber(_ text: Text) throws(JSONError) {
        let start = position
        var kind = JSONDocument.Kind.integer
        if text[position] == UInt8(ascii: "-") { position += 1 }
        if position < text.count, text[position] == UInt8(ascii: "0") {
            position += 1
        } else {
            try scanDigits(text)
        }
        if position < text.count, text[position] == UInt8(ascii: ".") {
            kind = .number
            position += 1
            try scanDigits(text)
        }
        if position < text.count, text[position] | 0x20 == UInt8(ascii: "e") {
            kind = .number
            position += 1
            if position < text.count, text[position] == UInt8(ascii: "+") || text[position] == UInt8(ascii: "-") {
                position += 1
            }
            try scanDigits(text)
        }
        if position < text.count, text[position].isDigitOrDot { throw syntax("a badly written number") }
        guard position - start <= limits.numberLength else {
            throw limit("a number of more than \(limits.numberLength) characters")
        }
        tape.append(kind, from: start, to: position)
    }

    @inline(__always)
    private mutating func scanDigits(_ text: Text) throws(JSONError) {
        let start = position
        while position < text.count, (0x30...0x39).contains(text[position]) { position += 1 }
        guard position > start else { throw syntax("a badly written number") }
    }

    private mutating func scanString(_ text: Text) throws(JSONError) {
        let start = position + 1
        var kind = JSONDocument.Kind.string
        var end = start
        while true {
            end = ByteWord.endOfPlain(text, from: end)
            position = end
            guard end < text.count else { throw syntax("a string without an end") }
            switch text[end] {
            case UInt8(ascii: "\""):
                tape.append(kind, from: start, to: end)
                position = end + 1
                return
            case UInt8(ascii: "\\"):
                kind = .escapedString
                try skipEscape(text)
                end = position
            case 0x80...:
                guard let length = UTF8Check.length(ofSequenceAt: end, in: text) else { throw syntax("invalid UTF-8") }
                end += length
            default: throw syntax("a control character inside a string")
            }
        }
    }

    private mutating func skipEscape(_ text: Text) throws(JSONError) {
        guard position + 1 < text.count else { throw syntax("a string without an end") }
        switch text[position + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            position += 2
        case UInt8(ascii: "u"):
            guard let unit = hexUnit(text, at: position + 2) else { throw syntax("a bad escape") }
            guard (0xD800...0xDFFF).contains(unit) else {
                position += 6
                return
            }
            guard unit < 0xDC00, position + 7 < text.count, text[position + 6] == UInt8(ascii: "\\"),
                text[position + 7] == UInt8(ascii: "u"), let low = hexUnit(text, at: position + 8),
                (0xDC00...0xDFFF).contains(low)
            else { throw syntax("half a surrogate pair") }
            position += 12
        default: throw syntax("a bad escape")
        }
    }

    private func hexUnit(_ text: Text, at start: Int) -> UInt16? {
        guard start + 4 <= text.count else { return nil }
        return text[start..<start + 4].hexUnit
    }

    @inline(__always)
    private mutating func skipBlanks(_ text: Text) {
        while position < text.count, text[position] <= 0x20 {
            switch text[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    private func syntax(_ what: String) -> JSONError { JSONError(.syntax(what), offset: position) }
    private func limit(_ what: String) -> JSONError { JSONError(.limit(what), offset: position) }
}

extension UInt8 {
    fileprivate var isDigitOrDot: Bool { (0x30...0x39).contains(self) || self == 0x2E }
}

extension Collection<UInt8> {
    /// The value of up to four hexadecimal digits; `nil` if a byte is not one.
    var hexUnit: UInt16? {
        var unit: UInt16 = 0
        for byte in self {
            switch byte {
            case 0x30...0x39: unit = unit << 4 | UInt16(byte - 0x30)
            case 0x41...0x46: unit = unit << 4 | UInt16(byte - 0x37)
            case 0x61...0x66: unit = unit << 4 | UInt16(byte - 0x57)
            default: return nil
            }
        }
        return unit
    }
}
