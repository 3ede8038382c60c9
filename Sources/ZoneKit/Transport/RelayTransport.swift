import Foundation
import Records

/// One request to a relay as a value, credentials and all.
package struct RelayRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
    }

    package var method: Method
    /// From the leading slash on, percent-encoded, without the query.
    package var path: String
    /// Percent-encoded, without the question mark; it holds tokens, so it goes into no log.
    package var query: String
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]
    /// Whose content is the body, read while it is sent; then `body` is empty.
    package var file: URL?
    /// Bytes at the file's beginning that are not sent.
    package var fileOffset: Int64 = 0
    /// Whether not knowing if it was carried out makes a difference.
    package var isWrite: Bool
    /// How long to wait for the answer; `nil`: as long as the transport usually does.
    package var timeout: Duration?
    /// The whole address, where the relay has given one; `nil`: `path` below the relay's own.
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

    /// The body where it has to be at hand, as for a relay in this process.
    package var content: [UInt8] {
        file.flatMap { try? Data(contentsOf: $0) }.map { [UInt8]($0.dropFirst(Int(fileOffset))) } ?? body
    }
}

/// A relay's answer.
package struct RelayResponse: Sendable {
    package var status: Int
    /// Name and value as they came; names compare without regard to case.
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

    /// How long the answer asks to wait, in either form that HTTP has for that; `nil` where it does not.
    ///
    /// A moment counts from the answer's own date: the clock here may be another.
    package var wait: Duration? {
        guard let text = header("Retry-After") else { return nil }
        if let seconds = Double(text) { return Duration(waitOf: seconds) }
        guard let moment = Self.date(text), let now = header("Date").flatMap(Self.date) else { return nil }
        return Duration(waitOf: max(moment.timeIntervalSince(now), 0))
    }

    /// A moment as headers have it: RFC 9110, 5.6.7.
    package static func date(_ text: String) -> Date? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss zzz"
        return formatter.date(from: text)
    }
}

/// Why there is no answer.
package enum TransportError: Error, Sendable {
    /// This machine has no network.
    case offline
    /// The relay was never reached, so nothing was carried out.
    case unreachable(String)
    /// The connection ended after the request may have been carried out.
    case answerLost(String)
    /// The task was cancelled.
    case cancelled
}

/// The way to a relay and back: HTTP on a network, or a function call in a test.
///
/// An implementation sends once and never repeats by itself; whoever calls decides about trying again. Cancelling the
/// calling task ends the request at once with `cancelled`. Calls come from many tasks at a time.
package protocol RelayTransport: Sendable {
    func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse
}
