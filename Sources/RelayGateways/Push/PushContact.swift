import Records

/// The address at which push services find the operator (RFC 8292, the claim `sub`).
///
/// Apple's service refuses every push of a relay with an unreachable contact, so such a contact is refused here.
package enum PushContact {
    /// The contact as it is sent; `nil` if a service would refuse it.
    package static func canonical(_ text: String) -> String? { try? read(text).get() }

    /// Returns why services would refuse the contact; `nil` if they would not.
    package static func objection(to text: String) -> String? {
        switch read(text) {
        case .success: nil
        case .failure(let fault): fault.reason
        }
    }

    private struct Fault: Error {
        var reason: String
    }

    /// Names that are valid only on one machine or in one network (RFC 6761 and 6762).
    private static let local: Set<Substring> = ["localhost", "localdomain", "local", "invalid"]

    private static func read(_ text: String) -> Result<String, Fault> {
        func refused(_ reason: String) -> Result<String, Fault> { .failure(Fault(reason: reason)) }
        // RFC 3986: the characters of a URL without brackets, which no host of a contact needs.
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && !"<>\"\\^`{|}[]".utf8.contains($0) }) else {
            return refused("Services refuse blanks, brackets and quotes in it.")
        }
        let colon = text.firstIndex(of: ":") ?? text.endIndex
        let rest = text[colon...].dropFirst()
        switch text[..<colon].lowercased() {
        case "mailto":
            let parts = rest.split(separator: "@", omittingEmptySubsequences: false)
            guard parts.count == 2, EmailAddress.objection(to: String(rest)) == nil,
                parts[0].utf8.allSatisfy({ $0 < 0x80 && !",;:/?#&=".utf8.contains($0) }), let host = host(parts[1])
            else {
                return refused(
                    "After mailto: write one address in ASCII whose domain others can reach, like mailto:ops@example.org."
                )
            }
            return .success("mailto:\(parts[0])@\(host)")
        case "https" where rest.hasPrefix("//"):
            let authority = rest.dropFirst(2).prefix { !"/?#".contains($0) }
            let path = rest[authority.endIndex...]
            guard let origin = WebOrigin.canonical("https://\(authority)"), !authority.contains("@"),
                let host = origin.dropFirst("https://".count).split(separator: ":").first, self.host(host) != nil,
                path.utf8.allSatisfy({ $0 < 0x80 })
            else {
                return refused(
                    "After https:// write the name of a host that others can reach, like https://example.org."
                )
            }
            return .success(origin + path)
        case "http": return refused("Services take https:// and not http://.")
        default:
            return refused(
                text.contains("@") && colon == text.endIndex ? "Write mailto:\(text)." : "Write mailto: or https://."
            )
        }
    }

    /// A name with a domain, which others can look up.
    private static func host(_ text: Substring) -> String? {
        guard let host = HostName.ascii(text.hasSuffix(".") ? text.dropLast() : text) else { return nil }
        let labels = host.split(separator: ".")
        guard labels.count > 1, let last = labels.last, !local.contains(last), !last.utf8.allSatisfy(\.isASCIIDigit)
        else {
            return nil
        }
        return host
    }
}

/// The hosts that devices may name as their push services.
package enum PushHost {
    /// A host, or all hosts below it with `*.` before it, as push services write theirs; `nil` if the text is neither.
    package static func canonical(_ text: String) -> String? {
        let star = text.hasPrefix("*.") ? "*." : ""
        let name = text.dropFirst(star.count)
        guard let host = HostName.ascii(name.hasSuffix(".") ? name.dropLast() : name) else { return nil }
        // An IP address has no subdomains.
        let isAddress = host.hasPrefix("[") || host.split(separator: ".").last?.utf8.allSatisfy(\.isASCIIDigit) == true
        return star.isEmpty || !isAddress ? star + host : nil
    }

    /// Returns why no push service can have this host; `nil` if one can.
    package static func objection(to text: String) -> String? {
        guard canonical(text) == nil else { return nil }
        if text.contains("://") || text.contains("/") {
            return "Write \"\(text)\" as its host alone, without scheme and path."
        }
        if let colon = text.lastIndex(of: ":"), canonical(String(text[..<colon])) != nil {
            return "Write \"\(text)\" without a port: a host may be called at any."
        }
        if text.contains("*") || text.hasPrefix(".") {
            return "In \"\(text)\" a star may only stand for all names below a domain, as in *.push.example."
        }
        return "\"\(text)\" is not the name or address of a host."
    }
}
