/// Base64url without padding, used in tokens and URLs (RFC 7515, appendix C).
package enum Base64URL {
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text = Base64.encode(bytes).utf8.map { byte -> UInt8 in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes strictly; `nil` for invalid text, including text with padding.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1, !text.contains(where: { "+/=".utf8.contains($0) }) else { return nil }
        var padded: [UInt8] = text.map {
            switch $0 {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: $0
            }
        }
        while padded.count % 4 != 0 { padded.append(UInt8(ascii: "=")) }
        return Base64.decode(padded)
    }
}
