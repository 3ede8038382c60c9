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
    let services: HTTPServices
    /// This event loop's inbox for the notice hub.
    let worker: EventLoopNoticeWorker?
    /// The request heads that this event loop's connections have sent.
    let heads: RequestHeadCache
    private var connections: [any SweptConnection] = []
    private var date = DateText()
    private var sweeper: RepeatedTask?
    /// The tasks that answer requests, by connection.
    private var tasks: [ObjectIdentifier: Task<Void, Never>] = [:]
    /// Completed when the last task has ended, after `end`.
    private var ended: EventLoopPromise<Void>?
    /// Bytes of incoming bodies.
    var bufferedBytes = 0
    /// Unsent bytes of responses, as of the last sweep.
    var unsentBytes = 0
    /// The time of the last sweep: accurate to one interval, and free.
    private(set) var coarseNow: NIODeadline
    /// The time for deadlines.
    var now: NIODeadline { services.now() }

    private let arrivals: AsyncStream<ActiveConnection>.Continuation

    /// `arrivals` receives each connection whose notice socket waits for its admission.
    init(_ eventLoop: any EventLoop, services: HTTPServices, arrivals: AsyncStream<ActiveConnection>.Continuation) {
        self.arrivals = arrivals
        self.eventLoop = eventLoop
        self.services = services
        heads = RequestHeadCache(lookups: services.headLookups)
        coarseNow = services.now()
        worker = services.notices.map { EventLoopNoticeWorker(eventLoop, notices: $0, uptime: services.uptime) }
        executor = EventLoopExecutor(eventLoop)
        date.update(toSecond: services.wallClock())
    }

    var dateText: String { date.text }

    func begin() {
        let interval = services.limits.sweepInterval
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        sweeper = eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in bound.value.sweep() }
    }

    /// Cancels the tasks that still run; the result is complete when they have ended.
    func end() -> EventLoopFuture<Void> {
        sweeper?.cancel()
        sweeper = nil
        let ended = eventLoop.makePromise(of: Void.self)
        self.ended = ended
        for task in tasks.values { task.cancel() }
        if tasks.isEmpty { ended.succeed() }
        return ended.futureResult
    }

    func began(_ task: Task<Void, Never>, of connection: HTTPConnectionHandler) {
        tasks[ObjectIdentifier(connection)] = task
    }

    func taskEnded(of connection: HTTPConnectionHandler) {
        tasks[ObjectIdentifier(connection)] = nil
        if tasks.isEmpty { ended?.succeed() }
    }

    /// Requests a task that admits the device of a notice socket.
    func begin(admissionOf connectionHandler: HTTPConnectionHandler, on channel: any Channel) {
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

/// Runs the tasks of an event loop's connections on that loop, so that a request needs no thread switch, and completes
/// their responses there.
///
/// Request handlers must therefore not block: a request that computes or reads for long must move to another executor.
/// The writes of one commit, or of several commits in quick succession, wake the event loop once.
final class EventLoopExecutor: TaskExecutor, ResponseExecutor {
    private let eventLoop: any EventLoop
    private let inbox = Mutex<[@Sendable () -> Void]>([])

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    var tasks: (any TaskExecutor)? { self }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

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
