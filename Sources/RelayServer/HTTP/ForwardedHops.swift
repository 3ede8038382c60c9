import Records

/// The hops that proxies wrote into `X-Forwarded-For`, or into `Forwarded` (RFC 7239), the nearest last.
///
/// Proxies write an address with or without a port, brackets, quotes, and a zone; `unknown` or an obfuscated name
/// stands for a client whose address the proxy hides.
struct ForwardedHops {
    /// `nil` for a hop without an address.
    private(set) var addresses: [IPAddress?] = []

    /// Reads the lines of `X-Forwarded-For`.
    init(forwardedFor lines: [String]) {
        for line in lines {
            for element in Self.split(line, at: UInt8(ascii: ",")) { addresses.append(Self.address(element)) }
        }
    }

    /// Reads the lines of `Forwarded`: each element is a hop, and its parameter `for` the client of that hop.
    init(forwarded lines: [String]) {
        for line in lines {
            for element in Self.splitOutsideQuotes(line, at: UInt8(ascii: ",")) {
                let parameters = Self.splitOutsideQuotes(element, at: UInt8(ascii: ";"))
                let client = parameters.lazy.compactMap(Self.client).first
                addresses.append(client.flatMap(Self.address))
            }
        }
    }

    /// The client's address: that of the nearest hop that is not one of our own proxies, if the proxies report it.
    ///
    /// A client can forge the hops before its own.
    func client(behind peer: IPAddress, trusting proxies: [AddressRange]) -> IPAddress {
        var nearest = peer
        for hop in addresses.reversed() {
            guard proxies.contains(where: { $0.contains(nearest) }), let hop else { break }
            nearest = hop
        }
        return nearest
    }

    /// Splits a text at separators and trims the parts; omits empty ones.
    private static func split(_ text: String, at separator: UInt8) -> [String] {
        // By bytes: letters that join with a comma must not hide it.
        text.utf8.split(separator: separator).map { Substring($0).trimmingBlanks() }.filter { !$0.isEmpty }
    }

    /// Splits a text at separators outside of quotes.
    ///
    /// If a client opens a quote and never closes it, quotes are ignored, so that they do not hide what a proxy added.
    private static func splitOutsideQuotes(_ text: String, at separator: UInt8) -> [String] {
        var parts: [String] = []
        var (isQuoted, isEscaped) = (false, false)
        var start = text.utf8.startIndex
        for index in text.utf8.indices {
            let byte = text.utf8[index]
            if isEscaped {
                isEscaped = false
            } else if byte == separator, !isQuoted {
                parts.append(text[start..<index].trimmingBlanks())
                start = text.utf8.index(after: index)
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
        }
        guard !isQuoted else { return split(text, at: separator) }
        return (parts + [text[start...].trimmingBlanks()]).filter { !$0.isEmpty }
    }

    /// The value of a `for=` parameter.
    private static func client(_ parameter: String) -> String? {
        guard let sign = parameter.firstIndex(of: "="),
            parameter[..<sign].trimmingBlanks().lowercased() == "for"
        else { return nil }
        return parameter[parameter.index(after: sign)...].trimmingBlanks()
    }

    /// Parses `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`, and each of them in quotes.
    private static func address(_ hop: String) -> IPAddress? {
        var text = Substring(hop)
        if text.count >= 2, text.first == "\"", text.last == "\"" {
            text = Substring(text.dropFirst().dropLast().filter { $0 != "\\" }.trimmingBlanks())
        }
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]"), isPort(text[text.index(after: end)...]) else { return nil }
            return IPAddress(text[text.index(after: text.startIndex)..<end])
        }
        if let address = IPAddress(text) { return address }
        // A port without brackets. After `::`, four digits cannot be distinguished from a part of the address.
        guard let colon = text.lastIndex(of: ":"), isPort(text[colon...]) else { return nil }
        return IPAddress(text[..<colon])
    }

    /// Whether the rest is empty, or a colon and a port; RFC 7239 allows obfuscated ports (`:_a1`).
    private static func isPort(_ text: Substring) -> Bool {
        guard text.first == ":" else { return text.isEmpty }
        let port = text.dropFirst()
        return port.first == "_" || port.utf8.allSatisfy(\.isASCIIDigit)
    }
}
