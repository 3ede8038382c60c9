import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// A push service on this machine that, like Apple's, speaks only HTTP/2 over TLS.
final class PushServicePeer: Sendable {
    struct Request: Sendable {
        var path = ""
        var headers: [String: String] = [:]
        var body: [UInt8] = []
    }

    struct Answer: Sendable {
        var status = 200
        var headers: [(String, String)] = []
        var body = ""
    }

    private struct State {
        var requests: [Request] = []
        var answers: [Answer] = []
    }

    private let listener: any Channel
    private let state: SharedState

    /// The state shared by the handlers of all streams.
    fileprivate final class SharedState: Sendable {
        private let state = Mutex(State())

        /// Records a request and returns the next answer.
        func answer(_ request: Request) -> Answer {
            state.withLock { state in
                state.requests.append(request)
                return state.answers.isEmpty ? Answer() : state.answers.removeFirst()
            }
        }

        func willAnswer(_ answer: Answer) { state.withLock { $0.answers.append(answer) } }
        var requests: [Request] { state.withLock { $0.requests } }
    }

    private init(_ listener: any Channel, _ state: SharedState) {
        self.listener = listener
        self.state = state
    }

    /// Starts listening on a free port.
    static func start() async throws -> PushServicePeer {
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem))
        )
        tls.applicationProtocols = ["h2"]
        let context = try NIOSSLContext(configuration: tls)
        let state = SharedState()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                    _ = try channel.pipeline.syncOperations.configureHTTP2Pipeline(
                        mode: .server,
                        connectionConfiguration: .init(),
                        streamConfiguration: .init()
                    ) { stream in
                        stream.eventLoop.makeCompletedFuture {
                            try stream.pipeline.syncOperations.addHandler(StreamHandler(state))
                        }
                    }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return PushServicePeer(listener, state)
    }

    /// The address, without a trailing slash.
    var address: String { "https://localhost:\(listener.localAddress?.port ?? 0)" }
    var requests: [Request] { state.requests }

    func willAnswer(_ status: Int, _ body: String = "", headers: [(String, String)] = []) {
        state.willAnswer(Answer(status: status, headers: headers, body: body))
    }

    func stop() async throws { try await listener.close() }

    // Used by these tests only, and valid until 2126.

    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBljCCATugAwIBAgIUJ8O3Ccldf25rkxgm+TrdofRZ/VwwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEwNDEwOVoYDzIxMjYxMDI4
        MTA0MTA5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAAS3f2X5v8SQRUAaOuVaqwFDdYTEY2BdjBFvD9Qw3uye3MLBZ5Kw/gGr
        2EwX71C3vXqUX4UHj+RChk234smRX1jwo2kwZzAdBgNVHQ4EFgQU8wxgBwosl3q+
        doqdPUF37nm53ngwHwYDVR0jBBgwFoAU8wxgBwosl3q+doqdPUF37nm53ngwDwYD
        VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
        SQAwRgIhAOUVtf11+lqvKTdLqEa238579kKMb2FVJ8IWTO86SL5DAiEAna1eUpMf
        em2I6vEDP1VHb4LKBL/aRXYj8vzqwhsUI6Y=
        -----END CERTIFICATE-----
        """

    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5wGvJEXyDwCR/hkp
        e1Dij8h2FkzY6AAeFxOQaxWkVtmhRANCAAS3f2X5v8SQRUAaOuVaqwFDdYTEY2Bd
        jBFvD9Qw3uye3MLBZ5Kw/gGr2EwX71C3vXqUX4UHj+RChk234smRX1jw
        -----END PRIVATE KEY-----
        """
}

/// Handles one request.
private final class StreamHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias OutboundOut = HTTP2Frame.FramePayload

    private let state: PushServicePeer.SharedState
    private var request = PushServicePeer.Request()

    init(_ state: PushServicePeer.SharedState) { self.state = state }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .headers(let head):
            for (name, value, _) in head.headers { request.headers[name] = value }
            request.path = request.headers[":path"] ?? ""
            if head.endStream { answer(context) }
        case .data(let piece):
            if case .byteBuffer(let buffer) = piece.data { request.body += buffer.readableBytesView }
            if piece.endStream { answer(context) }
        default: break
        }
    }

    private func answer(_ context: ChannelHandlerContext) {
        let answer = state.answer(request)
        let headers = HPACKHeaders([(":status", "\(answer.status)")] + answer.headers)
        context.write(wrapOutboundOut(.headers(.init(headers: headers))), promise: nil)
        let body = HTTP2Frame.FramePayload.Data(data: .byteBuffer(ByteBuffer(string: answer.body)), endStream: true)
        context.writeAndFlush(wrapOutboundOut(.data(body)), promise: nil)
    }
}
