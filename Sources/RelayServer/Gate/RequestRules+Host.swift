/// Validation of the `Host` field (RFC 9110, 7.2).
extension RequestRules {
    /// Returns whether a text is a host with an optional port.
    ///
    /// Rejects everything that another server could interpret as a path, a user or a second host.
    static func isHost(_ text: String) -> Bool {
        let bytes = text.utf8[...]
        guard bytes.first == UInt8(ascii: "[") else {
            let end = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
            return isName(bytes[..<end]) && isPort(bytes[end...])
        }
        let address = bytes.dropFirst().prefix { $0 != UInt8(ascii: "]") }
        let isClosed = address.endIndex < bytes.endIndex
        return isClosed && address.contains(UInt8(ascii: ":"))
            && address.split(separator: UInt8(ascii: ":")).allSatisfy { isName($0) }
            && isPort(bytes[address.endIndex...].dropFirst())
    }

    private static func isName(_ bytes: Substring.UTF8View) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "%"): true
                default: false
                }
            }
    }

    /// Returns whether a text is empty, or a colon with an optional port.
    private static func isPort(_ bytes: Substring.UTF8View) -> Bool {
        guard let colon = bytes.first else { return true }
        let digits = bytes.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return false }
        return digits.isEmpty || (Int(Substring(digits)) ?? .max) <= 65_535
    }
}
