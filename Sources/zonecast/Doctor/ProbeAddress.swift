import Foundation
import Records

/// The target of a probe: an `http` or `https` address, with a path prefix before the relay's paths.
struct ProbeAddress: Sendable, CustomStringConvertible {
    var host: String
    var port: Int
    var isSecure: Bool
    /// The path prefix, without a trailing slash.
    var prefix: String
    /// PEM file with the certificate authorities to trust; `nil`: the system's.
    var authorities: String?
    /// Accepts any certificate: the relay's local address is not the name in its certificate.
    var trustsAnybody = false
    /// The timeout of each step, in seconds.
    var patience = 5

    /// Returns `nil` if the text is not an http or https address.
    init?(_ text: String, authorities: String? = nil) {
        guard let url = URL(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
            let host = url.host(percentEncoded: false), !host.isEmpty,
            PortNumber.isUsable(in: text), url.port.map(PortNumber.range.contains) ?? true
        else { return nil }
        self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        isSecure = scheme == "https"
        port = url.port ?? (isSecure ? 443 : 80)
        prefix = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        self.authorities = authorities
    }

    /// The value of the `Host` header.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Converts a listen address into one to connect to on the same machine.
    mutating func connectsToItself() {
        if host == "0.0.0.0" { host = "127.0.0.1" }
        if host == "::" { host = "::1" }
        trustsAnybody = true
    }

    /// Whether the address is reachable only from this machine.
    var isLocal: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    var description: String { "\(isSecure ? "https" : "http")://\(authority)\(prefix)" }
}
