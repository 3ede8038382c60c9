/// The port in an address.
package enum PortNumber {
    /// What sockets take; 0 would be any.
    package static let range = 1...65_535

    /// Whether an address such as `https://host:8443/path` names no port, or one that there is.
    ///
    /// Looks at the text: of a number that is too long Foundation's `URL` says that there is none, and of others whatever
    /// stands there, on which `SocketAddress(ipAddress:port:)` of NIO traps.
    package static func isUsable(in address: String) -> Bool {
        let bytes = Array(address.utf8)
        guard let start = bytes.indices.dropLast().first(where: { bytes[$0] == slash && bytes[$0 + 1] == slash }) else {
            return true
        }
        let authority = bytes[(start + 2)...].prefix { !Self.ends.contains($0) }
        // Behind the name of a user, and behind an IPv6 address, which has colons of its own.
        let host = authority.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false).last ?? []
        let rest = host.split(separator: UInt8(ascii: "]"), omittingEmptySubsequences: false).last ?? []
        guard let colon = rest.lastIndex(of: UInt8(ascii: ":")) else { return true }
        let digits = rest[(colon + 1)...]
        // A colon alone means the scheme's own port.
        guard !digits.isEmpty else { return true }
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return false }
        return Int(String(decoding: digits, as: UTF8.self)).map(range.contains) ?? false
    }

    private static let slash = UInt8(ascii: "/")
    private static let ends = Array("/?#".utf8)
}
