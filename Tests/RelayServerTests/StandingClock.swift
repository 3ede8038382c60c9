import NIOCore
import Synchronization

/// A server's clock that stands still until a test moves it, so that no deadline passes while a busy machine lets the
/// test wait for its turn.
final class StandingClock: Sendable {
    private let time = Mutex(NIODeadline.now())

    var now: @Sendable () -> NIODeadline { { self.time.withLock { $0 } } }

    /// What is due by then happens at the server's next sweep.
    func advance(_ amount: TimeAmount) { time.withLock { $0 = $0 + amount } }
}

/// Returns once a server of one loop has looked at all that was sent to it before: it answers a connection that came later.
func settle(_ port: Int) async throws {
    let peer = try await RawPeer.connect(port: port, sending: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = try await peer.text(containing: "up\n")
    await peer.close()
}
