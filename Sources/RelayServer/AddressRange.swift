#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An IP address, whichever way it was written.
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// In network order: 4 or 16 bytes.
    fileprivate let bytes: [UInt8]

    fileprivate init(bytes: [UInt8]) { self.bytes = bytes }

    /// Reads an IPv4 or IPv6 address without port and brackets.
    ///
    /// An IPv4-mapped IPv6 address counts as IPv4, and the zone of an IPv6 address (`%eth0`) is left out.
    package init?(_ text: some StringProtocol) {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, String(text), &bytes) == 1 {
            self.bytes = Array(bytes.prefix(4))
            return
        }
        guard inet_pton(AF_INET6, String(text.prefix { $0 != "%" }), &bytes) == 1 else { return nil }
        let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        self.bytes = isMapped ? Array(bytes[12...]) : bytes
    }

    /// The address in the form of RFC 5952.
    package var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard inet_ntop(family, bytes, &text, socklen_t(text.count)) != nil else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// An IP address, or a range of addresses such as `10.0.0.0/8`.
package struct AddressRange: Hashable, Sendable {
    private let bytes: [UInt8]
    private let bits: Int

    /// Parses an IPv4 or IPv6 address, with or without `/` and a prefix length; returns `nil` if it is invalid.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let bytes = IPAddress(first)?.bytes else { return nil }
        var bits = bytes.count * 8
        if parts.count == 2 {
            guard let prefix = Int(parts[1]), (0...bits).contains(prefix) else { return nil }
            bits = prefix
        }
        self.bytes = bytes
        self.bits = bits
    }

    /// The range without the bits after its prefix, if `text` sets any of them, as `10.0.0.5/8` does; otherwise `nil`.
    ///
    /// Such a text names one host, and the range that it would trust is much larger.
    package static func networkMeant(by text: String) -> String? {
        guard let range = AddressRange(text) else { return nil }
        let network = IPAddress(
            bytes: range.bytes.enumerated().map { index, byte in
                let kept = max(0, min(8, range.bits - index * 8))
                return kept == 0 ? 0 : byte & (0xFF << UInt8(8 - kept))
            }
        )
        return network.bytes == range.bytes ? nil : "\(network)/\(range.bits)"
    }

    /// Returns whether an IP address is in this range.
    package func contains(_ address: IPAddress) -> Bool {
        let other = address.bytes
        guard other.count == bytes.count else { return false }
        let whole = bits / 8
        guard other.prefix(whole) == bytes.prefix(whole) else { return false }
        let rest = bits % 8
        return rest == 0 || (other[whole] ^ bytes[whole]) >> (8 - rest) == 0
    }

    /// Returns whether an IP address, without a port, is in this range.
    package func contains(_ address: String) -> Bool { IPAddress(address).map(contains) ?? false }
}
