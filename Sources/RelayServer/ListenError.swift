import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The reason why the relay could not start listening.
///
/// The description is for the operator. See CONTRIBUTING.md, "Commands and error texts".
package enum ListenError: Error, Hashable, Sendable, CustomStringConvertible {
    case portTaken(ListeningAddress)
    case notAllowed(ListeningAddress)
    case noSuchAddress(ListeningAddress)
    case unknownHost(ListeningAddress)
    /// The system's error number and text.
    case system(ListeningAddress, code: Int32, text: String)
    case echoBeyondLoopback

    /// Returns `nil` for an error whose own description is more specific.
    init?(_ error: any Error, configuration: ServerConfiguration) {
        self.init(error, address: ListeningAddress(host: configuration.host, port: configuration.port))
    }

    /// Returns `nil` for an error whose own description is more specific.
    init?(_ error: any Error, address: ListeningAddress) {
        if error is SocketAddressError.UnknownHost {
            self = .unknownHost(address)
            return
        }
        guard let error = error as? IOError else { return nil }
        switch error.errnoCode {
        case EADDRINUSE: self = .portTaken(address)
        case EACCES, EPERM: self = .notAllowed(address)
        case EADDRNOTAVAIL: self = .noSuchAddress(address)
        default: self = .system(address, code: error.errnoCode, text: String(cString: strerror(error.errnoCode)))
        }
    }

    /// What the operator can do if the user of the relay may not use ports below 1024.
    package static let lowPortRemedy =
        "Ports below 1024 need a permission: in a systemd service, AmbientCapabilities=CAP_NET_BIND_SERVICE (the package's "
        + "service has it); for the program, sudo setcap cap_net_bind_service=+ep \"$(command -v zonecast)\"; for all users, "
        + "sudo sysctl net.ipv4.ip_unprivileged_port_start=80. Or listen on a port above 1023, behind a proxy."

    package var description: String {
        switch self {
        case .portTaken(let address):
            let free = ListeningAddress(host: address.host, port: 0)
            return "\(address) is in use by another program. Try: zonecast serve --listen \(free) (any free port)"
        case .notAllowed(let address):
            let isLow = (1...1023).contains(address.port)
            return "Listening on \(address) is not allowed for this user. "
                + (isLow ? Self.lowPortRemedy : "A security policy of this machine forbids it: choose another port.")
        case .noSuchAddress(let address):
            return "\(address.host) is not an address of this machine. Listen on one that is, such as 127.0.0.1."
        case .unknownHost(let address):
            return "\(address.host) cannot be resolved. Listen on an address of this machine, such as 127.0.0.1."
        case .system(let address, let code, let text):
            return "Cannot listen on \(address): \(text) (error \(code)). Choose another address with --listen."
        case .echoBeyondLoopback:
            return "--test-door is allowed on loopback only. Remove --test-door or listen on 127.0.0.1."
        }
    }
}

extension ServerConfiguration {
    /// Whether only this machine can reach the listener.
    package var isLoopback: Bool { Self.isLoopback(host) }

    /// Returns whether a host, without brackets, is a loopback address or `localhost`.
    package static func isLoopback(_ host: String) -> Bool {
        if host.lowercased() == "localhost" { return true }
        return ["127.0.0.0/8", "::1"].contains { AddressRange($0)?.contains(host) == true }
    }
}

extension ListenError {
    /// Listens briefly with these settings; returns the error, or `nil` on success.
    package static func ofTrying(_ configuration: ServerConfiguration) async -> ListenError? {
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .bind(host: configuration.host, port: configuration.port).get()
            try? await channel.close().get()
            return nil
        } catch {
            return ListenError(error, configuration: configuration)
        }
    }
}
