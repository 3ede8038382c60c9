#if canImport(CLibWebSockets)
    import CLibWebSockets
    import Foundation

    /// Creates WebSockets with libwebsockets, all on the process's service thread.
    ///
    /// Host names are resolved on that thread, so a slow resolver delays the notices of all sockets.
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

    /// A handle to a socket for use outside the service thread; its state is in the thread's table.
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

    /// The service thread's state of one socket.
    struct ServiceConnection {
        /// The library's handle.
        ///
        /// `nil` before the connection is established.
        var handle: OpaquePointer?
        /// Messages waiting to be written.
        ///
        /// Needs no bound: the client sends a hello and few other messages.
        var messages: [[UInt8]] = []
        var wantsPing = false
        /// The owner no longer needs the socket: close it and deliver no more events.
        var isDropped = false
        /// The fragments of the current incoming message.
        var incoming: [UInt8] = []
        /// The code from the peer's close frame.
        var closeCode: UInt16?
        var deliver: @Sendable (SocketEvent) -> Void
    }
#endif
