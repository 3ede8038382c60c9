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
