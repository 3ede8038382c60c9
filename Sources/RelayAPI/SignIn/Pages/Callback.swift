import Records

/// Where a browser goes after sign-in: an API token's callback address.
///
/// See Wire.md, "Signing in".
package enum Callback {
    /// Schemes that would run or show something instead of going somewhere.
    private static let refused: Set<String> = ["javascript", "data", "vbscript", "file", "blob", "about", "filesystem"]

    /// Whether an API token may have it: a scheme of any kind but those that browsers run, no blank, no control character.
    package static func isUsable(_ address: String) -> Bool {
        guard let scheme = scheme(of: address), address.utf8.count > scheme.utf8.count + 1 else { return false }
        return !refused.contains(scheme)
            && address.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "<") }
    }

    /// The address with the token in its query, what was there before kept.
    static func address(_ callback: String, webToken: String) -> String {
        let parts = callback.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let base = String(parts[0])
        let joint = base.hasSuffix("?") || base.hasSuffix("&") ? "" : base.contains("?") ? "&" : "?"
        let fragment = parts.count > 1 ? "#\(parts[1])" : ""
        return base + joint + "ckWebAuthToken=" + escaped(webToken) + fragment
    }

    /// The three characters that the wire wants escaped.
    ///
    /// See Wire.md, "Web auth tokens".
    static func escaped(_ webToken: String) -> String {
        webToken.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
    }

    /// What a Content-Security-Policy must name for a form's answer to lead there.
    ///
    /// The scheme and no host: browsers hold the whole chain of redirects to it, and callbacks often lead on.
    static func policySource(_ callback: String) -> String? {
        switch scheme(of: callback) {
        case nil: nil
        case "http": "http: https:"
        case .some(let scheme): scheme + ":"
        }
    }

    /// What a person may read of where they will go: the host, or the scheme of an app's own.
    static func place(_ callback: String) -> String {
        guard let scheme = scheme(of: callback), scheme == "http" || scheme == "https" else {
            return scheme(of: callback) ?? callback
        }
        let host = callback.utf8.dropFirst(scheme.utf8.count + 3).prefix { !"/?#".utf8.contains($0) }
        // What stands before an @ is no part of the host, and may look like one.
        return String(decoding: host.split(separator: UInt8(ascii: "@")).last ?? host, as: UTF8.self)
    }

    private static func scheme(of address: String) -> String? {
        guard let colon = address.firstIndex(of: ":") else { return nil }
        let scheme = address[..<colon].lowercased()
        guard let first = scheme.utf8.first, first.isASCIILetter,
            scheme.utf8.allSatisfy({ $0.isASCIIAlphanumeric || "+-.".utf8.contains($0) })
        else { return nil }
        return scheme
    }
}
