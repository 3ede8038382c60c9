/// The fields of a query or of a form sent as `application/x-www-form-urlencoded`.
///
/// Unlike in the two tokens of the wire, `+` is a blank, as browsers encode it. If a name occurs several times, the
/// first field counts.
package struct FormFields: Sendable {
    /// The maximum size of a form in bytes; the pages' forms are much smaller.
    static let longest = 16 * 1024

    private var values: [String: String] = [:]

    /// Returns `nil` if it is too long, has too many fields, or is not UTF-8 when decoded.
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

    /// The value of a field; `nil` if absent or empty.
    package subscript(name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }

    private static func unescape(_ bytes: some Collection<UInt8>) -> String? {
        let blanked = bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        return String(validating: blanked, as: UTF8.self).flatMap(PercentCoding.decode)
    }
}
