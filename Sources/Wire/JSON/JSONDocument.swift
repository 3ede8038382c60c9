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
