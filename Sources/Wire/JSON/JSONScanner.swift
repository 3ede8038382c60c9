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

/// The nodes of a JSON text, in the order in which their values begin.
///
/// Uses its own memory instead of an array: a record of four fields has about 36 nodes, and appending one then costs a
/// comparison and a store, without a uniqueness check.
struct JSONTape: ~Copyable, Sendable {
    struct Node: Sendable {
        /// The position of the value's first byte; for strings, of the first byte after the quote.
        var start: UInt32
        /// The position after the value's last byte; for strings, of the closing quote.
        var end: UInt32
        /// The tape index after the value and its descendants.
        var next: UInt32
        var kind: JSONDocument.Kind

        /// The length of the value's text in bytes; for strings, without the quotes.
        var length: Int { Int(end &- start) }
    }

    // Written only by the scanner, on its thread; the document only reads it, on any thread.
    nonisolated(unsafe) private var nodes: UnsafeMutablePointer<Node>
    private var capacity: Int
    private(set) var count = 0

    init(reserving capacity: Int) {
        self.capacity = max(capacity, 1)
        nodes = .allocate(capacity: self.capacity)
    }

    deinit { nodes.deallocate() }

    subscript(_ index: Int) -> Node {
        get {
            precondition(index >= 0 && index < count)
            return nodes[index]
        }
        set {
            precondition(index >= 0 && index < count)
            nodes[index] = newValue
        }
    }

    /// Appends a node; for a container, `end` and `next` are set when it is closed.
    @inline(__always)
    mutating func append(_ kind: JSONDocument.Kind, from start: Int, to end: Int) {
        if count == capacity { grow() }
        let next = UInt32(truncatingIfNeeded: count + 1)
        let (start, end) = (UInt32(truncatingIfNeeded: start), UInt32(truncatingIfNeeded: end))
        (nodes + count).initialize(to: Node(start: start, end: end, next: next, kind: kind))
        count += 1
    }

    private mutating func grow() {
        let grown = UnsafeMutablePointer<Node>.allocate(capacity: capacity * 2)
        grown.update(from: nodes, count: count)
        nodes.deallocate()
        nodes = grown
        capacity *= 2
    }
}

/// Strict validation of UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
enum UTF8Check {
    /// Returns the length of the well-formed multi-byte sequence at `start`; `nil` if there is none.
    @inline(__always)
    static func length(ofSequenceAt start: Int, in text: UnsafeBufferPointer<UInt8>) -> Int? {
        func continuation(_ offset: Int, _ range: ClosedRange<UInt8> = 0x80...0xBF) -> Bool {
            start + offset < text.count && range.contains(text[start + offset])
        }
        switch text[start] {
        case 0xC2...0xDF: return continuation(1) ? 2 : nil
        case 0xE0: return continuation(1, 0xA0...0xBF) && continuation(2) ? 3 : nil
        case 0xED: return continuation(1, 0x80...0x9F) && continuation(2) ? 3 : nil
        case 0xE1...0xEF: return continuation(1) && continuation(2) ? 3 : nil
        case 0xF0: return continuation(1, 0x90...0xBF) && continuation(2) && continuation(3) ? 4 : nil
        case 0xF1...0xF3: return continuation(1) && continuation(2) && continuation(3) ? 4 : nil
        case 0xF4: return continuation(1, 0x80...0x8F) && continuation(2) && continuation(3) ? 4 : nil
        default: return nil
        }
    }
}

/// Operations on eight bytes of text at a time.
enum ByteWord {
    static let count = 8
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    private static let quotes = ones &* UInt64(UInt8(ascii: "\""))
    private static let backslashes = ones &* UInt64(UInt8(ascii: "\\"))

    /// Returns the position of the first byte from `start` on that is not plain; the end of the text if all are.
    ///
    /// A plain byte is ASCII and needs no escape in a JSON string.
    @inline(__always)
    static func endOfPlain(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var position = start
        while position <= text.count - count {
            let found = notPlain(load(text, from: position))
            if found != 0 { return position + index(of: found) }
            position += count
        }
        while position < text.count, isPlain(text[position]) { position += 1 }
        return position
    }

    @inline(__always)
    static func isPlain(_ byte: UInt8) -> Bool { byte < 0x80 && needsNoEscape(byte) }

    /// Returns whether a JSON string can contain this byte unescaped.
    @inline(__always)
    static func needsNoEscape(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    @inline(__always)
    static func load(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> UInt64 {
        UInt64(littleEndian: UnsafeRawBufferPointer(text).loadUnaligned(fromByteOffset: start, as: UInt64.self))
    }

    /// Returns the index of the first marked byte; at least one must be marked.
    @inline(__always)
    static func index(of marks: UInt64) -> Int { marks.trailingZeroBitCount / 8 }

    /// Marks the first byte that is not plain with its high bit, and possibly later ones; 0 if all are plain.
    ///
    /// Each sum has its high bit set if the byte is plain. It carries into the next byte only if the byte is above
    /// 0x7F, and such a byte is marked itself.
    @inline(__always)
    private static func notPlain(_ word: UInt64) -> UInt64 {
        let control = word &+ ones &* 0x60
        let quote = (word ^ quotes) &+ ones &* 0x7F
        let backslash = (word ^ backslashes) &+ ones &* 0x7F
        return (~(control & quote & backslash) | word) & highs
    }

    /// Marks the first byte that a JSON string must escape with its high bit, and possibly later ones; 0 if there is
    /// none.
    ///
    /// Bytes above 0x7F need no escape. A subtraction borrows from the next byte only if its own byte is marked.
    @inline(__always)
    static func needsEscape(_ word: UInt64) -> UInt64 {
        let control = (word &- ones &* 0x20) & ~word
        let quote = word ^ quotes
        let backslash = word ^ backslashes
        return (control | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)) & highs
    }
}
