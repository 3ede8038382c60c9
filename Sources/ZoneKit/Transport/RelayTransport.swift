import Foundation
import Records

/// One request to a relay as a value, including credentials.
package struct RelayRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
    }

    package var method: Method
    /// Percent-encoded, with the leading slash, without the query.
    package var path: String
    /// Percent-encoded, without the question mark.
    ///
    /// Contains tokens and must not be logged.
    package var query: String
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]
    /// A file with the body, read while it is sent; `body` is then empty.
    package var file: URL?
    /// The number of bytes at the beginning of the file that are not sent.
    package var fileOffset: Int64 = 0
    /// Whether the request changes data, so that an unknown outcome must be reported.
    package var isWrite: Bool
    /// The maximum wait for the response.
    ///
    /// `nil`: the transport's default.
    package var timeout: Duration?
    /// The full URL if the relay provided one.
    ///
    /// `nil`: `path` below the relay's base URL.
    package var address: URL?

    package init(
        method: Method,
        path: String,
        query: String = "",
        headers: [(name: String, value: String)] = [],
        body: [UInt8] = [],
        isWrite: Bool = false,
        timeout: Duration? = nil
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.isWrite = isWrite
        self.timeout = timeout
    }

    /// The complete body in memory, for a relay in this process.
    package var content: [UInt8] {
        file.flatMap { try? Data(contentsOf: $0) }.map { [UInt8]($0.dropFirst(Int(fileOffset))) } ?? body
    }
}

/// A relay's response.
package struct RelayResponse: Sendable {
    package var status: Int
    /// Names and values as received.
    ///
    /// Names are case-insensitive.
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]

    package init(status: Int, headers: [(name: String, value: String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    package func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// The delay that `Retry-After` requests, in either form of the header, or `nil` without one.
    ///
    /// An HTTP date is compared with the response's own `Date`, because the local clock may differ.
    package var wait: Duration? {
        guard let text = header("Retry-After") else { return nil }
        if let seconds = Double(text) { return Duration(waitOf: seconds) }
        guard let moment = Self.date(text), let now = header("Date").flatMap(Self.date) else { return nil }
        return Duration(waitOf: max(moment.timeIntervalSince(now), 0))
    }

    /// Parses an HTTP date (RFC 9110, section 5.6.7).
    package static func date(_ text: String) -> Date? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return formatter.date(from: text)
    }
}

/// The reason why there is no response.
package enum TransportError: Error, Sendable {
    /// This machine has no network.
    case offline
    /// The relay was never reached, so it executed nothing.
    case unreachable(String)
    /// The connection ended, and the relay may have executed the request.
    case answerLost(String)
    /// The task was cancelled.
    case cancelled
}

/// Sends requests to a relay: over HTTP, or as a function call in tests.
///
/// An implementation sends each request once; the caller decides about retries. Cancelling the calling task ends the
/// request at once with `cancelled`. `send` may be called concurrently from many tasks.
package protocol RelayTransport: Sendable {
    func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse
}
