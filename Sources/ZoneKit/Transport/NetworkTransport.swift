package import Foundation
import Records

/// Creates the transport to a relay: URLSession on Apple platforms, AsyncHTTPClient elsewhere.
///
/// On Linux, URLSession cannot cancel a request safely: it traps if the cancellation coincides with the end of the
/// request. A request without a waiting caller would continue and hold its connection.
package enum NetworkTransport {
    /// Returns a transport to one relay.
    ///
    /// - Parameters:
    ///   - base: The relay's base URL; a path in it is prepended to every request's path.
    ///   - timeout: The maximum time without any data from the relay, in seconds.
    /// - Returns: The transport; it connects when the first request is sent.
    package static func to(_ base: URL, timeout: TimeInterval = 60) -> any RelayTransport {
        #if canImport(FoundationNetworking)
            AsyncHTTPTransport(base: base, timeout: timeout)
        #else
            URLSessionTransport(base: base, timeout: timeout)
        #endif
    }

    /// Returns whether a URL refers to this machine.
    static func isLocal(_ base: URL) -> Bool { ["127.0.0.1", "localhost", "::1", "[::1]"].contains(base.host) }

    /// Returns whether a URL names no port or a valid one.
    ///
    /// Must be called right before the HTTP library, which traps on invalid ports; URLs come from programs and from
    /// relays.
    static func isPortUsable(in url: URL) -> Bool {
        PortNumber.isUsable(in: url.absoluteString) && url.port.map(PortNumber.range.contains) ?? true
    }

    /// Returns the full URL of a request, or `nil` if it is not valid.
    static func address(of request: RelayRequest, below base: URL) -> URL? {
        if let address = request.address { return address }
        var text = base.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        return URL(string: text + request.path + (request.query.isEmpty ? "" : "?" + request.query))
    }
}
