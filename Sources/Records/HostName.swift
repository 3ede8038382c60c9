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

/// The value of the header `Origin`: scheme, host, and the port unless it is the scheme's default.
package enum WebOrigin {
    /// The origin as a browser writes it: in lower case and ASCII, without the scheme's default port.
    ///
    /// `nil` if no browser can send it.
    package static func canonical(_ text: String) -> String? { try? read(text).get() }

    /// Returns why no browser sends this origin; `nil` if one can.
    package static func objection(to text: String) -> String? {
        switch read(text) {
        case .success: nil
        case .failure(let fault): fault.reason
        }
    }

    private struct Fault: Error {
        var reason: String
    }

    /// Schemes whose pages send `null`, or that have no pages.
    private static let withoutOrigin: Set<String> = [
        "about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "ws", "wss",
    ]
    private static let ports = ["http": 80, "https": 443]

    private static func read(_ text: String) -> Result<String, Fault> {
        func refused(_ reason: String) -> Result<String, Fault> { .failure(Fault(reason: reason)) }
        let trimmed = text.utf8.drop { $0 <= 0x20 }.reversed().drop { $0 <= 0x20 }.reversed()
        let written = String(decoding: trimmed, as: UTF8.self)
        guard let mark = written.firstRange(of: "://") else {
            return refused("An origin has a scheme: https://app.example.")
        }
        let scheme = written[..<mark.lowerBound].lowercased()
        guard scheme.utf8.first?.isASCIILetter == true,
            scheme.utf8.allSatisfy({ $0.isASCIIAlphanumeric || "+-.".utf8.contains($0) })
        else { return refused("An origin begins with a scheme like https.") }
        guard !withoutOrigin.contains(scheme) else {
            return refused("No page has an origin that begins with \(scheme)://. Write https:// or http://.")
        }
        var rest = written[mark.upperBound...]
        // Accept the trailing slash that browsers show in addresses.
        if rest.last == "/" { rest.removeLast() }
        guard !rest.contains(where: { "/?#".contains($0) }) else {
            return refused("An origin ends with its host or port: nothing may follow, such as a path.")
        }
        guard !rest.contains("*") else {
            return refused("A star matches nothing here. Name each origin, or give the pages one host.")
        }
        guard !rest.contains("@") else { return refused("Browsers send no user name in an origin.") }
        let end =
            rest.first == "["
            ? rest.firstIndex(of: "]").map { rest.index(after: $0) } : rest.firstIndex(of: ":")
        let (name, port) = (rest[..<(end ?? rest.endIndex)], rest[(end ?? rest.endIndex)...])
        guard let host = HostName.ascii(name), port.isEmpty || port.first == ":" else {
            return refused("\"\(rest)\" is not the name or address of a host.")
        }
        let digits = port.dropFirst()
        guard !digits.isEmpty else { return .success("\(scheme)://\(host)") }
        guard digits.utf8.allSatisfy(\.isASCIIDigit), let number = Int(digits), (1...65_535).contains(number) else {
            return refused("\"\(digits)\" is not a port between 1 and 65535.")
        }
        return .success(ports[scheme] == number ? "\(scheme)://\(host)" : "\(scheme)://\(host):\(number)")
    }
}
