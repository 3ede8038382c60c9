#if canImport(CLibWebSockets)
    import CLibWebSockets
    import Foundation
    import Synchronization

    /// The thread that owns the socket library's context and all sockets of the process.
    ///
    /// Other threads may call only one function of the library, `lws_cancel_service`. They append a job to the queue
    /// and wake the thread, which runs the job. The context exists as long as the process, so the wake-up never refers
    /// to a freed context and every job runs.
    final class ServiceThread: Sendable {
        static let shared = ServiceThread()

        typealias Job = @Sendable () -> Void

        private struct Line {
            var jobs: [Job] = []
            var hasContext = false
            var hasFailed = false
        }

        private let line = Mutex(Line())

        private init() {
            let thread = Thread { [self] in loop() }
            thread.name = "zonecast sockets"
            thread.start()
        }

        /// Runs `job` on the thread, after all jobs that were added before it.
        func run(_ job: @escaping Job) {
            // The wake-up happens under the lock so that it never refers to a context that is still being created.
            let runsHere = line.withLock { line in
                guard !line.hasFailed else { return true }
                line.jobs.append(job)
                if line.hasContext { lws_cancel_service(ServiceContext.current) }
                return false
            }
            // Without a context every connection fails; the job reports that.
            if runsHere { job() }
        }

        /// Must be called on the thread: by its loop, and by the library after a wake-up.
        func runJobs() {
            let jobs = line.withLock { line in
                defer { line.jobs = [] }
                return line.jobs
            }
            jobs.forEach { $0() }
        }

        private func loop() {
            let isThere = ServiceContext.create()
            line.withLock {
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
