import Foundation

/// Where a WebSocket goes.
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

    /// The place `path` below an `http` or `https` address; `nil` for any other address, and for a port that there is not.
    package init?(below base: URL, path: String) {
        guard let host = base.host, let scheme = base.scheme, ["http", "https"].contains(scheme),
            NetworkTransport.isPortUsable(in: base)
        else { return nil }
        isSecure = scheme == "https"
        // URLs put brackets around an IPv6 address, resolvers do not.
        self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        port = base.port ?? (isSecure ? 443 : 80)
        let prefix = base.path.hasSuffix("/") ? String(base.path.dropLast()) : base.path
        self.path = prefix + path
    }
}

/// What happens to a WebSocket, in the order in which it happens; `closed` and `refused` are the last.
package enum SocketEvent: Hashable, Sendable {
    case opened
    /// One whole text message.
    case text([UInt8])
    case pong
    /// The end; `nil` when it came without a close frame, or there never was a connection.
    case closed(code: UInt16?)
    /// The other end answered the upgrade with this HTTP status instead.
    case refused(status: Int)
}

/// One WebSocket, from the client's side.
///
/// All calls return at once.
package protocol Socket: Sendable {
    /// Queues one text message.
    func send(text: [UInt8])
    func ping()
    /// Gives the socket up: no event comes afterwards.
    ///
    /// A close frame with 1001 is tried.
    func drop()
}

/// Makes WebSockets: the one thing that differs between systems.
package protocol SocketConnector: Sendable {
    /// Begins to connect.
    ///
    /// `deliver` is called from one thread at a time and must not block.
    func connect(
        to address: SocketAddress,
        subprotocol: String,
        deliver: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket
}

/// The connector of this system.
package enum SystemSockets {
    package static var connector: any SocketConnector {
        #if canImport(Darwin)
            URLSessionSocketConnector()
        #else
            LibWebSocketsConnector()
        #endif
    }

    /// A message from the relay beyond this many bytes closes the socket with 1009; notices are a few hundred.
    static let maxMessage = 1 << 20
}
