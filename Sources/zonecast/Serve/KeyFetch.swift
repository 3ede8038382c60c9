import Dispatch
import Foundation
import Records
import RelayCore
import RelayGateways
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Fetches the keys of identity token issuers by HTTPS or from files.
///
/// See Reliability.md, "Outgoing requests": HTTPS only, no redirects, 5 seconds, 256 KiB. The operator chooses the
/// host, so hosts in private networks are allowed.
final class KeyFetch: NSObject, KeySource, URLSessionDataDelegate {
    private static let timeout: TimeInterval = 5

    /// One request in flight.
    private struct Exchange {
        var bytes: [UInt8] = []
        var fault: TokenFault?
        let end: @Sendable (Result<[UInt8], TokenFault>) -> Void
    }

    private let exchanges = Mutex<[Int: Exchange]>([:])
    /// Created by the first fetch, since most relays never need one.
    ///
    /// Never invalidated: on Linux, an invalidation that coincides with the end of a request traps inside URLSession.
    private let session = Mutex<URLSession?>(nil)

    func fetch(_ address: String) async throws(TokenFault) -> [UInt8] {
        guard let url = URL(string: address), url.scheme == "https", url.host != nil else {
            throw .keys("\(address) is not an https address.")
        }
        guard PortNumber.isUsable(in: address) else {
            throw .keys("\(address) has a port that is not between 1 and 65535.")
        }
        var request = URLRequest(url: url)
        request.setValue("application/json, application/jwk-set+json", forHTTPHeaderField: "Accept")
        let result = await withCheckedContinuation { continuation in
            let task = currentSession().dataTask(with: request)
            exchanges.withLock {
                $0[task.taskIdentifier] = Exchange { continuation.resume(returning: $0) }
            }
            task.resume()
        }
        return try result.get()
    }

    func read(file: String) async throws(TokenFault) -> [UInt8] {
        guard let handle = FileHandle(forReadingAtPath: file) else { throw .keys("\(file) cannot be read.") }
        defer { try? handle.close() }
        guard let data = try? handle.read(upToCount: KeyLimits.bytes + 1) else {
            throw .keys("\(file) cannot be read.")
        }
        guard data.count <= KeyLimits.bytes else { throw .keys("\(file) is larger than 256 KiB.") }
        return [UInt8](data)
    }

    private func currentSession() -> URLSession {
        session.withLock { session in
            if let session { return session }
            let configuration = URLSessionConfiguration.ephemeral
            configuration.timeoutIntervalForRequest = Self.timeout
            configuration.timeoutIntervalForResource = Self.timeout
            configuration.httpShouldSetCookies = false
            configuration.httpCookieStorage = nil
            configuration.urlCache = nil
            let made = URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
            session = made
            return made
        }
    }

    // MARK: URLSession delegate

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let isTooLong = exchanges.withLock { exchanges in
            guard var exchange = exchanges.removeValue(forKey: dataTask.taskIdentifier) else { return false }
            exchange.bytes.append(contentsOf: data)
            let isTooLong = exchange.bytes.count > KeyLimits.bytes
            if isTooLong { exchange.fault = .keys("The response is larger than 256 KiB.") }
            exchanges[dataTask.taskIdentifier] = exchange
            return isTooLong
        }
        // Not from within the session's delegate call.
        if isTooLong { DispatchQueue.global().async { dataTask.cancel() } }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let exchange = exchanges.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        exchange.end(Self.outcome(exchange, task.response as? HTTPURLResponse, error))
    }

    private static func outcome(
        _ exchange: Exchange,
        _ response: HTTPURLResponse?,
        _ error: (any Error)?
    ) -> Result<[UInt8], TokenFault> {
        if let fault = exchange.fault { return .failure(fault) }
        if (error as? URLError)?.code == .timedOut {
            return .failure(.keys("The address did not answer within five seconds."))
        }
        if let error {
            // Without a localized text, the description contains only the error domain and number.
            let words = error.localizedDescription
            return .failure(.keys(words.contains("NSURLErrorDomain") ? "The address cannot be reached." : words))
        }
        guard let response, response.statusCode == 200 else {
            return .failure(.keys("The address answers \(response?.statusCode ?? 0), not 200."))
        }
        return .success(exchange.bytes)
    }
}
