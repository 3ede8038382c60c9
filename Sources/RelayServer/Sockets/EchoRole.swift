import NIOCore
import RelayCore

/// Echoes every message; enabled by `ServerConfiguration.testDoor`.
///
/// See Reliability.md, "Testing".
final class EchoRole: SocketRole {
    private unowned let socket: SocketChannel
    private let rate: RateLimit
    private let uptime: @Sendable () -> Duration
    private var controls: TokenBucket

    init(socket: SocketChannel, rate: RateLimit, uptime: @escaping @Sendable () -> Duration) {
        self.socket = socket
        self.rate = rate
        self.uptime = uptime
        controls = TokenBucket(rate, at: uptime())
    }

    func received(text: [UInt8]) { socket.write(FrameBytes.frame(.text, text)) }
    func received(binary: [UInt8]) { socket.write(FrameBytes.frame(.binary, binary)) }

    func received(ping: [UInt8]) {
        if takes() { socket.write(FrameBytes.frame(.pong, ping)) }
    }

    func receivedPong() { _ = takes() }
    func writabilityChanged(_ isWritable: Bool) {}
    func tick() {}
    func stop() { socket.close(code: 1001, reason: "relay stopping") }
    func closed() {}

    private func takes() -> Bool {
        guard controls.take(rate, at: uptime()) != nil else { return true }
        socket.close(code: 1008, reason: "too many control frames")
        return false
    }
}
