import Foundation

/// The address of a WebSocket.
package struct SocketAddress: Hashable, Sendable {
    package var host: String
    package var port: Int
    /// With the leading slash, percent-encoded.
    package var path: String
    package var isSecure: Bool

    package init(host: String, port: Int, path: String, isSecure: Bool) {
        self.host = host
        self.port = port
        self.path = path
        self.isSecure = isSecure
    }

    /// Creates the address of `path` below an `http` or `https` URL.
    ///
    /// Returns `nil` for other schemes and for an invalid port.
    package init?(below base: URL, path: String) {
        guard let host = base.host, let scheme = base.scheme, ["http", "https"].contains(scheme),
            NetworkTransport.isPortUsable(in: base)
        else { return nil }
        isSecure = scheme == "https"
        // URLs put brackets around an IPv6 address; resolvers expect none.
        self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        port = base.port ?? (isSecure ? 443 : 80)
        let prefix = base.path.hasSuffix("/") ? String(base.path.dropLast()) : base.path
        self.path = prefix + path
    }
}

/// An event of a WebSocket.
///
/// Events arrive in order; `closed` and `refused` are final.
package enum SocketEvent: Hashable, Sendable {
    case opened
    /// A complete text message.
    case text([UInt8])
    case pong
    /// The connection ended.
    ///
    /// The code is `nil` if there was no close frame or the connection was never established.
    case closed(code: UInt16?)
    /// The server answered the upgrade request with this HTTP status.
    case refused(status: Int)
}

/// The client side of a WebSocket.
///
/// No method blocks.
package protocol Socket: Sendable {
    /// Queues a text message.
    func send(text: [UInt8])
    func ping()
    /// Abandons the socket and delivers no more events.
    ///
    /// Tries to send a close frame with code 1001.
    func drop()
}

/// Creates WebSockets; the implementation depends on the platform.
package protocol SocketConnector: Sendable {
    /// Starts to connect.
    ///
    /// `deliver` is called from one thread at a time and must not block.
    func connect(
        to address: SocketAddress,
        subprotocol: String,
        deliver: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket
}

/// The connector of this platform.
package enum SystemSockets {
    package static var connector: any SocketConnector {
        #if canImport(Darwin)
            URLSessionSocketConnector()
        #else
            LibWebSocketsConnector()
        #endif
    }

    /// The maximum size of a message in bytes.
    ///
    /// A larger one closes the socket with code 1009; notices have a few hundred bytes.
    static let maxMessage = 1 << 20
}
