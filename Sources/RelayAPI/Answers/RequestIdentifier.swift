package import HTTPTypes
package import RelayCore
import Synchronization

/// The identifier of a request or a notice: a version 4 UUID, converted to text on demand.
package struct RequestIdentifier: Hashable, Sendable {
    private let first: UInt64
    private let second: UInt64

    fileprivate init(_ first: UInt64, _ second: UInt64) {
        self.first = first
        self.second = second
    }

    package var text: String { UUIDText.make(first, second) }

    /// Calls `body` with the bytes of the text, which are valid only during the call.
    package func withText(_ body: (UnsafeRawBufferPointer) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: UUIDText.length) { text in
            UUIDText.write(first, second, to: text)
            body(UnsafeRawBufferPointer(text))
        }
    }
}

/// Formats 16 random bytes as a lowercase version 4 UUID.
///
/// See RFC 9562.
enum UUIDText {
    private static let digits: StaticString = "0123456789abcdef"

    static func make(_ bytes: [UInt8]) -> String {
        let (first, second) = (bytes.prefix(8), bytes.dropFirst(8).prefix(8))
        return make(first.reduce(0) { $0 << 8 | UInt64($1) }, second.reduce(0) { $0 << 8 | UInt64($1) })
    }

    static let length = 36

    /// Formats the two halves of a UUID.
    static func make(_ first: UInt64, _ second: UInt64) -> String {
        String(unsafeUninitializedCapacity: length) { text in
            write(first, second, to: text)
            return length
        }
    }

    /// Formats a UUID into memory of `length` bytes, without an allocation; used for every response.
    static func write(_ first: UInt64, _ second: UInt64, to text: UnsafeMutableBufferPointer<UInt8>) {
        let halves = (first & ~0xF000 | 0x4000, second & ~(3 << 62) | 1 << 63)
        let digits = digits.utf8Start
        var count = 0
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 {
                text[count] = UInt8(ascii: "-")
                count += 1
            }
            let half = index < 16 ? halves.0 : halves.1
            text[count] = digits[Int(half &>> UInt64(60 &- (index & 15) &* 4) & 15)]
            count += 1
        }
    }
}

/// Generates identifiers that are unique within a process but not necessarily unpredictable.
package final class UUIDSequence: Sendable {
    private let start: UInt64
    private let count = Atomic<UInt64>(0)

    package init(_ random: RandomSource) { start = random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }

    package func next() -> RequestIdentifier {
        RequestIdentifier(start, count.add(1, ordering: .relaxed).newValue &* 0x9E37_79B9_7F4A_7C15)
    }
}

extension RandomSource {
    /// Returns a new lowercase version 4 UUID.
    ///
    /// Foundation's `UUID` opens the system's source of random bytes each time.
    package func uuid() -> String { UUIDText.make(bytes(16)) }
}

extension HTTPField.Name {
    static let respondingInstance: HTTPField.Name = {
        guard let name = HTTPField.Name("X-Responding-Instance") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()

    /// The request identifier as it appears in the relay's log, and as `uuid` in error bodies.
    package static let requestUUID: HTTPField.Name = {
        guard let name = HTTPField.Name("X-Apple-Request-UUID") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()
}
