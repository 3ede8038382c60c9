package import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOPosix
import Records

extension HTTPClient.Configuration {
    /// The configuration for services that an operator has named: no redirects, and no connection retries.
    ///
    /// Callers have their own retry intervals, and the operator learns immediately that the service cannot be reached.
    package static func outgoing(connect: TimeAmount, read: TimeAmount) -> Self {
        var configuration = Self(redirectConfiguration: .disallow, timeout: .init(connect: connect, read: read))
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }
}

extension HTTPClient {
    /// Sends a request to a configured address.
    ///
    /// Throws `OutgoingFault.port` for an invalid port: the library traps on one after an IP address.
    func send(_ request: HTTPClientRequest, timeout: TimeAmount) async throws -> HTTPClientResponse {
        guard OutgoingFault.isPortUsable(in: request.url) else { throw OutgoingFault.port }
        return try await execute(request, timeout: timeout)
    }
}

/// Errors that occur before anything is sent.
enum OutgoingFault: Error, CustomStringConvertible {
    case port

    var description: String { "the port of its address is not between 1 and 65535" }

    /// Checks both the text and its interpretation by the library.
    static func isPortUsable(in address: String) -> Bool {
        PortNumber.isUsable(in: address) && (URL(string: address)?.port.map(PortNumber.range.contains) ?? true)
    }
}

/// Returns why a service cannot be reached, for the operator.
func reason(for error: any Error) -> String {
    switch error {
    case let error as IOError: String(cString: strerror(error.errnoCode))
    case let error as NIOConnectionError:
        error.connectionErrors.first.map { reason(for: $0.error) } ?? "the name \(error.host) is not known"
    case let error as HTTPClientError: error.shortDescription
    default: "\(error)"
    }
}
