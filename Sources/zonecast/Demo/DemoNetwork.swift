import Foundation
import Synchronization
import Wire
import ZoneKit

/// A client's transport to the relay, with a switch for offline, which reports received notices and responses.
final class DemoNetwork: RelayTransport, SocketConnector {
    private struct State {
        var isOnline = true
        var sockets: [Int: (socket: any Socket, deliver: @Sendable (SocketEvent) -> Void)] = [:]
        var lastSocket = 0
    }

    private let http: any RelayTransport
    private let sockets = SystemSockets.connector
    private let state = Mutex(State())
    private let onNotice: @Sendable (Notice) -> Void
    private let onRequest: @Sendable (RelayRequest) -> Int?
    private let onResponse: @Sendable (RelayRequest, RelayResponse?, Int?) -> Void

    /// Creates the transport.
    ///
    /// - Parameters:
    ///   - url: The relay's address.
    ///   - onNotice: Called with each notice.
    ///   - onRequest: Called before each request; may return a number for it.
    ///   - onResponse: Called with the request, the response (`nil` if it failed) and that number.
    init(
        url: URL,
        onNotice: @escaping @Sendable (Notice) -> Void,
        onRequest: @escaping @Sendable (RelayRequest) -> Int?,
        onResponse: @escaping @Sendable (RelayRequest, RelayResponse?, Int?) -> Void
    ) {
        http = NetworkTransport.to(url, timeout: 15)
        self.onNotice = onNotice
        self.onRequest = onRequest
        self.onResponse = onResponse
    }

    var isOnline: Bool { state.withLock { $0.isOnline } }

    func cut() {
        let cut = state.withLock { state in
            state.isOnline = false
            defer { state.sockets = [:] }
            return state.sockets.values.map { $0 }
        }
        for (socket, deliver) in cut {
            socket.drop()
            deliver(.closed(code: nil))
        }
    }

    func heal() { state.withLock { $0.isOnline = true } }

    func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        guard isOnline else { throw .offline }
        let number = onRequest(request)
        let response: RelayResponse
        do throws(TransportError) {
            response = try await http.send(request)
            // A response that arrives after going offline is lost, as it would be.
            guard isOnline else { throw .answerLost("the client was taken offline") }
        } catch {
            onResponse(request, nil, number)
            throw error
        }
        onResponse(request, response, number)
        return response
    }

    func connect(
        to address: SocketAddress,
        subprotocol: String,
        deliver: @escaping @Sendable (SocketEvent) -> Void
    ) -> any Socket {
        guard isOnline else {
            deliver(.closed(code: nil))
            return NoSocket()
        }
        let number = state.withLock { state in
            state.lastSocket += 1
            return state.lastSocket
        }
        let socket = sockets.connect(to: address, subprotocol: subprotocol) { [weak self] event in
            self?.socketReceived(event, number)
            deliver(event)
        }
        state.withLock { $0.sockets[number] = (socket, deliver) }
        return socket
    }

    private func socketReceived(_ event: SocketEvent, _ number: Int) {
        switch event {
        case .text(let bytes):
            if case .notice(let notice)? = try? ServerFrame(decoding: bytes) { onNotice(notice) }
        case .closed, .refused: _ = state.withLock { $0.sockets.removeValue(forKey: number) }
        case .opened, .pong: break
        }
    }

    private struct NoSocket: Socket {
        func send(text: [UInt8]) {}
        func ping() {}
        func drop() {}
    }
}
