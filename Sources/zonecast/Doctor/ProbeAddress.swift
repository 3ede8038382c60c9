import Foundation
import Records

/// Where a probe goes: an `http` or `https` address, with a path that stands before the relay's own.
struct ProbeAddress: Sendable, CustomStringConvertible {
    var host: String
    var port: Int
    var isSecure: Bool
    /// Without a slash at its end.
    var prefix: String
    /// PEM file with the authorities to trust; `nil`: the system's.
    var authorities: String?
    /// Any certificate will do: the relay's own address is not what its certificate is for.
    var trustsAnybody = false
    /// How long each step may take there, in seconds.
    var patience = 5

    /// `nil` for what is no such address.
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

    /// What goes into the `Host` field.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Turns an address that a relay listens on into one to connect to on the same machine.
    mutating func connectsToItself() {
        if host == "0.0.0.0" { host = "127.0.0.1" }
        if host == "::" { host = "::1" }
        trustsAnybody = true
    }

    /// Whether only programs of this machine get there.
    var isLocal: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    var description: String { "\(isSecure ? "https" : "http")://\(authority)\(prefix)" }
}
