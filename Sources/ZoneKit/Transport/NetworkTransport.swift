package import Foundation
import Records

/// The way to a relay on a network: by URLSession where it is Apple's, by AsyncHTTPClient elsewhere.
///
/// On Linux a URLSession cannot really stop a request: a stop that meets the request's end traps inside it. A request that
/// nobody waits for any longer would go on there, and hold its connection.
package enum NetworkTransport {
    /// A way to one relay.
    ///
    /// - Parameters:
    ///   - base: The relay's address; a path in it is put before every request's own.
    ///   - timeout: How long to wait while nothing comes, in seconds.
    /// - Returns: The way; nothing is connected before the first request.
    package static func to(_ base: URL, timeout: TimeInterval = 60) -> any RelayTransport {
        #if canImport(FoundationNetworking)
            AsyncHTTPTransport(base: base, timeout: timeout)
        #else
            URLSessionTransport(base: base, timeout: timeout)
        #endif
    }

    /// Whether an address leads to this machine.
    static func isLocal(_ base: URL) -> Bool { ["127.0.0.1", "localhost", "::1", "[::1]"].contains(base.host) }

    /// Whether an address names no port, or one that there is.
    ///
    /// Asked right before the library that trips over all others, since addresses come from programs and from relays.
    static func isPortUsable(in url: URL) -> Bool {
        PortNumber.isUsable(in: url.absoluteString) && url.port.map(PortNumber.range.contains) ?? true
    }

    /// The whole address of a request at a relay; `nil` where it makes none.
    static func address(of request: RelayRequest, below base: URL) -> URL? {
        if let address = request.address { return address }
        var text = base.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        return URL(string: text + request.path + (request.query.isEmpty ? "" : "?" + request.query))
    }
}
