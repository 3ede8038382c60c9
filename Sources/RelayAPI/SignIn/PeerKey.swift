#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The key of a limit per client address: an IPv4 address, or the 64-bit network of an IPv6 address.
///
/// A client with one IPv6 address usually has its whole network, and could use another address for every request.
package struct PeerKey: Hashable, Sendable {
    /// 0 for an IPv4 address, 1 for a network, 2 for the hash of a text that is not an address.
    private let kind: UInt8
    private let number: UInt64

    /// - Parameter address: Without a port.
    package init(_ address: String) {
        var bytes: (UInt64, UInt64) = (0, 0)
        if inet_pton(AF_INET, address, &bytes) == 1 {
            self.init(kind: 0, bytes.0)
        } else if inet_pton(AF_INET6, address, &bytes) == 1 {
            // ::ffff:192.0.2.1 is the IPv4 address.
            let mapped = UInt64(bigEndian: bytes.1)
            let isMapped = bytes.0 == 0 && mapped >> 32 == 0xFFFF
            self.init(kind: isMapped ? 0 : 1, isMapped ? (mapped & 0xFFFF_FFFF).bigEndian >> 32 : bytes.0)
        } else {
            self.init(kind: 2, UInt64(bitPattern: Int64(address.hashValue)))
        }
    }

    /// Identifies the key without revealing the address.
    package var text: String { "\(kind)/\(String(number, radix: 16))" }

    private init(kind: UInt8, _ number: UInt64) {
        self.kind = kind
        self.number = number
    }
}
