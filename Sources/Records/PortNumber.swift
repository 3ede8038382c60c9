/// Validation of the port in a URL.
package enum PortNumber {
    /// The valid ports; 0 would mean any port.
    package static let range = 1...65_535

    /// Returns whether a URL such as `https://host:8443/path` has no port, or a valid one.
    ///
    /// Parses the text itself: for a number that is too long, Foundation's `URL` returns no port, and other invalid
    /// numbers it returns as they are, which makes NIO's `SocketAddress(ipAddress:port:)` trap.
    package static func isUsable(in address: String) -> Bool {
        let bytes = Array(address.utf8)
        guard let start = bytes.indices.dropLast().first(where: { bytes[$0] == slash && bytes[$0 + 1] == slash }) else {
            return true
        }
        let authority = bytes[(start + 2)...].prefix { !Self.ends.contains($0) }
        // Skips the user name, and an IPv6 address, which contains colons.
        let host = authority.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false).last ?? []
        let rest = host.split(separator: UInt8(ascii: "]"), omittingEmptySubsequences: false).last ?? []
        guard let colon = rest.lastIndex(of: UInt8(ascii: ":")) else { return true }
        let digits = rest[(colon + 1)...]
        // A colon without digits means the scheme's default port.
        guard !digits.isEmpty else { return true }
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return false }
        return Int(String(decoding: digits, as: UTF8.self)).map(range.contains) ?? false
    }

    private static let slash = UInt8(ascii: "/")
    private static let ends = Array("/?#".utf8)
}
