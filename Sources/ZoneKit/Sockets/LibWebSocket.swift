#if canImport(CLibWebSockets)
    import CLibWebSockets
    import Foundation

    /// WebSockets by libwebsockets, all on the process's one service thread.
    ///
    /// Names are resolved on that thread, so a slow resolver delays the notices of all sockets for a moment.
    struct LibWebSocketsConnector: SocketConnector {
        func connect(
            to address: SocketAddress,
            subprotocol: String,
            deliver: @escaping @Sendable (SocketEvent) -> Void
        ) -> any Socket {
            let socket = LibWebSocket(ConnectionTable.nextID())
            ServiceThread.shared.run {
                ConnectionTable.open(socket.id, to: address, subprotocol: subprotocol, deliver: deliver)
            }
            return socket
        }
    }

    /// A socket's name outside the service thread; what it stands for lives in the thread's table.
    struct LibWebSocket: Socket {
        let id: UInt

        init(_ id: UInt) { self.id = id }

        func send(text: [UInt8]) { onThread { $0.messages.append(text) } }
        func ping() { onThread { $0.wantsPing = true } }

        func drop() {
            let id = id
            ServiceThread.shared.run { ConnectionTable.drop(id) }
        }

        private func onThread(_ change: @escaping @Sendable (inout ServiceConnection) -> Void) {
            let id = id
            ServiceThread.shared.run { ConnectionTable.change(id, change) }
        }
    }

    /// What the service thread knows of one socket.
    struct ServiceConnection {
        /// The library's handle; `nil` before the connection is made.
        var handle: OpaquePointer?
        /// Waiting to be written.
        ///
        /// Its writer sends a hello and little else, so it needs no bound of its own.
        var messages: [[UInt8]] = []
        var wantsPing = false
        /// Given up by its owner: close, and say nothing more.
        var isDropped = false
        /// The message being put together from fragments.
        var incoming: [UInt8] = []
        /// From the other end's close frame.
        var closeCode: UInt16?
        var deliver: @Sendable (SocketEvent) -> Void
    }
#endif
