import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Why the relay could not begin to listen.
///
/// The description is for the person who started it. See CONTRIBUTING.md, "Commands and error texts".
package enum ListenError: Error, Hashable, Sendable, CustomStringConvertible {
    case portTaken(ListeningAddress)
    case notAllowed(ListeningAddress)
    case noSuchAddress(ListeningAddress)
    case unknownHost(ListeningAddress)
    /// The system's own number and words.
    case system(ListeningAddress, code: Int32, text: String)
    case testDoorBeyondLoopback

    /// `nil` for an error that says more by itself.
    init?(_ error: any Error, configuration: ServerConfiguration) {
        let address = ListeningAddress(host: configuration.host, port: configuration.port)
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

    package var description: String {
        switch self {
        case .portTaken(let address):
            let free = ListeningAddress(host: address.host, port: 0)
            return "\(address) is in use by another program. Try: zonecast serve --listen \(free) (any free port)"
        case .notAllowed(let address):
            return "Listening on \(address) is not allowed for this user. Choose a port above 1023."
        case .noSuchAddress(let address):
            return "\(address.host) is not an address of this machine. Listen on one that is, such as 127.0.0.1."
        case .unknownHost(let address):
            return "\(address.host) is no name that this machine knows. Listen on an address of it, such as 127.0.0.1."
        case .system(let address, let code, let text):
            return "Cannot listen on \(address): \(text) (error \(code)). Choose another address with --listen."
        case .testDoorBeyondLoopback:
            return "--test-door is allowed on loopback only. Remove --test-door or listen on 127.0.0.1."
        }
    }
}

extension ServerConfiguration {
    /// Whether only this machine can reach the listener.
    package var isLoopback: Bool { Self.isLoopback(host) }

    /// Whether a host, without brackets, is this machine by its own name for itself.
    package static func isLoopback(_ host: String) -> Bool {
        if host.lowercased() == "localhost" { return true }
        return ["127.0.0.0/8", "::1"].contains { AddressRange($0)?.contains(host) == true }
    }
}
