import Dispatch
package import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// HTTP by URLSession, with connections kept and neither cookies nor cache.
package final class URLSessionTransport: RelayTransport {
    private let base: String
    private let session: URLSession

    /// - Parameters:
    ///   - base: The relay's address; a path in it is put before every request's own.
    ///   - timeout: How long to wait for an answer, in seconds.
    package init(base: URL, timeout: TimeInterval = 60) {
        var text = base.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        self.base = text
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = timeout
        configuration.httpShouldSetCookies = false
        configuration.httpCookieStorage = nil
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = 6
        session = URLSession(configuration: configuration)
    }

    // Never invalidated: on Linux an invalidation that meets the end of a request traps inside URLSession.

    package func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        let address = base + request.path + (request.query.isEmpty ? "" : "?" + request.query)
        guard let url = URL(string: address) else { throw .unreachable("The relay's address makes no valid URL.") }
        var urlRequest = URLRequest(url: url)
        urlRequest.httpMethod = request.method.rawValue
        for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
        if request.method == .post { urlRequest.httpBody = Data(request.body) }
        let (data, response): (Data, URLResponse)
        do {
            (data, response) = try await exchange(urlRequest)
        } catch {
            throw Self.translate(error)
        }
        guard let http = response as? HTTPURLResponse else { throw .answerLost("The answer is not HTTP.") }
        return RelayResponse(status: http.statusCode, headers: Self.headers(of: http), body: [UInt8](data))
    }

    /// The session's own async call, but safe to cancel.
    ///
    /// On Linux that one waits for the session's queue inside the cancellation, while the queue waits for the task that is
    /// being cancelled: both for ever. Here the cancellation only leaves word.
    private func exchange(_ request: URLRequest) async throws -> (Data, URLResponse) {
        let held = Mutex<URLSessionDataTask?>(nil)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let task = session.dataTask(with: request) { data, response, error in
                    if let response, error == nil {
                        continuation.resume(returning: (data ?? Data(), response))
                    } else {
                        continuation.resume(throwing: error ?? URLError(.badServerResponse))
                    }
                }
                held.withLock { $0 = task }
                task.resume()
                if Task.isCancelled { DispatchQueue.global().async { task.cancel() } }
            }
        } onCancel: {
            let task = held.withLock { $0 }
            DispatchQueue.global().async { task?.cancel() }
        }
    }

    private static func headers(of response: HTTPURLResponse) -> [(name: String, value: String)] {
        response.allHeaderFields.compactMap { name, value in
            guard let name = name as? String, let value = value as? String else { return nil }
            return (name, value)
        }
    }

    /// What failed before the connection stood cannot have been carried out; about all else nobody knows.
    private static func translate(_ error: any Error) -> TransportError {
        if error is CancellationError { return .cancelled }
        guard let failure = error as? URLError else { return .answerLost("\(error)") }
        switch failure.code {
        case .cancelled: return .cancelled
        case .notConnectedToInternet: return .offline
        case .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .unsupportedURL, .badURL,
            .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid,
            .appTransportSecurityRequiresSecureConnection:
            return .unreachable(failure.localizedDescription)
        default: return .answerLost(failure.localizedDescription)
        }
    }
}
