#if canImport(CLibWebSockets)
    import CLibWebSockets
    import Foundation
    import Synchronization

    /// The one thread of the process that owns the socket library's context, and with it every socket.
    ///
    /// The library allows a single call from other threads, `lws_cancel_service`. So whoever wants something puts a job
    /// into the line and wakes the thread, which runs it where touching sockets is safe. The context lives as long as the
    /// process: it cannot be freed under the wake-up, and no job comes after the loop's end.
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

        /// Runs `job` on the thread, after all jobs put in before it.
        func run(_ job: @escaping Job) {
            // The wake-up happens under the lock too, so that it never meets a context that is still being made.
            let runsHere = line.withLock { line in
                guard !line.hasFailed else { return true }
                line.jobs.append(job)
                if line.hasContext { lws_cancel_service(ServiceContext.current) }
                return false
            }
            // Without a context every connection fails; the job finds that out by itself.
            if runsHere { job() }
        }

        /// Called on the thread only, by the loop and by the library when it was woken.
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

    /// The library's context: made on the service thread before any other call, and never freed.
    enum ServiceContext {
        // Written once by the service thread before `ServiceThread` says that there is a context; read after that.
        nonisolated(unsafe) private(set) static var current: OpaquePointer?

        /// The name our protocol has inside the library; what goes over the wire is each connection's own.
        static let protocolName = "zonecast"

        static func create() -> Bool {
            lws_set_log_level(0, nil)
            // Two entries, the second one empty to end the list. The library keeps the pointers.
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
            // An empty address keeps the library from taking a proxy out of the environment, which it would use for
            // loopback too.
            let noProxy = strdup("")
            info.http_proxy_address = UnsafePointer(noProxy)
            zonecast_keep_openssl()
            current = lws_create_context(&info)
            free(noProxy)
            return current != nil
        }
    }
#endif
