import Foundation
import NIOCore
import NIOPosix
import NIOSSL

/// A connection to a relay or its proxy, on which a check speaks HTTP and WebSocket byte by byte.
///
/// Deliberately simpler than the SDK's client, which retries and falls back and would hide faults.
struct Probe: Sendable {
    let address: ProbeAddress
    private let channel: any Channel
    private let ear: NIOLoopBound<ProbeEar>

    /// Connects; with https, the certificate must be valid for the address unless `trustsAnybody` is set.
    static func connect(to address: ProbeAddress) async throws(ProbeFault) -> Probe {
        do {
            let tls = try context(of: address)
            return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(.seconds(Int64(address.patience)))
                .connect(host: address.host, port: address.port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        if let tls { try pipeline.addHandler(handler(tls, address)) }
                        let ear = ProbeEar()
                        try pipeline.addHandler(ear)
                        let bound = NIOLoopBound(ear, eventLoop: channel.eventLoop)
                        return Probe(address: address, channel: channel, ear: bound)
                    }
                }
        } catch {
            throw ProbeEar.fault(error, waitingFor: "a connection", address)
        }
    }

    private static func context(of address: ProbeAddress) throws -> NIOSSLContext? {
        guard address.isSecure else { return nil }
        var configuration = TLSConfiguration.makeClientConfiguration()
        if address.trustsAnybody { configuration.certificateVerification = .none }
        if let authorities = address.authorities { configuration.trustRoots = .file(authorities) }
        return try NIOSSLContext(configuration: configuration)
    }

    private static func handler(_ context: NIOSSLContext, _ address: ProbeAddress) throws -> NIOSSLClientHandler {
        // An IP address is not sent as the server name; the certificate is then checked against the address itself.
        let isIP = (try? NIOCore.SocketAddress(ipAddress: address.host, port: 0)) != nil
        return try NIOSSLClientHandler(context: context, serverHostname: isIP ? nil : address.host)
    }

    // MARK: HTTP

    /// Sends a request and returns its response.
    func send(
        _ method: String,
        _ target: String,
        headers: [String] = [],
        body: String? = nil
    ) async throws(ProbeFault) -> ProbeAnswer {
        var lines = ["\(method) \(address.prefix)\(target) HTTP/1.1", "Host: \(address.authority)"]
        lines += ["User-Agent: zonecast-doctor/\(Zonecast.version)"] + headers
        if let body { lines += ["Content-Type: application/json", "Content-Length: \(body.utf8.count)"] }
        await write(Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")).utf8))
        return try await take("an answer to \(method) \(target.prefix { $0 != "?" })") { bytes, isOver in
            try ProbeAnswer.take(from: &bytes, isOver: isOver)
        }
    }

    /// Returns when the server's certificate expires; `nil` without TLS.
    func certificateEnd() async -> Date? {
        guard address.isSecure else { return nil }
        let certificate = try? await channel.nioSSL_peerCertificate().get()
        return certificate.map { Date(timeIntervalSince1970: TimeInterval($0.notValidAfter)) }
    }

    // MARK: WebSocket

    /// Requests the upgrade to a WebSocket for notices; the response is 101 on success.
    func upgrade(_ path: String) async throws(ProbeFault) -> ProbeAnswer {
        let key = Data((0..<16).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
        return try await send(
            "GET",
            path,
            headers: [
                "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: \(key)",
                "Sec-WebSocket-Protocol: zonecast.notices.1",
            ]
        )
    }

    func send(text: [UInt8]) async {
        await write(ProbeFrames.text(text, mask: UInt32.random(in: .min ... .max)))
    }

    /// Returns the next text or close frame.
    func frame(_ what: String) async throws(ProbeFault) -> ProbeFrames.Frame {
        try await take(what) { bytes, _ in
            while let frame = try ProbeFrames.take(from: &bytes) {
                if case .other = frame { continue }
                return frame
            }
            return nil
        }
    }

    // MARK: Bytes

    private func write(_ bytes: [UInt8]) async {
        // If this fails, the following read reports it.
        try? await channel.writeAndFlush(ByteBuffer(bytes: bytes))
    }

    private func take<Value: Sendable>(
        _ what: String,
        _ part: @escaping @Sendable (inout [UInt8], _ isOver: Bool) throws -> Value?
    ) async throws(ProbeFault) -> Value {
        do {
            let ear = ear
            return try await channel.eventLoop.flatSubmit {
                let promise = channel.eventLoop.makePromise(of: Value.self)
                ear.value.listen(for: what, within: address.patience, on: channel.eventLoop, promise, part)
                return promise.futureResult
            }.get()
        } catch {
            throw ProbeEar.fault(error, waitingFor: what, address)
        }
    }

    func close() { channel.close(mode: .all, promise: nil) }
}

/// Collects received bytes until they form the awaited value.
///
/// Confined to the connection's event loop.
final class ProbeEar: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var bytes: [UInt8] = []
    private var end: (any Error)?
    private var isOver = false
    /// Tries to parse the awaited value from the bytes received so far.
    private var attempt: (() -> Void)?

    func listen<Value: Sendable>(
        for what: String,
        within seconds: Int,
        on loop: any EventLoop,
        _ promise: EventLoopPromise<Value>,
        _ part: @escaping (inout [UInt8], _ isOver: Bool) throws -> Value?
    ) {
        let bound = NIOLoopBound(self, eventLoop: loop)
        let late = loop.scheduleTask(in: .seconds(Int64(seconds))) {
            bound.value.attempt = nil
            promise.fail(ProbeFault.late(what, seconds))
        }
        attempt = { [unowned self] in
            do {
                if let value = try part(&bytes, isOver) {
                    promise.succeed(value)
                } else if let end {
                    promise.fail(end)
                } else if isOver {
                    promise.fail(ProbeFault.ended(what))
                } else {
                    return
                }
            } catch {
                promise.fail(error)
            }
            late.cancel()
            attempt = nil
        }
        attempt?()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes.append(contentsOf: unwrapInboundIn(data).readableBytesView)
        attempt?()
    }

    func channelInactive(context: ChannelHandlerContext) {
        isOver = true
        attempt?()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Many servers close TLS without close_notify.
        if case NIOSSLError.uncleanShutdown? = error as? NIOSSLError { return }
        end = end ?? error
        attempt?()
        context.close(promise: nil)
    }

    static func fault(_ error: any Error, waitingFor what: String, _ address: ProbeAddress) -> ProbeFault {
        switch error {
        case let fault as ProbeFault: fault
        case let error as NIOConnectionError:
            .unreachable(error.connectionErrors.first.map { reason($0.error) } ?? "its name cannot be resolved")
        case is NIOSSLError, is BoringSSLError: secureFault("\(error)")
        case is NIOSSLExtraError: .untrusted("it is for another name")
        case ChannelError.connectTimeout: .late(what, address.patience)
        default: .unreachable(reason(error))
        }
    }

    /// Maps the TLS library's error text, which names source files, to a reason that helps the operator.
    private static func secureFault(_ words: String) -> ProbeFault {
        guard words.contains("CERTIFICATE_VERIFY_FAILED") else { return .unreachable("it does not speak TLS") }
        return .untrusted("it is not signed by a trusted authority, or it has expired")
    }

    private static func reason(_ error: any Error) -> String {
        if let error = error as? IOError { return String(cString: strerror(error.errnoCode)) }
        if case ChannelError.connectTimeout? = error as? ChannelError { return "it does not answer" }
        return "\(error)"
    }
}
