package import Foundation
import Records
import SyncCore

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

/// Creates the transport to a relay: URLSession on Apple platforms, AsyncHTTPClient elsewhere.
///
/// On Linux, URLSession cannot cancel a request safely: it traps if the cancellation coincides with the end of the
/// request. A request without a waiting caller would continue and hold its connection.
package enum NetworkTransport {
    /// Returns a transport to one relay.
    ///
    /// - Parameters:
    ///   - base: The relay's base URL; a path in it is prepended to every request's path.
    ///   - timeout: The maximum time without any data from the relay, in seconds.
    /// - Returns: The transport; it connects when the first request is sent.
    package static func to(_ base: URL, timeout: TimeInterval = 60) -> any RelayTransport {
        #if canImport(FoundationNetworking)
            AsyncHTTPTransport(base: base, timeout: timeout)
        #else
            URLSessionTransport(base: base, timeout: timeout)
        #endif
    }

    /// Returns whether a URL refers to this machine.
    static func isLocal(_ base: URL) -> Bool { ["127.0.0.1", "localhost", "::1", "[::1]"].contains(base.host) }

    /// Returns whether a URL names no port or a valid one.
    ///
    /// Must be called right before the HTTP library, which traps on invalid ports; URLs come from programs and from
    /// relays.
    static func isPortUsable(in url: URL) -> Bool {
        PortNumber.isUsable(in: url.absoluteString) && url.port.map(PortNumber.range.contains) ?? true
    }

    /// Returns the full URL of a request, or `nil` if it is not valid.
    static func address(of request: RelayRequest, below base: URL) -> URL? {
        if let address = request.address { return address }
        var text = base.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        return URL(string: text + request.path + (request.query.isEmpty ? "" : "?" + request.query))
    }
}

/// The proxy for a URL, from the environment variables that most programs on Linux use.
///
/// The variables are `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, in lower or upper case.
package struct ProxyAddress: Hashable, Sendable {
    package var host: String
    /// 0 if the port in the variable is not valid.
    package var port: Int

    /// Returns `nil` if the request needs no proxy; requests to this machine never use one.
    package init?(for url: URL, environment: [String: String]) {
        func named(_ name: String) -> String? {
            (environment[name] ?? environment[name.uppercased()]).flatMap { $0.isEmpty ? nil : $0 }
        }
        guard let host = url.host, !NetworkTransport.isLocal(url),
            let text = named((url.scheme ?? "") + "_proxy") ?? named("all_proxy"),
            !Self.isExempt(host, by: named("no_proxy") ?? ""),
            let proxy = URL(string: text.contains("://") ? text : "http://" + text), let name = proxy.host
        else { return nil }
        self.host = name
        port = PortNumber.isUsable(in: proxy.absoluteString) ? proxy.port ?? 80 : 0
    }

    /// Returns whether a comma-separated list of hosts and domains contains this host.
    private static func isExempt(_ host: String, by list: String) -> Bool {
        list.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces).lowercased() }.contains { entry in
            let domain = entry.hasPrefix(".") ? String(entry.dropFirst()) : entry
            return entry == "*" || host.lowercased() == domain || host.lowercased().hasSuffix("." + domain)
        }
    }
}

/// The end of the time that an app allows for an operation, measured by the clock of the operation's container.
struct Deadline: Sendable, Hashable {
    let moment: Instant
    private let time: Scheduler

    /// Creates a deadline that ends after `wait`, counted from now.
    init(in wait: Duration, by time: Scheduler) {
        moment = time.now() + wait
        self.time = time
    }

    var isOver: Bool { time.now() >= moment }

    /// Returns when the deadline has passed.
    ///
    /// Throws only if the calling task is cancelled.
    func wait() async throws { try await time.sleep(moment) }

    /// Compares the moments only; the deadlines of one operation share one clock.
    static func == (a: Deadline, b: Deadline) -> Bool { a.moment == b.moment }

    func hash(into hasher: inout Hasher) { hasher.combine(moment) }
}

extension RelayTransport {
    /// Sends a request and stops waiting when the deadline of its operation has passed.
    ///
    /// The deadline applies in addition to the transport's timeout, which covers one response and restarts with each
    /// chunk of it.
    func send(_ request: RelayRequest, until deadline: Deadline?) async throws(TransportError) -> RelayResponse {
        guard let deadline else { return try await send(request) }
        let reason = "the operation's timeout, timeoutIntervalForResource, has expired."
        guard !deadline.isOver else { throw .unreachable(reason) }
        let first = await withTaskGroup(of: Result<RelayResponse, TransportError>.self) { group in
            group.addTask {
                do throws(TransportError) {
                    return .success(try await send(request))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                let isOver = (try? await deadline.wait()) != nil
                return .failure(isOver ? .answerLost(reason) : .cancelled)
            }
            defer { group.cancelAll() }
            return await group.next() ?? .failure(.cancelled)
        }
        return try first.get()
    }
}
