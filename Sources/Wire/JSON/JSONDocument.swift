#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A JSON text that was checked once, whole and strictly, and is then read in place.
///
/// Parsing makes a tape of nodes in text order, 16 bytes each; strings and numbers are only turned into Swift values when
/// somebody asks for them. What is never asked for costs its check and nothing more, and yet cannot be malformed.
/// Refused: trailing text, duplicate members, lone surrogates, invalid UTF-8, raw control characters, leading zeros.
package final class JSONDocument: Sendable {
    enum Kind: UInt8 {
        case null, `false`, `true`, integer, number, string, escapedString, object, array
    }

    let bytes: [UInt8]
    let tape: JSONTape

    /// Checks `bytes` and makes the tape.
    ///
    /// Throws `syntax` or `limit`; costs one pass, no recursion.
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

    /// The tape index of the value of an object's member; `nil` where there is none, and where it is no object.
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

    /// Whether there is a string of just that content.
    ///
    /// Inlined, since with a name known where it is called this is two or three comparisons.
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

    /// Lends the text of a value; that of a string without its quotes, and with its escapes.
    @inline(__always)
    func withText<Result>(at index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        let node = tape[index]
        return bytes.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)]))
        }
    }

    func value(at index: Int) -> JSONValue { JSONValue(document: self, index: index) }

    /// The tape index after a value and all it holds: in an object that of the next member's name.
    func end(of index: Int) -> Int { Int(tape[index].next) }

    func string(at index: Int) throws(JSONError) -> String {
        guard tape[index].kind != .string else { return withText(at: index) { String(decoding: $0, as: UTF8.self) } }
        return try value(at: index).string()
    }

    /// About how many members an object has, and not fewer, where each is a small object as fields are; else more.
    func memberCapacity(of object: Int) -> Int { (end(of: object) - object) / 6 + 1 }

    package var root: JSONValue { JSONValue(document: self, index: 0) }

    /// Where a value stands, found by walking down to it: only errors pay for paths.
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
