#if !canImport(FoundationNetworking)
    import Foundation
    import Records
    import Synchronization

    /// An HTTP transport that uses URLSession, keeps connections open and uses neither cookies nor a cache.
    final class URLSessionTransport: RelayTransport {
        private let base: URL
        private let isLocal: Bool
        private let session: URLSession

        /// - Parameters:
        ///   - base: The relay's base URL; a path in it is prepended to every request's path.
        ///   - timeout: The maximum wait for a response, in seconds.
        init(base: URL, timeout: TimeInterval) {
            self.base = base
            isLocal = NetworkTransport.isLocal(base)
            let configuration = URLSessionConfiguration.ephemeral
            configuration.timeoutIntervalForRequest = timeout
            configuration.httpShouldSetCookies = false
            configuration.httpCookieStorage = nil
            configuration.urlCache = nil
            configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
            configuration.httpMaximumConnectionsPerHost = 16
            session = URLSession(configuration: configuration)
        }

        deinit { session.finishTasksAndInvalidate() }

        func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
            guard let url = NetworkTransport.address(of: request, below: base) else {
                throw .unreachable("The relay's address is not a valid URL.")
            }
            var urlRequest = URLRequest(url: url)
            urlRequest.httpMethod = request.method.rawValue
            for (name, value) in request.headers { urlRequest.setValue(value, forHTTPHeaderField: name) }
            // Between two processes on one machine, compression costs more than it saves.
            if isLocal { urlRequest.setValue("identity", forHTTPHeaderField: "Accept-Encoding") }
            if let timeout = request.timeout { urlRequest.timeoutInterval = timeout.inSeconds }
            if request.method == .post, request.file == nil { urlRequest.httpBody = Data(request.body) }
            let (data, response): (Data, URLResponse)
            do {
                if let file = request.file, request.fileOffset > 0 {
                    // An upload task sends the whole file; a stream can start in the middle.
                    let rest = InputStream(url: file)
                    rest?.setProperty(NSNumber(value: request.fileOffset), forKey: .fileCurrentOffsetKey)
                    urlRequest.httpBodyStream = rest
                    if let size = try file.resourceValues(forKeys: [.fileSizeKey]).fileSize {
                        let length = max(Int64(size) - request.fileOffset, 0)
                        urlRequest.setValue(String(length), forHTTPHeaderField: "Content-Length")
                    }
                    (data, response) = try await exchange(urlRequest, sending: nil)
                } else {
                    (data, response) = try await exchange(urlRequest, sending: request.file)
                }
            } catch {
                throw Self.translate(error)
            }
            guard let http = response as? HTTPURLResponse else { throw .answerLost("The response is not HTTP.") }
            return RelayResponse(status: http.statusCode, headers: Self.headers(of: http), body: [UInt8](data))
        }

        /// Sends a request and reads the response.
        ///
        /// In contrast to the session's own async method, it returns at once when the task is cancelled, and it reads a
        /// file while sending it.
        private func exchange(_ request: URLRequest, sending file: URL?) async throws -> (Data, URLResponse) {
            let exchange = Exchange()
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    guard exchange.begin(continuation) else { return }
                    let heard = { @Sendable (data: Data?, response: URLResponse?, error: (any Error)?) in
                        if let response, error == nil {
                            exchange.end(.success((data ?? Data(), response)))
                        } else {
                            exchange.end(.failure(error ?? URLError(.badServerResponse)))
                        }
                    }
                    let task: URLSessionDataTask =
                        if let file {
                            session.uploadTask(with: request, fromFile: file, completionHandler: heard)
                        } else {
                            session.dataTask(with: request, completionHandler: heard)
                        }
                    exchange.attach(task)
                    task.resume()
                }
            } onCancel: {
                exchange.cancel()
            }
        }

        private static func headers(of response: HTTPURLResponse) -> [(name: String, value: String)] {
            response.allHeaderFields.compactMap { name, value in
                guard let name = name as? String, let value = value as? String else { return nil }
                return (name, value)
            }
        }

        /// Classifies an error of the session.
        ///
        /// If the connection was never established, the relay cannot have executed the request. After that the outcome
        /// is unknown.
        private static func translate(_ error: any Error) -> TransportError {
            if error is CancellationError { return .cancelled }
            guard let failure = error as? URLError else { return .answerLost("\(error)") }
            switch failure.code {
            case .cancelled: return .cancelled
            case .notConnectedToInternet, .dataNotAllowed, .internationalRoamingOff: return .offline
            case .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .unsupportedURL, .badURL,
                .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
                .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid,
                .appTransportSecurityRequiresSecureConnection:
                return .unreachable(failure.localizedDescription)
            default: return .answerLost(failure.localizedDescription)
            }
        }
    }

    /// One request and the continuation that waits for it.
    ///
    /// Resumes the continuation once, at the response or at the cancellation, whichever comes first.
    private final class Exchange: Sendable {
        private struct State {
            var waiter: CheckedContinuation<(Data, URLResponse), any Error>?
            var task: URLSessionDataTask?
            var isCancelled = false
        }

        private let state = Mutex(State())

        /// Stores the continuation.
        ///
        /// Returns `false` if the request was already cancelled; the continuation has then been resumed.
        func begin(_ waiter: CheckedContinuation<(Data, URLResponse), any Error>) -> Bool {
            let isCancelled = state.withLock { state in
                if !state.isCancelled { state.waiter = waiter }
                return state.isCancelled
            }
            if isCancelled { waiter.resume(throwing: CancellationError()) }
            return !isCancelled
        }

        func attach(_ task: URLSessionDataTask) {
            let isCancelled = state.withLock { state in
                if !state.isCancelled { state.task = task }
                return state.isCancelled
            }
            if isCancelled { task.cancel() }
        }

        func end(_ result: Result<(Data, URLResponse), any Error>) {
            let waiter = state.withLock { state in
                defer { (state.waiter, state.task) = (nil, nil) }
                return state.waiter
            }
            waiter?.resume(with: result)
        }

        func cancel() {
            let task = state.withLock { state in
                state.isCancelled = true
                return state.task
            }
            task?.cancel()
            end(.failure(CancellationError()))
        }
    }
#endif
