import Foundation
import NIOCore
import NIOPosix

/// Hands messages to a mail server on this machine, which knows how to deliver them.
///
/// Without TLS and without signing in, and so on this machine only: whoever runs a mail server elsewhere lets a small one
/// here forward to it.
struct MailPost: Sendable {
    var host: String
    var port: Int
    /// Seconds for all of it.
    var patience: Int64 = 10

    /// Gives why the server does not have the message, `nil` if it does.
    func send(_ mail: Mail) async -> String? {
        let talk = MailTalk(mail, name: Self.machine)
        do {
            let result = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connectTimeout(.seconds(5))
                .connect(host: host, port: port) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let outcome = channel.eventLoop.makePromise(of: String?.self)
                        try channel.pipeline.syncOperations.addHandler(MailHandler(talk, outcome))
                        let late = channel.eventLoop.scheduleTask(in: .seconds(patience)) {
                            outcome.succeed("does not answer within \(patience) s")
                        }
                        outcome.futureResult.whenComplete { _ in
                            late.cancel()
                            channel.close(promise: nil)
                        }
                        return outcome.futureResult
                    }
                }
            return try await result.get()
        } catch {
            return "cannot be reached: \(reason(for: error))"
        }
    }

    /// What this machine calls itself; a name in brackets where it has none that mail servers take.
    static var machine: String {
        let name = ProcessInfo.processInfo.hostName
        return name.contains(".") && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? name : "[127.0.0.1]"
    }
}

/// Reads the server's lines and says what the talk wants said.
private final class MailHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let longestLine = 4_096

    private var talk: MailTalk
    private let outcome: EventLoopPromise<String?>
    private var bytes: [UInt8] = []

    init(_ talk: MailTalk, _ outcome: EventLoopPromise<String?>) {
        self.talk = talk
        self.outcome = outcome
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes.append(contentsOf: unwrapInboundIn(data).readableBytesView)
        while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: bytes[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
            bytes.removeFirst(end + 1)
            switch talk.heard(line) {
            case .listen: continue
            case .say(let text): context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            case .done:
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "QUIT\r\n")), promise: nil)
                return outcome.succeed(nil)
            case .refused(let why): return outcome.succeed(why)
            }
        }
        if bytes.count > Self.longestLine { outcome.succeed("says what is no SMTP") }
    }

    func channelInactive(context: ChannelHandlerContext) { outcome.succeed("closed the connection") }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        outcome.succeed("broke the connection: \(error)")
        context.close(promise: nil)
    }
}
