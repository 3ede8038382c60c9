import Records

/// The callback URL of an API token, to which a browser is redirected after sign-in.
///
/// See Wire.md, "Signing in".
package enum Callback {
    /// Schemes that execute or display content instead of opening a page or app.
    private static let refused: Set<String> = ["javascript", "data", "vbscript", "file", "blob", "about", "filesystem"]

    /// Returns whether an API token may have this URL: any scheme but those above, no blanks, no control characters.
    package static func isUsable(_ address: String) -> Bool {
        guard let scheme = scheme(of: address), address.utf8.count > scheme.utf8.count + 1 else { return false }
        return !refused.contains(scheme)
            && address.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "<") }
    }

    /// Returns the URL with the token added to its query.
    static func address(_ callback: String, webToken: String) -> String {
        let parts = callback.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let base = String(parts[0])
        let joint = base.hasSuffix("?") || base.hasSuffix("&") ? "" : base.contains("?") ? "&" : "?"
        let fragment = parts.count > 1 ? "#\(parts[1])" : ""
        return base + joint + "ckWebAuthToken=" + escaped(webToken) + fragment
    }

    /// Percent-encodes the three characters that the wire requires to be encoded.
    ///
    /// See Wire.md, "Web auth tokens".
    static func escaped(_ webToken: String) -> String {
        webToken.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
    }

    /// Returns the source that a Content-Security-Policy must contain so that a form can redirect to the URL.
    ///
    /// The scheme without a host: browsers apply the policy to the whole chain of redirects, and callbacks often
    /// redirect further.
    static func policySource(_ callback: String) -> String? {
        switch scheme(of: callback) {
        case nil: nil
        case "http": "http: https:"
        case .some(let scheme): scheme + ":"
        }
    }

    /// Returns the destination to show to the user: the host, or the scheme of an app.
    static func place(_ callback: String) -> String {
        guard let scheme = scheme(of: callback), scheme == "http" || scheme == "https" else {
            return scheme(of: callback) ?? callback
        }
        let host = callback.utf8.dropFirst(scheme.utf8.count + 3).prefix { !"/?#".utf8.contains($0) }
        // The part before an @ is not part of the host, but may look like one.
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
