#if canImport(CLibWebSockets)
    import CLibWebSockets
    import Foundation
    import Records
    import Synchronization

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

    /// All sockets of the process, by number.
    ///
    /// The library stores the number, never a pointer to a Swift object, so a late callback finds no entry instead of
    /// freed memory.
    enum ConnectionTable {
        // Accessed on the service thread only: by its jobs and by the library's callbacks.
        nonisolated(unsafe) private static var connections: [UInt: ServiceConnection] = [:]
        private static let lastID = Mutex<UInt>(0)

        static func nextID() -> UInt {
            lastID.withLock {
                $0 += 1
                return $0
            }
        }

        // MARK: Jobs

        static func open(
            _ id: UInt,
            to address: SocketAddress,
            subprotocol: String,
            deliver: @escaping @Sendable (SocketEvent) -> Void
        ) {
            connections[id] = ServiceConnection(deliver: deliver)
            guard PortNumber.range.contains(address.port) else { return end(id, .closed(code: nil)) }
            var info = lws_client_connect_info()
            info.context = ServiceContext.current
            info.port = Int32(address.port)
            info.ssl_connection = address.isSecure ? Int32(LCCSCF_USE_SSL.rawValue) : 0
            info.ietf_version_or_minus_one = -1
            info.userdata = UnsafeMutableRawPointer(bitPattern: id)
            let hostHeader =
                address.host.contains(":") ? "[\(address.host)]:\(address.port)" : "\(address.host):\(address.port)"
            let handle = address.host.withCString { host in
                address.path.withCString { path in
                    hostHeader.withCString { header in
                        subprotocol.withCString { wire in
                            ServiceContext.protocolName.withCString { local -> OpaquePointer? in
                                info.address = host
                                info.host = header
                                info.path = path
                                info.protocol = wire
                                info.local_protocol_name = local
                                return ServiceContext.current == nil ? nil : lws_client_connect_via_info(&info)
                            }
                        }
                    }
                }
            }
            if handle == nil {
                // The library may or may not have reported the failure. `end` reports it only once.
                end(id, .closed(code: nil))
            } else {
                connections[id]?.handle = handle
            }
        }

        static func change(_ id: UInt, _ change: (inout ServiceConnection) -> Void) {
            guard connections[id] != nil else { return }
            connections[id].map { old in
                var new = old
                change(&new)
                connections[id] = new
            }
            if let handle = connections[id]?.handle { lws_callback_on_writable(handle) }
        }

        static func drop(_ id: UInt) {
            guard let handle = connections[id]?.handle else {
                connections[id] = nil
                return
            }
            connections[id]?.isDropped = true
            lws_callback_on_writable(handle)
            // A connection that is still being established never becomes writable; this timeout closes it.
            lws_set_timeout(handle, PENDING_TIMEOUT_AWAITING_CLIENT_HS_SEND, 1)
        }

        // MARK: Callbacks

        static func opened(_ id: UInt, _ handle: OpaquePointer?) {
            connections[id]?.handle = handle
            tell(id, .opened)
            if let connection = connections[id], connection.isDropped || !connection.messages.isEmpty {
                lws_callback_on_writable(handle)
            }
        }

        /// Appends a fragment of a message.
        ///
        /// Returns `false` if the message is too large and the socket must be closed.
        static func received(_ id: UInt, _ bytes: UnsafeRawBufferPointer, isEnd: Bool) -> Bool {
            connections[id]?.incoming.append(contentsOf: bytes)
            guard let connection = connections[id] else { return true }
            guard connection.incoming.count <= SystemSockets.maxMessage else { return false }
            if isEnd {
                connections[id]?.incoming = []
                tell(id, .text(connection.incoming))
            }
            return true
        }

        static func ponged(_ id: UInt) { tell(id, .pong) }

        /// Stores the code of the peer's close frame.
        ///
        /// The library does not know the codes 1012 to 1014 and reports them as 1002. A 1002 is therefore treated as a
        /// close without a code; a preceding `goodbye` frame says when to reconnect.
        static func peerClosed(_ id: UInt, _ code: UInt16?) { connections[id]?.closeCode = code == 1002 ? nil : code }

        static func failed(_ id: UInt, status: Int) {
            end(id, status >= 200 ? .refused(status: status) : .closed(code: nil))
        }

        static func closed(_ id: UInt) { end(id, .closed(code: connections[id]?.closeCode)) }

        /// Writes the next ping or message in the queue.
        ///
        /// Returns `false` if the socket must be closed.
        static func write(_ id: UInt, _ handle: OpaquePointer?) -> Bool {
            guard let connection = connections[id] else { return false }
            if connection.isDropped {
                lws_close_reason(handle, LWS_CLOSE_STATUS_GOINGAWAY, nil, 0)
                return false
            }
            if connection.wantsPing {
                connections[id]?.wantsPing = false
                guard write([], LWS_WRITE_PING, handle) else { return false }
            } else if let message = connection.messages.first {
                connections[id]?.messages.removeFirst()
                guard write(message, LWS_WRITE_TEXT, handle) else { return false }
            }
            if let left = connections[id], left.wantsPing || !left.messages.isEmpty { lws_callback_on_writable(handle) }
            return true
        }

        private static func write(_ bytes: [UInt8], _ kind: lws_write_protocol, _ handle: OpaquePointer?) -> Bool {
            // The library writes the frame header into the space before the payload.
            let prefixSize = Int(zonecast_lws_pre)
            var buffer = [UInt8](repeating: 0, count: prefixSize) + bytes
            let written = buffer.withUnsafeMutableBufferPointer { buffer in
                lws_write(handle, buffer.baseAddress.map { $0 + prefixSize }, bytes.count, kind)
            }
            return written >= Int32(clamping: bytes.count)
        }

        private static func tell(_ id: UInt, _ event: SocketEvent) {
            guard let connection = connections[id], !connection.isDropped else { return }
            connection.deliver(event)
        }

        private static func end(_ id: UInt, _ event: SocketEvent) {
            tell(id, event)
            connections[id] = nil
        }
    }

    /// The library's callback for all socket events.
    ///
    /// Called on the service thread. A result other than 0 closes the socket.
    func socketCallback(
        _ handle: OpaquePointer?,
        _ reason: lws_callback_reasons,
        _ user: UnsafeMutableRawPointer?,
        _ input: UnsafeMutableRawPointer?,
        _ length: Int
    ) -> Int32 {
        let id = UInt(bitPattern: user)
        switch reason {
        case LWS_CALLBACK_EVENT_WAIT_CANCELLED: ServiceThread.shared.runJobs()
        case LWS_CALLBACK_CLIENT_ESTABLISHED: ConnectionTable.opened(id, handle)
        case LWS_CALLBACK_CLIENT_RECEIVE:
            let isEnd = lws_is_final_fragment(handle) != 0 && lws_remaining_packet_payload(handle) == 0
            let bytes = UnsafeRawBufferPointer(start: input, count: length)
            guard ConnectionTable.received(id, bytes, isEnd: isEnd) else {
                lws_close_reason(handle, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, nil, 0)
                return -1
            }
        case LWS_CALLBACK_CLIENT_RECEIVE_PONG: ConnectionTable.ponged(id)
        case LWS_CALLBACK_CLIENT_WRITEABLE: return ConnectionTable.write(id, handle) ? 0 : -1
        case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
            let bytes = UnsafeRawBufferPointer(start: input, count: length)
            ConnectionTable.peerClosed(id, length >= 2 ? UInt16(bytes[0]) << 8 | UInt16(bytes[1]) : nil)
        case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
            ConnectionTable.failed(id, status: Int(lws_http_client_http_response(handle)))
        // CLOSED_CLIENT_HTTP is the only event if a server accepts the connection and never responds. After WSI_DESTROY
        // the handle is freed memory.
        case LWS_CALLBACK_CLIENT_CLOSED, LWS_CALLBACK_CLOSED_CLIENT_HTTP, LWS_CALLBACK_WSI_DESTROY:
            ConnectionTable.closed(id)
        default: break
        }
        return 0
    }

    /// The thread that owns the socket library's context and all sockets of the process.
    ///
    /// Other threads may call only one function of the library, `lws_cancel_service`. They append a job to the queue
    /// and wake the thread, which runs the job. The context exists as long as the process, so the wake-up never refers
    /// to a freed context and every job runs.
    final class ServiceThread: Sendable {
        static let shared = ServiceThread()

        typealias Job = @Sendable () -> Void

        private struct Queue {
            var jobs: [Job] = []
            var hasContext = false
            var hasFailed = false
        }

        private let queue = Mutex(Queue())

        private init() {
            let thread = Thread { [self] in loop() }
            thread.name = "zonecast sockets"
            thread.start()
        }

        /// Runs `job` on the thread, after all jobs that were added before it.
        func run(_ job: @escaping Job) {
            // The wake-up happens under the lock so that it never refers to a context that is still being created.
            let runsHere = queue.withLock { queue in
                guard !queue.hasFailed else { return true }
                queue.jobs.append(job)
                if queue.hasContext { lws_cancel_service(ServiceContext.current) }
                return false
            }
            // Without a context every connection fails; the job reports that.
            if runsHere { job() }
        }

        /// Must be called on the thread: by its loop, and by the library after a wake-up.
        func runJobs() {
            let jobs = queue.withLock { queue in
                defer { queue.jobs = [] }
                return queue.jobs
            }
            jobs.forEach { $0() }
        }

        private func loop() {
            let isThere = ServiceContext.create()
            queue.withLock {
                $0.hasContext = isThere
                $0.hasFailed = !isThere
            }
            runJobs()
            guard isThere else { return }
            while lws_service(ServiceContext.current, 0) >= 0 { runJobs() }
        }
    }

    /// The library's context: created on the service thread before any other call, and never freed.
    enum ServiceContext {
        // Written once by the service thread before `ServiceThread` sets `hasContext`, and only read afterwards.
        nonisolated(unsafe) private(set) static var current: OpaquePointer?

        /// The protocol's name inside the library; each connection has its own subprotocol on the wire.
        static let protocolName = "zonecast"

        static func create() -> Bool {
            lws_set_log_level(0, nil)
            // Two entries: the second one is empty and ends the list. The library keeps the pointers.
            let protocols = UnsafeMutablePointer<lws_protocols>.allocate(capacity: 2)
            protocols.initialize(repeating: lws_protocols(), count: 2)
            protocols[0].name = UnsafePointer(strdup(protocolName))
            protocols[0].callback = socketCallback
            protocols[0].rx_buffer_size = 4096
            var info = lws_context_creation_info()
            info.port = CONTEXT_PORT_NO_LISTEN
            info.protocols = UnsafePointer(protocols)
            info.gid = -1
            info.uid = -1
            info.options = UInt64(LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT)
            // An empty address keeps the library from using the proxy of the environment, which it would use for
            // loopback connections too.
            let noProxy = strdup("")
            info.http_proxy_address = UnsafePointer(noProxy)
            zonecast_keep_openssl()
            current = lws_create_context(&info)
            free(noProxy)
            return current != nil
        }
    }
#endif
