package import AsyncHTTPClient
import Foundation
package import NIOCore
import NIOPosix

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
