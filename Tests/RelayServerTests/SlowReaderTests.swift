import HTTPTypes
import NIOCore
import RelayAPI
import RelayServer
import ServiceLifecycle
import Testing

/// A peer that reads a response slowly keeps its connection; one that reads nothing loses it.
@Suite struct SlowReaderTests {
    private static let length = 30_000_000
    private static let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    private static let large: AsyncResponder = { _ in
        APIResponse(status: .ok, body: Array(repeating: 7, count: length))
    }

    private static func oneLoop(_ configuration: inout ServerConfiguration) {
        configuration.loops = 1
        configuration.limits.sweepInterval = .milliseconds(20)
        configuration.limits.writeStall = .seconds(15)
    }

    /// Advances the clock and waits until the server has checked its deadlines, which closes an idle connection.
    private func pass(_ time: TimeAmount, _ clock: StandingClock, _ port: Int) async throws {
        let idle = try await RawPeer.connect(port: port)
        try await settle(port)
        clock.advance(time)
        _ = try await idle.untilClosed()
    }

    @Test func aSlowReaderGetsTheWholeResponse() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock, respond: Self.large) { port in
            let peer = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await peer.take(1)
            // Three times the limit in total.
            for _ in 0..<4 {
                try await peer.take(4_000_000)
                try await pass(.seconds(11), clock, port)
            }
            try await peer.startReading()
            let bytes = try await peer.received(waitingFor: "the whole answer") { $0.count > Self.length }
            #expect(bytes.count > Self.length)
            await peer.close()
        }
    }

    /// If the unsent responses of several peers exceed the loop's limit, the connection that has waited longest is
    /// closed.
    @Test func unsentResponsesAreLimitedInTotal() async throws {
        let clock = StandingClock()
        let configure: @Sendable (inout ServerConfiguration) -> Void = {
            Self.oneLoop(&$0)
            $0.limits.unsentAnswers = 40_000_000
        }
        try await withServer(configure, clock: clock, respond: Self.large) { port in
            let first = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await first.take(1)
            try await pass(.seconds(11), clock, port)
            let second = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await second.take(1)
            try await first.startReading()
            let abort = try await first.received(waitingFor: "the end of what was sent") { _ in false }
            #expect(abort.count < Self.length)
            try await second.startReading()
            let whole = try await second.received(waitingFor: "the whole answer") { $0.count > Self.length }
            #expect(whole.count > Self.length)
            // Bytes that were read no longer count.
            let third = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await third.take(1)
            try await third.startReading()
            let other = try await third.received(waitingFor: "the whole answer") { $0.count > Self.length }
            #expect(other.count > Self.length)
            for peer in [first, second, third] { await peer.close() }
        }
    }

    @Test func aSingleResponseMayExceedTheLimit() async throws {
        let configure: @Sendable (inout ServerConfiguration) -> Void = {
            Self.oneLoop(&$0)
            $0.limits.unsentAnswers = 1_000_000
        }
        try await withServer(configure, respond: Self.large) { port in
            let peer = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await peer.take(1)
            try await peer.startReading()
            let bytes = try await peer.received(waitingFor: "the whole answer") { $0.count > Self.length }
            #expect(bytes.count > Self.length)
            await peer.close()
        }
    }

    /// The peer has closed its sending side, and still gets the response.
    @Test func aHalfClosedPeerGetsTheWholeResponse() async throws {
        try await withServer(Self.oneLoop, respond: Self.large) { port in
            let peer = try await RawPeer.connect(port: port, reads: false, sending: Self.get)
            try await peer.take(1)
            try await peer.finishSending()
            try await settle(port)
            try await peer.startReading()
            let bytes = try await peer.received(waitingFor: "the whole answer") { _ in false }
            #expect(bytes.count > Self.length)
        }
    }

    @Test func aGracefulStopFinishesAResponse() async throws {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        var configuration = ServerConfiguration()
        Self.oneLoop(&configuration)
        configuration.port = 0
        configuration.testDoor = true
        configuration.limits.shutdown = .seconds(300)
        configuration.limits.closingHandshake = .seconds(300)
        let server = RelayServer(
            configuration: configuration,
            logger: quiet,
            now: StandingClock().now,
            onListening: { port.yield($0.port) },
            respond: inTask(Self.large)
        )
        let group = ServiceGroup(services: [server], logger: quiet)
        async let running: Void = group.run()
        var iterator = ports.makeAsyncIterator()
        let bound = try #require(await iterator.next())
        let peer = try await RawPeer.connect(port: bound, reads: false, sending: Self.get)
        try await peer.take(1)
        let socket = try await SocketPeer.connect(port: bound)
        await group.triggerGracefulShutdown()
        // When this connection reports the stop, all connections of the loop have been told.
        _ = try await socket.frames(1, waitingFor: "the close frame")
        try await socket.send(SocketPeer.frame(0x88, [3, 0xE9]))
        try await peer.startReading()
        let bytes = try await peer.received(waitingFor: "the whole answer") { $0.count > Self.length }
        #expect(bytes.count > Self.length)
        await peer.close()
        await socket.close()
        try await running
    }
}
