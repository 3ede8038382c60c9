package import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle
import Synchronization

/// The listener on port 80 of a relay that obtains its certificate itself.
///
/// Answers the certificate authority's challenges (RFC 8555, section 8.3), and redirects all other requests to https.
/// Closes each connection after its response, and after 10 seconds in any case.
package struct ChallengeServer: Service {
    private let address: ListeningAddress
    private let answers: ChallengeAnswers
    /// `https://` and the host, with a port if it is not 443.
    private let origin: String
    private let logger: Logger
    private let onListening: @Sendable (ListeningAddress) -> Void

    private static let connections = 1_000

    /// Creates a server that starts listening in `run()`.
    package init(
        address: ListeningAddress,
        answers: ChallengeAnswers,
        redirectingTo origin: String,
        logger: Logger,
        onListening: @escaping @Sendable (ListeningAddress) -> Void = { _ in }
    ) {
        self.address = address
        self.answers = answers
        self.origin = origin
        self.logger = logger
        self.onListening = onListening
    }

    /// Serves until the service group shuts down gracefully or the task is cancelled.
    ///
    /// Throws `ListenError` if the address is not available.
    package func run() async throws {
        let open = ConnectionCount()
        let channel: any Channel
        do {
            channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .serverChannelInitializer { [logger] channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(AcceptPause(logger))
                    }
                }
                .childChannelInitializer { [answers, origin] channel in
                    channel.eventLoop.makeCompletedFuture {
                        guard open.begin(below: Self.connections) else { throw ChannelError.eof }
                        channel.closeFuture.whenComplete { _ in open.end() }
                        let pipeline = channel.pipeline.syncOperations
                        try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
                        try pipeline.addHandler(ChallengeHandler(answers, origin: origin))
                    }
                }
                .bind(host: address.host, port: address.port).get()
        } catch {
            throw ListenError(error, address: address) ?? error
        }
        onListening(ListeningAddress(host: address.host, port: channel.localAddress?.port ?? 0))
        try? await gracefulShutdown()
        try? await channel.close()
    }

    private final class ConnectionCount: Sendable {
        private let count = Atomic(0)

        func begin(below limit: Int) -> Bool {
            guard count.add(1, ordering: .relaxed).newValue <= limit else {
                end()
                return false
            }
            return true
        }

        func end() { count.subtract(1, ordering: .relaxed) }
    }
}

/// The challenges that are answered at present, by token.
package final class ChallengeAnswers: Sendable {
    private let contents = Mutex<[String: String]>([:])

    package init() {}

    package func publish(_ content: String, token: String) { contents.withLock { $0[token] = content } }

    package func removeAll() { contents.withLock { $0 = [:] } }

    func content(token: String) -> String? { contents.withLock { $0[token] } }
}

/// One connection to the challenge server.
private final class ChallengeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let path = "/.well-known/acme-challenge/"

    private let answers: ChallengeAnswers
    private let origin: String
    private var timeout: Scheduled<Void>?
    private var isAnswered = false

    init(_ answers: ChallengeAnswers, origin: String) {
        self.answers = answers
        self.origin = origin
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        timeout = context.eventLoop.scheduleTask(in: .seconds(10)) { channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { timeout?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A request's body is ignored.
        guard case .head(let head) = unwrapInboundIn(data), !isAnswered else { return }
        isAnswered = true
        let path = head.uri.prefix { $0 != "?" }
        if path.hasPrefix(Self.path) {
            let content = answers.content(token: String(path.dropFirst(Self.path.count)))
            respond(content == nil ? .notFound : .ok, content ?? "There is no such challenge.\n", to: head, context)
        } else if head.uri.hasPrefix("/"), !head.uri.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F }) {
            let isSafe = head.method == .GET || head.method == .HEAD
            respond(
                isSafe ? .movedPermanently : .permanentRedirect,
                "This relay is at \(origin)\n",
                to: head,
                location: origin + head.uri,
                context
            )
        } else {
            respond(.badRequest, "This is not a path.\n", to: head, context)
        }
    }

    private func respond(
        _ status: HTTPResponseStatus,
        _ content: String,
        to request: HTTPRequestHead,
        location: String? = nil,
        _ context: ChannelHandlerContext
    ) {
        var head = HTTPResponseHead(version: .http1_1, status: status)
        head.headers.add(name: "content-type", value: "text/plain; charset=utf-8")
        head.headers.add(name: "content-length", value: "\(content.utf8.count)")
        head.headers.add(name: "connection", value: "close")
        if let location { head.headers.add(name: "location", value: location) }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if request.method != .HEAD {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: content)))), promise: nil)
        }
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
