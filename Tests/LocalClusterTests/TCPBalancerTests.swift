import Foundation
import LocalCluster
import NIOCore
import NIOPosix
import Testing

/// The balancer over real sockets.
@Suite struct TCPBalancerTests {
    private let group = MultiThreadedEventLoopGroup.singleton

    /// Sends its name, then all that it receives.
    private final class Echo: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let name: String
        init(_ name: String) { self.name = name }
        func channelActive(context: ChannelHandlerContext) {
            context.writeAndFlush(NIOAny(ByteBuffer(string: name)), promise: nil)
        }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.writeAndFlush(data, promise: nil) }
    }

    private func serve(_ name: String) async throws -> (channel: any Channel, target: TCPBalancer.Target) {
        let channel = try await ServerBootstrap(group: group)
            .childChannelInitializer { $0.pipeline.addHandler(Echo(name)) }
            .bind(host: "127.0.0.1", port: 0).get()
        return (channel, .init(name: name, port: try #require(channel.localAddress?.port)))
    }

    /// A client whose bytes are read one portion after the other.
    private func connect(_ port: Int) async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
        try await ClientBootstrap(group: group).connect(host: "127.0.0.1", port: port) { channel in
            channel.eventLoop.makeCompletedFuture { try NIOAsyncChannel(wrappingChannelSynchronously: channel) }
        }
    }

    /// Connects, and returns what the target says first; empty if the connection is closed.
    private func greeting(_ port: Int) async throws -> String {
        try await connect(port).executeThenClose { inbound, _ in
            for try await part in inbound { return String(buffer: part) }
            return ""
        }
    }

    @Test("connections go to the target with the fewest, and past one that does not accept")
    func distribution() async throws {
        let balancer = TCPBalancer(on: group)
        let port = try await balancer.listen(host: "127.0.0.1", port: 0)
        let (first, second, gone) = (try await serve("first"), try await serve("second"), try await serve("gone"))
        try await gone.channel.close()
        balancer.targets = [gone.target, first.target, second.target]
        let client = try await connect(port)
        let names = try await client.executeThenClose { inbound, _ in
            var names: Set<String> = []
            for try await part in inbound {
                names.insert(String(buffer: part))
                break
            }
            names.insert(try await greeting(port))
            return names
        }
        #expect(names == ["first", "second"])
        await balancer.stop()
        try await first.channel.close()
        try await second.channel.close()
    }

    @Test("connections to a target that is down are closed, and new ones are refused without targets")
    func lostTarget() async throws {
        let balancer = TCPBalancer(on: group)
        let port = try await balancer.listen(host: "127.0.0.1", port: 0)
        let only = try await serve("only")
        balancer.targets = [only.target]
        let client = try await connect(port)
        try await client.executeThenClose { inbound, _ in
            var text = ""
            for try await part in inbound {
                text += String(buffer: part)
                balancer.targets = []
            }
            #expect(text == "only")
        }
        #expect(try await greeting(port) == "")
        await balancer.stop()
        try await only.channel.close()
    }

    @Test("large amounts pass unchanged in both directions, and a cut holds them up without a loss")
    func cut() async throws {
        let balancer = TCPBalancer(on: group)
        let port = try await balancer.listen(host: "127.0.0.1", port: 0)
        let only = try await serve("")
        balancer.targets = [only.target]
        let client = try await connect(port)
        let sent = (0..<4_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
        balancer.isCut = true
        try await client.executeThenClose { inbound, outbound in
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask {
                    for start in stride(from: 0, to: sent.count, by: 100_000) {
                        try await outbound.write(ByteBuffer(bytes: sent[start..<start + 100_000]))
                    }
                }
                balancer.isCut = false
                var received: [UInt8] = []
                for try await part in inbound {
                    received += part.readableBytesView
                    if received.count >= sent.count { break }
                }
                #expect(received == sent)
                try await tasks.waitForAll()
            }
        }
        await balancer.stop()
        try await only.channel.close()
    }
}
