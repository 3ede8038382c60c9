import Foundation

/// The canonical spelling of a host, as browsers write it in `Origin` and services in their addresses.
///
/// See WHATWG URL, section 3.5. Names that browsers accept but that no server has are refused.
package enum HostName {
    /// The host in lower-case ASCII: an internationalised name as `xn--…`, an IPv6 address shortened in brackets.
    ///
    /// `nil` if the text is not a host.
    package static func ascii(_ text: some StringProtocol) -> String? {
        if text.utf8.first == UInt8(ascii: "[") { return ipv6(text) }
        var isPlain = true
        for byte in text.utf8 where !isLetter(byte) {
            guard byte >= 0x80 || byte == UInt8(ascii: ".") else { return nil }
            if byte >= 0x80 { isPlain = false }
        }
        var name = text.lowercased()
        if !isPlain || name.contains("xn--") {
            // Decode an xn-- name first, because not every such name is valid.
            guard let letters = URLComponents(string: "https://\(text)")?.host,
                let encoded = URLComponents(string: "https://\(letters)")?.encodedHost
            else { return nil }
            name = encoded.lowercased()
        }
        return isName(name) ? name : nil
    }

    /// The host for display: an internationalised name in its own letters.
    package static func unicode(_ text: some StringProtocol) -> String? {
        guard let ascii = ascii(text) else { return nil }
        return ascii.contains("xn--") ? URLComponents(string: "https://\(ascii)")?.host : ascii
    }

    /// Whether a label can contain this byte.
    private static func isLetter(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    /// A dot may end the name; a name whose last label is a number must be an IPv4 address.
    private static func isName(_ name: String) -> Bool {
        var labels = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        if labels.count > 1, labels.last?.isEmpty == true { labels.removeLast() }
        guard name.utf8.count <= 254,
            labels.allSatisfy({ (1...63).contains($0.count) && $0.allSatisfy(isLetter) }), let last = labels.last
        else { return false }
        guard last.allSatisfy(\.isASCIIDigit) || last.starts(with: "0x".utf8) else { return true }
        var bytes = [UInt8](repeating: 0, count: 4)
        return inet_pton(AF_INET, name, &bytes) == 1
    }

    private static func ipv6(_ text: some StringProtocol) -> String? {
        var bytes = [UInt8](repeating: 0, count: 16)
        guard text.hasSuffix("]"),
            inet_pton(AF_INET6, String(text.dropFirst().dropLast()), &bytes) == 1
        else { return nil }
        let groups = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        // The first of the longest runs of zeros is omitted.
        var gap = 0..<0
        var run = 0..<0
        for (index, group) in groups.enumerated() {
            run = group == 0 ? (run.upperBound == index ? run.lowerBound : index)..<(index + 1) : 0..<0
            if run.count > max(1, gap.count) { gap = run }
        }
        func written(_ part: ArraySlice<UInt16>) -> String {
            part.map { String($0, radix: 16) }.joined(separator: ":")
        }
        guard !gap.isEmpty else { return "[\(written(groups[...]))]" }
        return "[\(written(groups[..<gap.lowerBound]))::\(written(groups[gap.upperBound...]))]"
    }
}
