package import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOPosix
import Records

extension HTTPClient.Configuration {
    /// For requests to services that an operator has named: follows no redirects, and tries no connection a second time.
    ///
    /// Whoever asks has times of its own for that, and the operator hears at once that nobody listens.
    package static func outgoing(connect: TimeAmount, read: TimeAmount) -> Self {
        var configuration = Self(redirectConfiguration: .disallow, timeout: .init(connect: connect, read: read))
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }
}

extension HTTPClient {
    /// Sends a request to an address that somebody has named.
    ///
    /// Throws `OutgoingFault.port` for a port that there is not: the library traps on one behind an IP address.
    func send(_ request: HTTPClientRequest, timeout: TimeAmount) async throws -> HTTPClientResponse {
        guard OutgoingFault.isPortUsable(in: request.url) else { throw OutgoingFault.port }
        return try await execute(request, timeout: timeout)
    }
}

/// What is refused before anything is sent.
enum OutgoingFault: Error, CustomStringConvertible {
    case port

    var description: String { "the port of its address is not between 1 and 65535" }

    /// By the text, and by what the library below makes of it.
    static func isPortUsable(in address: String) -> Bool {
        PortNumber.isUsable(in: address) && (URL(string: address)?.port.map(PortNumber.range.contains) ?? true)
    }
}

/// Why a service cannot be reached, in words for its operator.
func reason(for error: any Error) -> String {
    switch error {
    case let error as IOError: String(cString: strerror(error.errnoCode))
    case let error as NIOConnectionError:
        error.connectionErrors.first.map { reason(for: $0.error) } ?? "the name \(error.host) is not known"
    case let error as HTTPClientError: error.shortDescription
    default: "\(error)"
    }
}
