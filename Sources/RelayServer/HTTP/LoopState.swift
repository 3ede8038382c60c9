import NIOCore
import RelayAPI
import Synchronization

/// A connection in its event loop's list, visited on every sweep.
protocol SweptConnection: AnyObject {
    /// The index in the event loop's list; maintained by the event loop.
    var slot: Int { get set }
    /// Acts on deadlines that have passed.
    func sweep(_ now: NIODeadline)
    /// Closes the connection at once, because of shutdown or a limit.
    func abort()
    /// The time since which counted bytes have been waiting for the client.
    var unsentSince: NIODeadline? { get }
}

extension SweptConnection {
    var unsentSince: NIODeadline? { nil }
}

/// The state that the connections of one event loop share; confined to that loop.
final class LoopState {
    let eventLoop: any EventLoop
    let executor: EventLoopExecutor
    let answers: EventLoopResponseExecutor
    let services: HTTPServices
    /// This event loop's inbox for the notice hub.
    let worker: EventLoopNoticeWorker?
    private var connections: [any SweptConnection] = []
    private var date = DateText()
    /// A reusable buffer for the head of the response being written.
    var headBytes = ByteBuffer()
    private var sweeper: RepeatedTask?
    /// Bytes of incoming bodies.
    var bufferedBytes = 0
    /// Unsent bytes of responses, as of the last sweep.
    var unsentBytes = 0
    /// The time of the last sweep: accurate to one interval, and free.
    private(set) var coarseNow: NIODeadline
    /// The time for deadlines.
    var now: NIODeadline { services.now() }

    private let arrivals: AsyncStream<ActiveConnection>.Continuation

    /// `arrivals` receives each connection when it first has work.
    init(_ eventLoop: any EventLoop, services: HTTPServices, arrivals: AsyncStream<ActiveConnection>.Continuation) {
        self.arrivals = arrivals
        self.eventLoop = eventLoop
        self.services = services
        coarseNow = services.now()
        worker = services.notices.map { EventLoopNoticeWorker(eventLoop, notices: $0, uptime: services.uptime) }
        executor = EventLoopExecutor(eventLoop)
        answers = EventLoopResponseExecutor(eventLoop)
        date.update(toSecond: services.wallClock())
    }

    var dateText: String { date.text }

    func begin() {
        let interval = services.limits.sweepInterval
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        sweeper = eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in bound.value.sweep() }
    }

    func end() {
        sweeper?.cancel()
        sweeper = nil
    }

    /// Requests a task that serves the connection.
    func begin(serving connectionHandler: HTTPConnectionHandler, on channel: any Channel) {
        let bound = NIOLoopBound(connectionHandler, eventLoop: eventLoop)
        arrivals.yield(ActiveConnection(channel: channel, connectionHandler: bound, executor: executor))
    }

    func add(_ connection: any SweptConnection) {
        connection.slot = connections.count
        connections.append(connection)
    }

    func remove(_ connection: any SweptConnection) {
        let slot = connection.slot
        guard slot >= 0, slot < connections.count, connections[slot] === connection else { return }
        let last = connections.removeLast()
        if last !== connection {
            connections[slot] = last
            last.slot = slot
        }
        connection.slot = -1
    }

    func abortAll() {
        for connection in connections { connection.abort() }
    }

    /// Closes the connections with the oldest unsent responses until the total is within the limit.
    ///
    /// A single connection that exceeds the limit alone stays open.
    func makeRoom() {
        while unsentBytes > services.limits.unsentAnswers {
            let waiting = connections.compactMap { connection in connection.unsentSince.map { (connection, since: $0) }
            }
            guard waiting.count > 1, let longest = waiting.min(by: { $0.since < $1.since }) else { return }
            longest.0.abort()
        }
    }

    private func sweep() {
        let now = now
        coarseNow = now
        date.update(toSecond: services.wallClock())
        // From the end, because a visited connection may leave the list, and the last one then takes its place.
        for index in stride(from: connections.count - 1, through: 0, by: -1) where index < connections.count {
            connections[index].sweep(now)
        }
    }
}

/// Runs the tasks of an event loop's connections on that loop, so that a request needs no thread switch.
///
/// Request handlers must therefore not block: a request that computes or reads for long must move to another executor.
final class EventLoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Completes responses on an event loop.
///
/// The writes of one commit, or of several commits in quick succession, wake the event loop once.
final class EventLoopResponseExecutor: ResponseExecutor {
    private let eventLoop: any EventLoop
    private let inbox = Mutex<[@Sendable () -> Void]>([])

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func run(_ job: @escaping @Sendable () -> Void) {
        guard !eventLoop.inEventLoop else { return job() }
        let isFirst = inbox.withLock { inbox in
            inbox.append(job)
            return inbox.count == 1
        }
        if isFirst { eventLoop.execute { self.empty() } }
    }

    private func empty() {
        let jobs = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
        for job in jobs { job() }
    }
}
