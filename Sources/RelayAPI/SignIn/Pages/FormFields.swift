/// The fields of a query or of a form sent as `application/x-www-form-urlencoded`.
///
/// Here, unlike in the wire's two tokens, `+` is a blank, as browsers write it. The first of several of one name counts.
package struct FormFields: Sendable {
    /// What a page's form may send at most; ours are far smaller.
    static let longest = 16 * 1024

    private var values: [String: String] = [:]

    /// `nil` if it is too long, has too many fields, or is not UTF-8 when unescaped.
    package init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.longest else { return nil }
        let parts = bytes.split(separator: UInt8(ascii: "&"))
        guard parts.count <= 64 else { return nil }
        for part in parts {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let written = pair.count > 1 ? pair[1] : part[..<part.startIndex]
            guard let name = Self.unescape(pair[0]), let value = Self.unescape(written) else { return nil }
            if values[name] == nil { values[name] = value }
        }
    }

    /// `nil`: absent or empty.
    package subscript(name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }

    private static func unescape(_ bytes: some Collection<UInt8>) -> String? {
        let blanked = bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        return String(validating: blanked, as: UTF8.self).flatMap(PercentCoding.decode)
    }
}
