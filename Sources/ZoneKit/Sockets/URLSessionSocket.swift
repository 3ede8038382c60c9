#if canImport(Darwin)
    import Foundation
    import Synchronization

    /// Creates WebSockets with URLSession, on Apple platforms.
    struct URLSessionSocketConnector: SocketConnector {
        func connect(
            to address: SocketAddress,
            subprotocol: String,
            deliver: @escaping @Sendable (SocketEvent) -> Void
        ) -> any Socket {
            var parts = URLComponents()
            parts.scheme = address.isSecure ? "wss" : "ws"
            parts.host = address.host
            parts.port = address.port
            parts.percentEncodedPath = address.path
            let socket = URLSessionSocket(deliver: deliver)
            guard let url = parts.url else {
                deliver(.closed(code: nil))
                return socket
            }
            socket.begin(url, subprotocol: subprotocol)
            return socket
        }
    }

    /// One WebSocket task and its session.
    ///
    /// Events are delivered on the session's serial queue only.
    final class URLSessionSocket: NSObject, Socket, URLSessionWebSocketDelegate {
        private struct State {
            var task: URLSessionWebSocketTask?
            var session: URLSession?
            var isOver = false
        }

        private let deliver: @Sendable (SocketEvent) -> Void
        private let state = Mutex(State())

        init(deliver: @escaping @Sendable (SocketEvent) -> Void) { self.deliver = deliver }

        func begin(_ url: URL, subprotocol: String) {
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = 1
            let session = URLSession(configuration: .ephemeral, delegate: self, delegateQueue: queue)
            let task = session.webSocketTask(with: url, protocols: [subprotocol])
            task.maximumMessageSize = SystemSockets.maxMessage
            state.withLock {
                $0.task = task
                $0.session = session
            }
            task.resume()
            receive(from: task)
        }

        func send(text: [UInt8]) {
            task?.send(.string(String(decoding: text, as: UTF8.self))) { [self] error in
                if error != nil { end(.closed(code: nil)) }
            }
        }

        func ping() {
            task?.sendPing { [self] error in
                if error == nil { tell(.pong) } else { end(.closed(code: nil)) }
            }
        }

        func drop() {
            let task = task
            finish()
            task?.cancel(with: .goingAway, reason: nil)
        }

        func urlSession(
            _ session: URLSession,
            webSocketTask: URLSessionWebSocketTask,
            didOpenWithProtocol protocol: String?
        ) { tell(.opened) }

        func urlSession(
            _ session: URLSession,
            webSocketTask: URLSessionWebSocketTask,
            didCloseWith closeCode: URLSessionWebSocketTask.CloseCode,
            reason: Data?
        ) { end(.closed(code: UInt16(exactly: closeCode.rawValue))) }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            let status = (task.response as? HTTPURLResponse)?.statusCode
            end(status.map { $0 == 101 ? .closed(code: nil) : .refused(status: $0) } ?? .closed(code: nil))
        }

        private var task: URLSessionWebSocketTask? { state.withLock { $0.task } }

        private func receive(from task: URLSessionWebSocketTask) {
            task.receive { [self] result in
                // The delegate reports a failure, with its close code.
                guard case .success(let message) = result else { return }
                if case .string(let text) = message { tell(.text(Array(text.utf8))) }
                receive(from: task)
            }
        }

        private func tell(_ event: SocketEvent) {
            if !state.withLock({ $0.isOver }) { deliver(event) }
        }

        private func end(_ event: SocketEvent) {
            if finish() { deliver(event) }
        }

        /// Invalidates the session, which retains its delegate.
        ///
        /// Returns whether this was the first call.
        @discardableResult private func finish() -> Bool {
            let (wasFirst, session) = state.withLock { state in
                defer { state.isOver = true }
                return (!state.isOver, state.session)
            }
            session?.finishTasksAndInvalidate()
            return wasFirst
        }
    }
#endif
