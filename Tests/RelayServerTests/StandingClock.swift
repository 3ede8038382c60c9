import NIOCore
import Synchronization

/// A server's clock that stands still until a test advances it, so that no deadline passes while a busy machine delays
/// the test.
final class StandingClock: Sendable {
    private let time = Mutex(NIODeadline.now())

    var now: @Sendable () -> NIODeadline { { self.time.withLock { $0 } } }

    /// Advances the clock.
    ///
    /// Deadlines that are due by then are handled in the server's next sweep.
    func advance(_ amount: TimeAmount) { time.withLock { $0 = $0 + amount } }
}

/// Returns once a server with one event loop has processed all bytes sent to it before: it answers a later connection.
func settle(_ port: Int) async throws {
    let peer = try await RawPeer.connect(port: port, sending: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    _ = try await peer.text(containing: "up\n")
    await peer.close()
}
