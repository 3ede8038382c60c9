#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A JSON text that is validated once, completely and strictly, and then read in place.
///
/// Parsing produces a tape of nodes in text order, 16 bytes each; strings and numbers are converted to Swift values on
/// demand. Unused values are validated but not converted. Rejects trailing text, duplicate members, lone surrogates,
/// invalid UTF-8, raw control characters and leading zeros.
package final class JSONDocument: Sendable {
    enum Kind: UInt8 {
        case null, `false`, `true`, integer, number, string, escapedString, object, array
    }

    let bytes: [UInt8]
    let tape: JSONTape

    /// Validates `bytes` and builds the tape.
    ///
    /// Throws `syntax` or `limit`. A single pass without recursion.
    package init(parsing bytes: [UInt8], limits: JSONLimits = JSONLimits()) throws(JSONError) {
        guard bytes.count < Int(UInt32.max) else { throw JSONError(.limit("more than 4 GiB"), offset: 0) }
        var scanner = JSONScanner(limits: limits, bytes: bytes.count)
        let failure: JSONError? = bytes.withUnsafeBufferPointer { text in
            do throws(JSONError) {
                try scanner.scan(text)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        self.bytes = bytes
        tape = scanner.finish()
    }

    /// Returns the tape index of a member's value; `nil` if the member or the object does not exist.
    func member(_ name: StaticString, of object: Int) -> Int? {
        guard tape[object].kind == .object else { return nil }
        let end = Int(tape[object].next)
        var key = object + 1
        while key < end {
            if isText(name, at: key) { return key + 1 }
            key = Int(tape[key + 1].next)
        }
        return nil
    }

    /// Returns whether the node is a string with exactly this content.
    ///
    /// Inlined, because with a constant name this is two or three comparisons.
    @inline(__always)
    func isText(_ name: StaticString, at index: Int) -> Bool {
        let node = tape[index]
        guard node.kind == .string else {
            return node.kind == .escapedString && isEscapedText(name, at: index)
        }
        let length = name.utf8CodeUnitCount
        guard node.length == length else { return false }
        return bytes.withUnsafeBytes { bytes in
            bytes.baseAddress.map { memcmp($0 + Int(node.start), name.utf8Start, length) == 0 } ?? false
        }
    }

    private func isEscapedText(_ name: StaticString, at index: Int) -> Bool {
        JSONValue(document: self, index: index).text.utf8.elementsEqual("\(name)".utf8)
    }

    /// Passes the raw text of a value to `body`; for strings without the quotes and with escapes.
    @inline(__always)
    func withText<Result>(at index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        let node = tape[index]
        return bytes.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)]))
        }
    }

    func value(at index: Int) -> JSONValue { JSONValue(document: self, index: index) }

    /// Returns the tape index after a value and its descendants; within an object, that of the next member's name.
    func end(of index: Int) -> Int { Int(tape[index].next) }

    func string(at index: Int) throws(JSONError) -> String {
        guard tape[index].kind != .string else { return withText(at: index) { String(decoding: $0, as: UTF8.self) } }
        return try value(at: index).string()
    }

    /// Returns an estimate of the number of members, assuming that each is a field object with a value and a type.
    func memberCapacity(of object: Int) -> Int { (end(of: object) - object) / 6 + 1 }

    package var root: JSONValue { JSONValue(document: self, index: 0) }

    /// Returns the path of a value, found by walking down the tree; used only for errors.
    func path(to target: Int) -> String {
        var path = ""
        var index = 0
        while index < target {
            let node = tape[index]
            var child = index + 1
            var position = 0
            descend: while child < Int(node.next) {
                if node.kind == .object {
                    let value = child + 1
                    if target < Int(tape[value].next) {
                        path += (path.isEmpty ? "" : ".") + JSONValue(document: self, index: child).text
                        child = value
                        break descend
                    }
                    child = Int(tape[value].next)
                } else {
                    if target < Int(tape[child].next) {
                        path += "[\(position)]"
                        break descend
                    }
                    child = Int(tape[child].next)
                    position += 1
                }
            }
            index = child
        }
        return path
    }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A value of a `JSONDocument`, decoded as the type that the caller expects.
///
/// Every accessor returns that type or throws a `JSONError` with the value's path.
package struct JSONValue: Sendable {
    let document: JSONDocument
    let index: Int

    var node: JSONTape.Node { document.tape[index] }

    package var isNull: Bool { node.kind == .null }
    package var isObject: Bool { node.kind == .object }
    package var isArray: Bool { node.kind == .array }
    package var isString: Bool { node.kind == .string || node.kind == .escapedString }
    /// Whether it is a number without fraction and exponent.
    package var isInteger: Bool { node.kind == .integer }
    package var isNumber: Bool { node.kind == .integer || node.kind == .number }
    package var isBool: Bool { node.kind == .true || node.kind == .false }

    /// The position in the text, including the quotes of a string.
    var place: Range<Int> {
        let node = node
        let quote = isString ? 1 : 0
        return Int(node.start) - quote..<Int(node.end) + quote
    }

    /// The value's text.
    package var rawBytes: ArraySlice<UInt8> { document.bytes[place] }

    /// Returns whether the value's text equals these bytes.
    package func hasText(_ bytes: [UInt8]) -> Bool {
        let place = place
        guard place.count == bytes.count else { return false }
        return document.bytes.withUnsafeBytes { text in
            bytes.withUnsafeBytes { bytes in
                guard let text = text.baseAddress, let bytes = bytes.baseAddress else { return true }
                return memcmp(text + place.lowerBound, bytes, place.count) == 0
            }
        }
    }

    // MARK: Objects and arrays

    /// The member with this name; `nil` if it is absent or null, or if this is not an object.
    package subscript(_ name: StaticString) -> JSONValue? {
        guard let value = member(name), !value.isNull else { return nil }
        return value
    }

    /// Returns whether a member with this name exists, even if it is null.
    package func hasMember(_ name: StaticString) -> Bool { member(name) != nil }

    private func member(_ name: StaticString) -> JSONValue? {
        document.member(name, of: index).map { JSONValue(document: document, index: $0) }
    }

    /// Returns the member with this name; throws `missing` if it is absent or null, `expected` if this is not an
    /// object.
    package func required(_ name: StaticString) throws(JSONError) -> JSONValue {
        guard isObject else { throw mismatch("an object") }
        guard let value = self[name] else {
            let path = document.path(to: index)
            throw JSONError(.missing, offset: Int(node.start), path: path.isEmpty ? "\(name)" : "\(path).\(name)")
        }
        return value
    }

    /// Returns all members in the order of the text, including nulls.
    package func members() throws(JSONError) -> [(name: String, value: JSONValue)] {
        var result: [(name: String, value: JSONValue)] = []
        guard isObject else { throw mismatch("an object") }
        var name = index + 1
        while name < document.end(of: index) {
            result.append((document.value(at: name).text, document.value(at: name + 1)))
            name = document.end(of: name + 1)
        }
        return result
    }

    package func elements() throws(JSONError) -> [JSONValue] {
        guard isArray else { throw mismatch("an array") }
        var result: [JSONValue] = []
        var child = index + 1
        let end = Int(node.next)
        while child < end {
            result.append(JSONValue(document: document, index: child))
            child = Int(document.tape[child].next)
        }
        return result
    }

    // MARK: Scalars

    package func string() throws(JSONError) -> String {
        guard isString else { throw mismatch("a string") }
        return text
    }

    package func bool() throws(JSONError) -> Bool {
        switch node.kind {
        case .true: return true
        case .false: return false
        default: throw mismatch("true or false")
        }
    }

    /// Returns a number without fraction and exponent that fits in 64 bits.
    package func int64() throws(JSONError) -> Int64 {
        guard node.kind == .integer, let number = document.withText(at: index, Self.integer) else {
            throw mismatch("an integer of 64 bits")
        }
        return number
    }

    /// Parses digits with an optional minus sign, as validated by the scanner; `nil` for more than 64 bits.
    private static func integer(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        let isNegative = text.first == UInt8(ascii: "-")
        var number: Int64 = 0
        for byte in text[(isNegative ? 1 : 0)...] {
            let digit = Int64(byte &- UInt8(ascii: "0"))
            let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, overflow) =
                isNegative ? tens.subtractingReportingOverflow(digit) : tens.addingReportingOverflow(digit)
            guard !isTooLarge, !overflow else { return nil }
            number = sum
        }
        return number
    }

    /// Returns any finite number.
    package func double() throws(JSONError) -> Double {
        guard isNumber, let number = Double(slice), number.isFinite else { throw mismatch("a number") }
        return number
    }

    /// Returns an error that says what this value should be.
    package func mismatch(_ expectation: String) -> JSONError {
        JSONError(.expected(expectation), offset: Int(node.start), path: document.path(to: index))
    }

    // MARK: Text

    private var slice: String {
        document.withText(at: index) { String(decoding: $0, as: UTF8.self) }
    }

    /// The content of a string with its escapes resolved.
    var text: String {
        node.kind == .escapedString ? unescaped : slice
    }

    private var unescaped: String {
        Self.unescape(document.bytes[Int(node.start)..<Int(node.end)])
    }

    /// Resolves the escapes of a string that the scanner has validated.
    static func unescape(_ raw: some Collection<UInt8>) -> String {
        var units: [UInt8] = []
        var rest = Array(raw)[...]
        units.reserveCapacity(rest.count)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escape = rest.popFirst() else {
                units.append(byte)
                continue
            }
            switch escape {
            case UInt8(ascii: "b"): units.append(0x08)
            case UInt8(ascii: "f"): units.append(0x0C)
            case UInt8(ascii: "n"): units.append(0x0A)
            case UInt8(ascii: "r"): units.append(0x0D)
            case UInt8(ascii: "t"): units.append(0x09)
            case UInt8(ascii: "u"): units.append(contentsOf: popScalar(&rest).utf8Bytes)
            default: units.append(escape)
            }
        }
        return String(decoding: units, as: UTF8.self)
    }

    /// Reads the digits after `\u`, and the second half of a surrogate pair; the scanner has validated both.
    private static func popScalar(_ rest: inout ArraySlice<UInt8>) -> Unicode.Scalar {
        let unit = UInt32(rest.prefix(4).hexUnit ?? 0xFFFD)
        rest = rest.dropFirst(4)
        guard (0xD800...0xDBFF).contains(unit) else { return Unicode.Scalar(unit) ?? "\u{FFFD}" }
        let low = UInt32(rest.dropFirst(2).prefix(4).hexUnit ?? 0)
        rest = rest.dropFirst(6)
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low &- 0xDC00)) ?? "\u{FFFD}"
    }

    /// Returns whether this is a string with exactly this content.
    @inline(__always)
    func isText(_ name: StaticString) -> Bool { document.isText(name, at: index) }
}

extension Unicode.Scalar {
    fileprivate var utf8Bytes: [UInt8] { Array(String(Character(self)).utf8) }
}

/// An error in a JSON text and its position.
///
/// Contains no values, because errors are sent to peers and logged.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        /// Invalid JSON; the text describes the problem.
        case syntax(String)
        /// Exceeds one of `JSONLimits`.
        case limit(String)
        /// A required member is absent or null.
        case missing
        /// A value of a different type, or out of range.
        case expected(String)
    }

    package var problem: Problem
    /// The byte offset of the problem, counted from 0.
    package var offset: Int
    /// The value's path, such as `operations[0].record.recordName`; empty for the text as a whole.
    package var path: String

    package init(_ problem: Problem, offset: Int, path: String = "") {
        self.problem = problem
        self.offset = offset
        self.path = path
    }

    package var description: String {
        switch problem {
        case .syntax(let what): "The body is not valid JSON: \(what) at byte \(offset)."
        case .limit(let what): "The JSON body has \(what)."
        case .missing: "'\(path)' is required."
        case .expected(let what): path.isEmpty ? "The body must be \(what)." : "'\(path)' must be \(what)."
        }
    }
}

/// The limits of a JSON text.
///
/// See Reliability.md, "Limits".
package struct JSONLimits: Hashable, Sendable {
    /// Maximum nesting of objects and arrays.
    package var depth = 32
    /// Maximum number of object members and array elements in total.
    package var members = 100_000
    /// Maximum length of a number in characters.
    package var numberLength = 64

    package init() {}

    /// The limits for responses of a trusted relay, whose pages are large but not deeply nested.
    package static let response: JSONLimits = {
        var limits = JSONLimits()
        limits.members = 20_000_000
        return limits
    }()
}
