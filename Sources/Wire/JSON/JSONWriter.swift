package import Records

/// Writes JSON into a buffer from front to back; the only state is whether a comma is needed.
///
/// Uses its own memory instead of an array, so that each of a record's two dozen pieces costs a comparison and a copy,
/// without a uniqueness check.
package struct JSONWriter: ~Copyable {
    private var start: UnsafeMutablePointer<UInt8>
    private var count = 0
    private var capacity: Int
    private var needsComma = false

    package init(reserving capacity: Int = 256) {
        self.capacity = max(capacity, 64)
        start = .allocate(capacity: self.capacity)
    }

    deinit { start.deallocate() }

    /// A copy of the output.
    package var bytes: [UInt8] { Array(UnsafeBufferPointer(start: start, count: count)) }

    /// Returns the output without copying it.
    package consuming func finish() -> JSONText {
        let text = JSONText(start: start, count: count)
        discard self
        return text
    }

    /// The number of bytes written.
    package var length: Int { count }

    /// Writes an earlier part of the output again, as a value; used for values that many records share.
    package mutating func again(_ place: Range<Int>) {
        separate()
        reserve(place.count)
        (start + count).initialize(from: start + place.lowerBound, count: place.count)
        count += place.count
        needsComma = true
    }

    /// Replaces the contents of `bytes` by the output since `length` was `from`, reusing their memory.
    package func copy(from: Int, into bytes: inout [UInt8]) {
        bytes.removeAll(keepingCapacity: true)
        bytes.append(contentsOf: UnsafeBufferPointer(start: start + from, count: count - from))
    }

    // MARK: Bytes

    @inline(__always)
    private mutating func append(_ byte: UInt8) {
        reserve(1)
        put(byte)
    }

    @inline(__always)
    private mutating func append(_ text: StaticString) {
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    private mutating func append(_ more: UnsafeBufferPointer<UInt8>) {
        reserve(more.count)
        put(more)
    }

    /// Ensures capacity for `more` bytes.
    @inline(__always)
    private mutating func reserve(_ more: Int) {
        if capacity - count < more { grow(by: more) }
    }

    /// Appends a byte; the capacity must suffice.
    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        start[count] = byte
        count += 1
    }

    /// Appends bytes; the capacity must suffice.
    @inline(__always)
    private mutating func put(_ more: UnsafeBufferPointer<UInt8>) {
        guard let source = more.baseAddress else { return }
        (start + count).initialize(from: source, count: more.count)
        count += more.count
    }

    private mutating func grow(by more: Int) {
        let capacity = max(capacity * 2, count + more)
        let grown = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        grown.update(from: start, count: count)
        start.deallocate()
        start = grown
        self.capacity = capacity
    }

    // MARK: Structure

    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func array<Elements: Sequence>(
        _ elements: Elements,
        _ body: (inout JSONWriter, Elements.Element) throws -> Void
    ) rethrows {
        open(UInt8(ascii: "["))
        for element in elements { try body(&self, element) }
        close(UInt8(ascii: "]"))
    }

    /// Opens an object or array without a closure; must be balanced by `close`.
    package mutating func open(_ bracket: UInt8) {
        separate()
        append(bracket)
        needsComma = false
    }

    package mutating func close(_ bracket: UInt8) {
        append(bracket)
        needsComma = true
    }

    /// A position in the output.
    package struct Checkpoint: Sendable {
        fileprivate var count: Int
        fileprivate var needsComma: Bool
    }

    package var checkpoint: Checkpoint { Checkpoint(count: count, needsComma: needsComma) }

    /// Discards the output since `checkpoint`.
    package mutating func rewind(to checkpoint: Checkpoint) {
        count = checkpoint.count
        needsComma = checkpoint.needsComma
    }

    /// Appends literal JSON up to the position of a value; used where speed matters.
    package mutating func fragment(_ text: StaticString) {
        append(text)
        needsComma = false
    }

    /// Does the same for a value's beginning.
    package mutating func begin(_ text: StaticString) {
        separate()
        append(text)
        needsComma = false
    }

    /// Appends encoded JSON, a literal, and a number as a string of lower-case digits in the radix 36.
    ///
    /// One call for the part that all records of a page have, since a call costs as much as copying 100 bytes.
    package mutating func fragments(
        _ first: [UInt8],
        _ second: UnsafeBufferPointer<UInt8>,
        _ literal: StaticString,
        tag: UInt64
    ) {
        reserve(first.count + second.count + literal.utf8CodeUnitCount)
        first.withUnsafeBufferPointer { put($0) }
        put(second)
        put(UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
        needsComma = false
        digits(tag, radix: .thirtySix)
    }

    // MARK: Member names

    /// Writes a constant member name, which must need no escapes.
    package mutating func key(_ name: StaticString) {
        reserve(name.utf8CodeUnitCount + 4)
        if needsComma { put(UInt8(ascii: ",")) }
        put(UInt8(ascii: "\""))
        put(UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        put(UInt8(ascii: "\""))
        put(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func key(_ name: String) {
        string(name)
        append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes an encoded member name, including its quotes and colon.
    package mutating func key(finished key: [UInt8]) {
        raw(key)
        needsComma = false
    }

    // MARK: Values

    package mutating func string(_ text: String) {
        if text.utf8.withContiguousStorageIfAvailable({ string($0) }) == nil {
            // Bridged strings on Apple platforms have no contiguous UTF-8.
            Array(text.utf8).withUnsafeBufferPointer { string($0) }
        }
    }

    /// Writes a string given as bytes, which must be valid UTF-8.
    package mutating func string(_ text: UnsafeBufferPointer<UInt8>) {
        reserve(text.count + 3)
        if needsComma { put(UInt8(ascii: ",")) }
        put(UInt8(ascii: "\""))
        appendEscaped(text)
        append(UInt8(ascii: "\""))
        needsComma = true
    }

    package mutating func int(_ number: Int64) {
        separate()
        if number < 0 { append(UInt8(ascii: "-")) }
        appendDigits(of: number.magnitude) { $0.quotientAndRemainder(dividingBy: 10) }
        needsComma = true
    }

    package mutating func int(_ number: Int) { int(Int64(number)) }

    /// The radixes of numbers in strings: 16 for device marks, 36 for change tags.
    package enum Radix {
        case sixteen
        case thirtySix
    }

    /// Writes a number as a string of lower-case digits.
    package mutating func digits(_ number: UInt64, radix: Radix) {
        separate()
        append(UInt8(ascii: "\""))
        switch radix {
        case .sixteen: appendDigits(of: number) { $0.quotientAndRemainder(dividingBy: 16) }
        case .thirtySix: appendDigits(of: number) { $0.quotientAndRemainder(dividingBy: 36) }
        }
        append(UInt8(ascii: "\""))
        needsComma = true
    }

    /// Writes the shortest text that is decoded as the same number; `null` for infinities and NaN.
    package mutating func double(_ number: Double) {
        raw(number.isFinite ? Array(number.description.utf8) : Array("null".utf8))
    }

    package mutating func bool(_ flag: Bool) {
        raw(flag ? Self.trueWord : Self.falseWord)
    }

    package mutating func null() { raw(Self.nullWord) }

    package mutating func base64(_ content: [UInt8]) { content.withUnsafeBufferPointer { base64($0) } }

    package mutating func base64(_ content: UnsafeBufferPointer<UInt8>) {
        let length = Base64.length(of: content.count)
        reserve(length + 3)
        if needsComma { put(UInt8(ascii: ",")) }
        put(UInt8(ascii: "\""))
        Base64.write(content, to: start + count)
        count += length
        put(UInt8(ascii: "\""))
        needsComma = true
    }

    /// Writes an encoded JSON value.
    ///
    /// Two concrete overloads instead of a generic one, which would not be specialized across modules.
    package mutating func raw(_ json: [UInt8]) {
        separate()
        json.withUnsafeBufferPointer { append($0) }
        needsComma = true
    }

    package mutating func raw(_ json: ArraySlice<UInt8>) {
        separate()
        json.withUnsafeBufferPointer { append($0) }
        needsComma = true
    }

    package mutating func raw(_ json: UnsafeBufferPointer<UInt8>) {
        separate()
        append(json)
        needsComma = true
    }

    private static let trueWord = Array("true".utf8)
    private static let falseWord = Array("false".utf8)
    private static let nullWord = Array("null".utf8)
    private static let hexDigits = Array("0123456789abcdef".utf8)

    private mutating func separate() {
        if needsComma { append(UInt8(ascii: ",")) }
    }

    /// `divide` divides by the radix: a constant divisor compiles to a multiplication.
    @inline(__always)
    private mutating func appendDigits(
        of number: UInt64,
        _ divide: (UInt64) -> (quotient: UInt64, remainder: UInt64)
    ) {
        var rest = number
        // 64 bits have at most 20 digits in these radixes.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = digits.count
            repeat {
                let (quotient, remainder) = divide(rest)
                start -= 1
                let digit = UInt8(truncatingIfNeeded: remainder)
                digits[start] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
                rest = quotient
            } while rest != 0
            append(UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }

    /// Copies eight bytes at a time up to a byte that needs an escape: a control character, quote or backslash.
    private mutating func appendEscaped(_ text: UnsafeBufferPointer<UInt8>) {
        var position = 0
        while position < text.count {
            position = copyPlain(text, from: position)
            guard position < text.count else { return }
            appendEscape(text[position])
            position += 1
        }
    }

    /// Copies bytes that need no escape; returns the position after them.
    @inline(__always)
    private mutating func copyPlain(_ text: UnsafeBufferPointer<UInt8>, from first: Int) -> Int {
        reserve(text.count - first)
        let goal = UnsafeMutableRawPointer(start + count)
        var position = first
        defer { count += position - first }
        while position <= text.count - ByteWord.count {
            let word = ByteWord.load(text, from: position)
            goal.storeBytes(of: word.littleEndian, toByteOffset: position - first, as: UInt64.self)
            let found = ByteWord.needsEscape(word)
            if found != 0 {
                position += ByteWord.index(of: found)
                return position
            }
            position += ByteWord.count
        }
        // Copies the last 8 bytes at once, overlapping bytes that were copied before.
        if position < text.count, text.count - first >= ByteWord.count {
            let last = text.count - ByteWord.count
            let word = ByteWord.load(text, from: last)
            goal.storeBytes(of: word.littleEndian, toByteOffset: last - first, as: UInt64.self)
            let found = ByteWord.needsEscape(word)
            position = found == 0 ? text.count : last + ByteWord.index(of: found)
            return position
        }
        while position < text.count, ByteWord.needsNoEscape(text[position]) {
            goal.storeBytes(of: text[position], toByteOffset: position - first, as: UInt8.self)
            position += 1
        }
        return position
    }

    private mutating func appendEscape(_ byte: UInt8) {
        append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): append(byte)
        case 0x08: append(UInt8(ascii: "b"))
        case 0x0C: append(UInt8(ascii: "f"))
        case 0x0A: append(UInt8(ascii: "n"))
        case 0x0D: append(UInt8(ascii: "r"))
        case 0x09: append(UInt8(ascii: "t"))
        default:
            append("u00")
            append(Self.hexDigits[Int(byte >> 4)])
            append(Self.hexDigits[Int(byte & 15)])
        }
    }
}

extension JSONWriter {
    /// Writes a member with a string value.
    package mutating func member(_ name: StaticString, _ text: String) {
        key(name)
        string(text)
    }

    package mutating func member(_ name: StaticString, _ token: ChangeToken) {
        key(name)
        token.withBytes { base64($0) }
    }

    package mutating func member(_ name: StaticString, _ number: Int64) {
        key(name)
        int(number)
    }

    package mutating func member(_ name: StaticString, _ number: Int) {
        key(name)
        int(number)
    }

    package mutating func member(_ name: StaticString, _ flag: Bool) {
        key(name)
        bool(flag)
    }
}

/// The finished output of a `JSONWriter`, in the writer's memory.
///
/// A page of a feed has 100 KB and more, so it is sent from this memory without a copy.
package final class JSONText: Sendable {
    // Written before initialization, read-only afterwards.
    nonisolated(unsafe) private let start: UnsafeMutablePointer<UInt8>
    package let count: Int

    /// Takes ownership of memory that a writer has allocated.
    init(start: UnsafeMutablePointer<UInt8>, count: Int) {
        self.start = start
        self.count = count
    }

    deinit { start.deallocate() }

    /// A copy of the bytes.
    package var bytes: [UInt8] { withBytes { Array($0) } }

    /// Passes the bytes to `body`; they are valid only during the call.
    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try body(UnsafeRawBufferPointer(start: start, count: count))
    }
}
