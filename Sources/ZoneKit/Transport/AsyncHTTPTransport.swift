#if canImport(FoundationNetworking)
    import AsyncHTTPClient
    import Foundation
    import NIOCore
    import NIOHTTP1
    import NIOHTTPCompression
    import NIOPosix
    import Records
    import Synchronization

    /// An HTTP transport that uses AsyncHTTPClient and keeps connections open.
    ///
    /// Cancelling a request closes its connection at once.
    struct AsyncHTTPTransport: RelayTransport {
        private let base: URL
        private let timeout: TimeInterval
        private let isLocal: Bool

        /// - Parameters:
        ///   - base: The relay's base URL; a path in it is prepended to every request's path.
        ///   - timeout: The maximum time without any data from the relay, in seconds.
        init(base: URL, timeout: TimeInterval) {
            self.base = base
            self.timeout = timeout
            isLocal = NetworkTransport.isLocal(base)
        }

        func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
            guard let url = NetworkTransport.address(of: request, below: base) else {
                throw .unreachable("The relay's address is not a valid URL.")
            }
            guard NetworkTransport.isPortUsable(in: url) else {
                throw .unreachable("The port in the relay's address is not between 1 and 65535.")
            }
            let client = try HTTPClients.client(timeout: request.timeout?.inSeconds ?? timeout, to: url)
            do {
                return try await exchange(message(request, to: url), by: client)
            } catch let error as HTTPClientError where error == .remoteConnectionClosed && !request.isWrite {
                // The server may close an idle connection just as it is reused. A read is safe to repeat.
                do {
                    return try await exchange(message(request, to: url), by: client)
                } catch {
                    throw TransportError(clientError: error)
                }
            } catch {
                throw TransportError(clientError: error)
            }
        }

        private func message(_ request: RelayRequest, to url: URL) throws -> HTTPClientRequest {
            var message = HTTPClientRequest(url: url.absoluteString)
            message.method = HTTPMethod(rawValue: request.method.rawValue)
            for (name, value) in request.headers { message.headers.add(name: name, value: value) }
            // Between two processes on one machine, compression costs more than it saves.
            message.headers.replaceOrAdd(name: "Accept-Encoding", value: isLocal ? "identity" : "gzip")
            if let file = request.file {
                let size = try FileManager.default.attributesOfItem(atPath: file.path)[.size] as? NSNumber
                let pieces = FileChunks(file: file, offset: request.fileOffset)
                message.body = .stream(pieces, length: .known(max((size?.int64Value ?? 0) - request.fileOffset, 0)))
            } else if request.method == .post {
                message.body = .bytes(ByteBuffer(bytes: request.body))
            }
            return message
        }

        /// Sends a message and follows redirects.
        ///
        /// Returns the final response.
        private func answer(to message: HTTPClientRequest, by client: HTTPClient) async throws -> HTTPClientResponse {
            var message = message
            for _ in 0...Self.maxRedirects {
                let response = try await client.execute(message, deadline: .distantFuture)
                guard let next = try message.redirected(by: response) else { return response }
                message = next
            }
            throw HTTPClientError.redirectLimitReached
        }

        private static let maxRedirects = 5

        private func exchange(_ message: HTTPClientRequest, by client: HTTPClient) async throws -> RelayResponse {
            let response = try await answer(to: message, by: client)
            var body: [UInt8] = []
            let length = response.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
            body.reserveCapacity(min(max(length, 0), 1 << 26))
            for try await chunk in response.body { body.append(contentsOf: chunk.readableBytesView) }
            try Task.checkCancellation()
            return RelayResponse(
                status: Int(response.status.code),
                headers: response.headers.map { (name: $0.name, value: $0.value) },
                body: body
            )
        }
    }

    /// The HTTP clients of this process, one per timeout and proxy, because a client's settings include both.
    ///
    /// Clients live as long as the process and keep idle connections open for a minute.
    private enum HTTPClients {
        private struct ClientKey: Hashable {
            var milliseconds: Int64
            var proxy: ProxyAddress?
        }

        /// The proxy variables, read once when the first request is sent.
        private static let variables = ProcessInfo.processInfo.environment.filter {
            $0.key.lowercased().hasSuffix("_proxy")
        }
        private static let clients = Mutex<[ClientKey: HTTPClient]>([:])
        /// The maximum number of clients.
        ///
        /// Beyond it, a request uses a client with the same proxy and another timeout.
        private static let maxClients = 32

        static func client(timeout: TimeInterval, to url: URL) throws(TransportError) -> HTTPClient {
            let proxy = variables.isEmpty ? nil : ProxyAddress(for: url, environment: variables)
            guard proxy.map({ PortNumber.range.contains($0.port) }) ?? true else {
                throw .unreachable("The port in the proxy's address is not between 1 and 65535.")
            }
            let clientKey = ClientKey(milliseconds: Int64(min(max(timeout, 0.001), 1e9) * 1000), proxy: proxy)
            return clients.withLock { clients in
                if let known = clients[clientKey] { return known }
                if clients.count >= maxClients, let near = clients.first(where: { $0.key.proxy == proxy }) {
                    return near.value
                }
                let made = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration(clientKey))
                clients[clientKey] = made
                return made
            }
        }

        private static func configuration(_ clientKey: ClientKey) -> HTTPClient.Configuration {
            let wait = TimeAmount.milliseconds(clientKey.milliseconds)
            var configuration = HTTPClient.Configuration(
                redirectConfiguration: .disallow,
                timeout: .init(connect: min(wait, .seconds(10)), read: wait, write: wait),
                proxy: clientKey.proxy.map { .server(host: $0.host, port: $0.port) },
                decompression: .enabled(limit: .size(1 << 30))
            )
            configuration.httpVersion = .http1Only
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 16
            // The caller decides about retries; the sync engine has its own back-off.
            configuration.connectionPool.retryConnectionEstablishment = false
            return configuration
        }
    }

    /// A file's content, read in chunks while it is sent.
    private struct FileChunks: AsyncSequence, Sendable {
        let file: URL
        let offset: Int64

        struct AsyncIterator: AsyncIteratorProtocol {
            let file: URL
            let offset: Int64
            private var handle: FileHandle?

            init(file: URL, offset: Int64) {
                self.file = file
                self.offset = offset
            }

            mutating func next() async throws -> ByteBuffer? {
                let handle = try opened()
                guard let chunk = try handle.read(upToCount: 1 << 18), !chunk.isEmpty else { return nil }
                return ByteBuffer(bytes: chunk)
            }

            private mutating func opened() throws -> FileHandle {
                if let handle { return handle }
                let handle = try FileHandle(forReadingFrom: file)
                if offset > 0 { try handle.seek(toOffset: UInt64(offset)) }
                self.handle = handle
                return handle
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(file: file, offset: offset) }
    }

    extension TransportError {
        /// Classifies an error of the HTTP client.
        ///
        /// If the connection was never established, the relay cannot have executed the request. After that the outcome
        /// is unknown.
        fileprivate init(clientError error: any Error) {
            switch error {
            case is CancellationError: self = .cancelled
            case let error as TransportError: self = error
            case let error as HTTPClientError where error == .cancelled: self = .cancelled
            case let error as NIOConnectionError: self.init(connecting: error)
            case let error as HTTPClientError where Self.beforeTheRequest.contains(error):
                self = .unreachable(error.shortDescription + ".")
            case let error as HTTPClientError: self = .answerLost(error.shortDescription + ".")
            case let error as IOError where Self.noNetwork.contains(error.errnoCode): self = .offline
            case let error as IOError where error.errnoCode == ECONNREFUSED: self = .unreachable("\(error)")
            default:
                // Untrusted certificates and host names that do not match the certificate.
                let typeName = String(reflecting: Swift.type(of: error))
                self = typeName.hasPrefix("NIOSSL") ? .unreachable(Self.words(ofTLS: error)) : .answerLost("\(error)")
            }
        }

        /// Explains a failed handshake.
        ///
        /// The library's own text lists source lines of BoringSSL; only the last word of each is a reason.
        private static func words(ofTLS error: any Error) -> String {
            let reasons = "\(error)".components(separatedBy: "OPENSSL_internal:").dropFirst().map { part in
                part.prefix { $0.isUppercase || $0 == "_" }.lowercased().replacing("_", with: " ")
            }
            let reason = reasons.first ?? "the relay's certificate is not for this name"
            return "TLS failed: \(reason). Check the relay's certificate and its address."
        }

        private init(connecting error: NIOConnectionError) {
            let causes = error.connectionErrors.compactMap { $0.error as? IOError }
            let isOffline = !causes.isEmpty && causes.allSatisfy { Self.noNetwork.contains($0.errnoCode) }
            self = isOffline ? .offline : .unreachable("No connection to \(error.host):\(error.port).")
        }

        private static let noNetwork: Set<CInt> = [ENETUNREACH, ENETDOWN]
        private static let beforeTheRequest: [HTTPClientError] = [
            .connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout, .httpProxyHandshakeTimeout,
            .proxyAuthenticationRequired, .invalidProxyResponse, .invalidURL, .emptyHost, .emptyScheme,
        ]
    }

    extension HTTPClientRequest {
        /// Returns the request to send after a redirect, or `nil` if the response is not a redirect.
        ///
        /// Throws `TransportError.unreachable` if the port is not valid, because the library would trap on it.
        func redirected(by response: HTTPClientResponse) throws(TransportError) -> HTTPClientRequest? {
            guard Self.redirects.contains(response.status.code), let here = URL(string: url),
                let place = response.headers.first(name: "Location"),
                let there = URL(string: place, relativeTo: here)?.absoluteURL, ["http", "https"].contains(there.scheme)
            else { return nil }
            guard NetworkTransport.isPortUsable(in: there) else {
                throw .unreachable("The relay redirects to a URL whose port is not between 1 and 65535.")
            }
            var next = self
            next.url = there.absoluteString
            if response.status == .seeOther || (method == .POST && [301, 302].contains(response.status.code)) {
                next.method = .GET
                next.body = nil
                for name in ["Content-Length", "Content-Type"] { next.headers.remove(name: name) }
            }
            if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port) {
                for name in Self.secrets { next.headers.remove(name: name) }
            }
            return next
        }

        private static let redirects: Set<UInt> = [301, 302, 303, 307, 308]
        /// Headers that must not be sent to another server.
        private static let secrets = ["Authorization", "Cookie", "Origin", "Proxy-Authorization"]
    }
#endif
