import HTTPTypes
import RelayAPI
import Testing

@testable import RelayServer

/// A poll whose peer goes is over: what comes later waits for the next one.
@Suite struct PollDepartureTests {
    private static let poll = "GET /device/1/iCloud.test/development/webcourier?tok=x HTTP/1.1\r\nHost: a\r\n\r\n"

    /// Waits as a poll does, until it is cancelled.
    private static func waiting(_ arrived: Gate, _ left: Gate) -> RelayServer.Responder {
        { _ in
            await withTaskCancellationHandler {
                arrived.open()
                await left.wait()
            } onCancel: {
                left.open()
            }
            return APIResponse(status: .ok)
        }
    }

    @Test func aPeerThatCloses() async throws {
        let (arrived, left) = (Gate(), Gate())
        try await withServer(respond: Self.waiting(arrived, left)) { port in
            let peer = try await RawPeer.connect(port: port, sending: Self.poll)
            await arrived.wait()
            await peer.close()
            await left.wait()
        }
    }

    @Test func aPeerThatSendsNothingMoreIsAnsweredAtOnce() async throws {
        let (arrived, left) = (Gate(), Gate())
        try await withServer(respond: Self.waiting(arrived, left)) { port in
            let peer = try await RawPeer.connect(port: port, sending: Self.poll)
            await arrived.wait()
            try await peer.finishSending()
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }

    @Test func aPeerThatHadGoneBefore() async throws {
        let (arrived, left) = (Gate(), Gate())
        try await withServer(respond: Self.waiting(arrived, left)) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(Self.poll)
            try await peer.finishSending()
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 200 OK\r\n"))
        }
    }
}
