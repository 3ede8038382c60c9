import HTTPTypes
import RelayAPI
import RelayServer
import TestSupport
import Testing

/// A poll ends when its peer disconnects; later notices wait for the next poll.
@Suite(.timeLimit(.minutes(15))) struct PollDisconnectTests {
    private static let poll = "GET /device/1/iCloud.test/development/webcourier?tok=x HTTP/1.1\r\nHost: a\r\n\r\n"

    /// A responder that waits like a poll until it is cancelled, and reports when it begins and ends.
    private static func waiting(_ steps: AsyncStream<String>.Continuation) -> AsyncResponder {
        { _ in
            let end = Gate()
            await withTaskCancellationHandler {
                steps.yield("polls")
                await end.wait()
            } onCancel: {
                end.open()
            }
            steps.yield("ends")
            return APIResponse(status: .ok)
        }
    }

    @Test func closingTheConnectionEndsThePoll() async throws {
        let (steps, step) = AsyncStream.makeStream(of: String.self)
        try await withServer(respond: Self.waiting(step)) { port in
            var steps = steps.makeAsyncIterator()
            let peer = try await RawPeer.connect(port: port, sending: Self.poll)
            #expect(await steps.next() == "polls")
            await peer.close()
            #expect(await steps.next() == "ends")
        }
    }

    @Test func aHalfClosedPeerIsAnsweredAtOnce() async throws {
        let (steps, step) = AsyncStream.makeStream(of: String.self)
        try await withServer(respond: Self.waiting(step)) { port in
            var steps = steps.makeAsyncIterator()
            let peer = try await RawPeer.connect(port: port, sending: Self.poll)
            #expect(await steps.next() == "polls")
            try await peer.finishSending()
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }

    @Test func aPeerThatHalfClosedBeforeThePollIsAnsweredAtOnce() async throws {
        let (_, step) = AsyncStream.makeStream(of: String.self)
        try await withServer(respond: Self.waiting(step)) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(Self.poll)
            try await peer.finishSending()
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }
}
