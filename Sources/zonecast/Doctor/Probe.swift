import Dispatch
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Records
import Synchronization

/// A connection to a relay or its proxy, on which a check speaks HTTP and WebSocket byte by byte.
///
/// Deliberately simpler than the SDK's client, which retries and falls back and would hide faults.
struct Probe: Sendable {
    var address: ProbeAddress
    private let channel: any Channel
    private let inbound: NIOLoopBound<ProbeHandler>

    /// Connects; with https, the certificate must be valid for the address unless `acceptsAnyCertificate` is set.
    static func connect(to address: ProbeAddress) async throws(ProbeFault) -> Probe {
        let what = "a connection"
        do {
            let tls = try context(of: address)
            return try await Deadline.run(for: address.timeout, orThrow: ProbeFault.timedOut(what, address.timeout)) {
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connectTimeout(.seconds(Int64(address.timeout)))
                    .connect(host: address.host, port: address.port) { channel in
                        channel.eventLoop.makeCompletedFuture {
                            let pipeline = channel.pipeline.syncOperations
                            if let tls { try pipeline.addHandler(handler(tls, address)) }
                            let inbound = ProbeHandler()
                            try pipeline.addHandler(inbound)
                            let bound = NIOLoopBound(inbound, eventLoop: channel.eventLoop)
                            return Probe(address: address, channel: channel, inbound: bound)
                        }
                    }
            }
        } catch {
            throw ProbeHandler.fault(error, waitingFor: what, address)
        }
    }

    private static func context(of address: ProbeAddress) throws -> NIOSSLContext? {
        guard address.isSecure else { return nil }
        var configuration = TLSConfiguration.makeClientConfiguration()
        if address.acceptsAnyCertificate { configuration.certificateVerification = .none }
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
        write(Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")).utf8))
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

    func send(text: [UInt8]) {
        write(ProbeFrames.text(text, mask: UInt32.random(in: .min ... .max)))
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

    /// Does not wait: a write completes only after the TLS handshake, which a server may never finish.
    ///
    /// If the write fails, the following read reports it.
    private func write(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }

    private func take<Value: Sendable>(
        _ what: String,
        _ part: @escaping @Sendable (inout [UInt8], _ isOver: Bool) throws -> Value?
    ) async throws(ProbeFault) -> Value {
        do {
            let inbound = inbound
            return try await channel.eventLoop.flatSubmit {
                let promise = channel.eventLoop.makePromise(of: Value.self)
                inbound.value.listen(for: what, within: address.timeout, on: channel.eventLoop, promise, part)
                return promise.futureResult
            }.get()
        } catch {
            throw ProbeHandler.fault(error, waitingFor: what, address)
        }
    }

    func close() { channel.close(mode: .all, promise: nil) }
}

/// A time limit that does not depend on the limited work to end.
enum Deadline {
    /// Returns the value of `body`, or throws `failure` one second after `seconds` have passed.
    ///
    /// The extra second lets the time limits inside `body` report first, since they know more. `body` goes on after that.
    static func run<Value: Sendable>(
        for seconds: Int,
        orThrow failure: any Error,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let waiter = WaitingCaller<Value>(continuation)
            let timer = DispatchSource.makeTimerSource()
            timer.schedule(deadline: .now() + .seconds(seconds + 1))
            timer.setEventHandler { waiter.resume(.failure(failure)) }
            timer.resume()
            Task {
                let result: Result<Value, any Error>
                do { result = .success(try await body()) } catch { result = .failure(error) }
                timer.cancel()
                waiter.resume(result)
            }
        }
    }
}

/// Resumes a caller once.
private final class WaitingCaller<Value: Sendable>: Sendable {
    private let continuation: Mutex<CheckedContinuation<Value, any Error>?>

    init(_ continuation: CheckedContinuation<Value, any Error>) { self.continuation = Mutex(continuation) }

    func resume(_ result: Result<Value, any Error>) {
        let waiting = continuation.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        waiting?.resume(with: result)
    }
}

/// Collects received bytes until they form the awaited value.
///
/// Confined to the connection's event loop.
final class ProbeHandler: ChannelInboundHandler {
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
        let timedOut = loop.scheduleTask(in: .seconds(Int64(seconds))) {
            bound.value.attempt = nil
            promise.fail(ProbeFault.timedOut(what, seconds))
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
            timedOut.cancel()
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
        case ChannelError.connectTimeout: .timedOut(what, address.timeout)
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

/// The target of a probe: an `http` or `https` address, with a path prefix before the relay's paths.
struct ProbeAddress: Sendable, CustomStringConvertible {
    var host: String
    var port: Int
    var isSecure: Bool
    /// The path prefix, without a trailing slash.
    var prefix: String
    /// PEM file with the certificate authorities to trust; `nil`: the system's.
    var authorities: String?
    /// Accepts any certificate: the relay's local address is not the name in its certificate.
    var acceptsAnyCertificate = false
    /// The timeout of each step, in seconds.
    var timeout = 5

    /// Returns `nil` if the text is not an http or https address.
    init?(_ text: String, authorities: String? = nil) {
        guard let url = URL(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
            let host = url.host(percentEncoded: false), !host.isEmpty,
            PortNumber.isUsable(in: text), url.port.map(PortNumber.range.contains) ?? true
        else { return nil }
        self.host = host.trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        isSecure = scheme == "https"
        port = url.port ?? (isSecure ? 443 : 80)
        prefix = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        self.authorities = authorities
    }

    /// The value of the `Host` header.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Converts a listen address into one to connect to on the same machine.
    mutating func resolveWildcard() {
        if host == "0.0.0.0" { host = "127.0.0.1" }
        if host == "::" { host = "::1" }
        acceptsAnyCertificate = true
    }

    /// Whether the address is reachable only from this machine.
    var isLocal: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }

    var description: String { "\(isSecure ? "https" : "http")://\(authority)\(prefix)" }
}

/// An HTTP/1.1 response, parsed without any correction, so that checks see what was sent.
struct ProbeAnswer: Sendable {
    var status: Int
    /// Names in lower case, in the order received.
    var headers: [(name: String, value: String)]
    var body: [UInt8]

    /// Returns the value of the first field with this name, given in lower case.
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// The reason in a relay's error response, without a final full stop; `nil` if the response is not a relay's error.
    var reason: String? {
        struct Refusal: Decodable { var reason: String }
        guard let refusalReason = try? JSONDecoder().decode(Refusal.self, from: Data(body)).reason else { return nil }
        return refusalReason.hasSuffix(".") ? String(refusalReason.dropLast()) : refusalReason
    }

    /// Removes one response from the front of `bytes`; returns `nil` while it is incomplete.
    ///
    /// `isOver`: the connection has ended, so a body without a length is complete.
    static func take(from bytes: inout [UInt8], isOver: Bool) throws(ProbeFault) -> ProbeAnswer? {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else {
            if bytes.count > 65_536 { throw .notHTTP }
            return nil
        }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = (lines.first ?? "").split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else { throw .notHTTP }
        var answer = ProbeAnswer(status: status, headers: fields(lines.dropFirst()), body: [])
        let rest = bytes[end.upperBound...]
        guard let body = try answer.body(in: rest, isOver: isOver) else { return nil }
        answer.body = body.bytes
        bytes.removeFirst(bytes.distance(from: bytes.startIndex, to: body.end))
        return answer
    }

    private static func fields(_ lines: ArraySlice<String>) -> [(name: String, value: String)] {
        lines.compactMap { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            return (parts[0].lowercased(), parts[1].trimmingCharacters(in: .whitespaces))
        }
    }

    private func body(
        in rest: ArraySlice<UInt8>,
        isOver: Bool
    ) throws(ProbeFault) -> (bytes: [UInt8], end: Int)? {
        if status == 101 || status == 204 || status == 304 { return ([], rest.startIndex) }
        if header("transfer-encoding")?.lowercased() == "chunked" { return try Self.chunked(rest) }
        guard let text = header("content-length") else { return isOver ? (Array(rest), rest.endIndex) : nil }
        guard let length = Int(text), (0...16_777_216).contains(length) else { throw .notHTTP }
        guard rest.count >= length else { return nil }
        return (Array(rest.prefix(length)), rest.startIndex + length)
    }

    private static func chunked(_ bytes: ArraySlice<UInt8>) throws(ProbeFault) -> (bytes: [UInt8], end: Int)? {
        var rest = bytes
        var body: [UInt8] = []
        while let line = rest.firstRange(of: Array("\r\n".utf8)) {
            let digits = String(decoding: rest[..<line.lowerBound], as: UTF8.self).prefix { $0.isHexDigit }
            guard let length = Int(digits, radix: 16), length <= 16_777_216 - body.count else { throw .notHTTP }
            guard rest[line.upperBound...].count >= length + 2 else { return nil }
            body.append(contentsOf: rest[line.upperBound...].prefix(length))
            rest = rest[(line.upperBound + length + 2)...]
            if length == 0 { return (body, rest.startIndex) }
        }
        return nil
    }
}

/// Why a probe failed.
enum ProbeFault: Error, CustomStringConvertible {
    case unreachable(String)
    /// The server's certificate is not trusted.
    case untrusted(String)
    /// A timeout: what was awaited, and for how many seconds.
    case timedOut(String, Int)
    /// The server closed the connection while this was awaited.
    case ended(String)
    case notHTTP
    case brokenFrames

    var description: String {
        switch self {
        case .unreachable(let why): "cannot be reached: \(why)"
        case .untrusted(let why): "has an invalid certificate: \(why)"
        case .timedOut(let what, let seconds): "did not send \(what) within \(seconds) s"
        case .ended(let what): "closed the connection before \(what)"
        case .notHTTP: "does not speak HTTP/1.1"
        case .brokenFrames: "sent an invalid WebSocket frame"
        }
    }
}

/// The part of RFC 6455 that a probe needs: text and close frames of a client, unmasked frames of a server.
enum ProbeFrames {
    enum Frame: Sendable {
        case text([UInt8])
        case close(code: UInt16?)
        /// Ping, pong, binary.
        case other
    }

    /// Returns a text message in one frame, masked as RFC 6455 requires of clients.
    static func text(_ payload: [UInt8], mask: UInt32) -> [UInt8] { frame(0x81, payload, mask) }

    /// Returns a close frame with code 1000.
    static func close(mask: UInt32) -> [UInt8] { frame(0x88, [0x03, 0xE8], mask) }

    private static func frame(_ first: UInt8, _ payload: [UInt8], _ mask: UInt32) -> [UInt8] {
        var bytes = [first]
        switch payload.count {
        case 0...125: bytes.append(0x80 | UInt8(payload.count))
        case 126...65_535: bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0x80 | 127] + (0..<8).reversed().map { UInt8(payload.count >> ($0 * 8) & 0xFF) }
        }
        let key = (0..<4).reversed().map { UInt8(mask >> ($0 * 8) & 0xFF) }
        return bytes + key + payload.enumerated().map { $1 ^ key[$0 % 4] }
    }

    /// Removes one frame from the front of `bytes`; returns `nil` while it is incomplete.
    static func take(from bytes: inout [UInt8]) throws(ProbeFault) -> Frame? {
        guard bytes.count >= 2 else { return nil }
        guard bytes[1] & 0x80 == 0 else { throw .brokenFrames }
        var (start, length) = (2, Int(bytes[1]))
        if length >= 126 {
            let size = length == 126 ? 2 : 8
            guard bytes.count >= 2 + size else { return nil }
            length = bytes[2..<(2 + size)].reduce(0) { $0 << 8 | Int($1) }
            start += size
        }
        guard (0...1_048_576).contains(length) else { throw .brokenFrames }
        guard bytes.count >= start + length else { return nil }
        let payload = Array(bytes[start..<(start + length)])
        let opcode = bytes[0] & 0x0F
        bytes.removeFirst(start + length)
        switch opcode {
        case 1: return .text(payload)
        case 8: return .close(code: payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : nil)
        default: return .other
        }
    }
}
