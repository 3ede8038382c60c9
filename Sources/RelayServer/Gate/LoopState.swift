import NIOCore
import RelayAPI
import Synchronization

/// A connection in its event loop's list, visited on every sweep.
protocol LoopResident: AnyObject {
    /// The index in the event loop's list; maintained by the event loop.
    var slot: Int { get set }
    /// Acts on deadlines that have passed.
    func sweep(_ now: NIODeadline)
    /// Closes the connection at once, because of shutdown or a limit.
    func cut()
    /// The time since which counted bytes have been waiting for the client.
    var unsentSince: NIODeadline? { get }
}

extension LoopResident {
    var unsentSince: NIODeadline? { nil }
}

/// The state that the connections of one event loop share; confined to that loop.
final class LoopState {
    let eventLoop: any EventLoop
    let executor: LoopExecutor
    let answers: LoopAnswers
    let door: GateDoor
    /// This event loop's inbox for the notice hub.
    let lane: LoopLane?
    private var residents: [any LoopResident] = []
    private var date = DateText()
    /// A reusable buffer for the head of the response being written.
    var headBytes = ByteBuffer()
    private var sweeper: RepeatedTask?
    /// Bytes of incoming bodies.
    var heldBytes = 0
    /// Unsent bytes of responses, as of the last sweep.
    var unsentBytes = 0
    /// The time of the last sweep: accurate to one interval, and free.
    private(set) var coarseNow: NIODeadline
    /// The time for deadlines.
    var now: NIODeadline { door.now() }

    private let arrivals: AsyncStream<GatedConnection>.Continuation

    /// `arrivals` receives each connection when it first has work.
    init(_ eventLoop: any EventLoop, door: GateDoor, arrivals: AsyncStream<GatedConnection>.Continuation) {
        self.arrivals = arrivals
        self.eventLoop = eventLoop
        self.door = door
        coarseNow = door.now()
        lane = door.notices.map { LoopLane(eventLoop, notices: $0, uptime: door.uptime) }
        executor = LoopExecutor(eventLoop)
        answers = LoopAnswers(eventLoop)
        date.update(toSecond: door.wallClock())
    }

    var dateText: String { date.text }

    func begin() {
        let interval = door.limits.sweepInterval
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        sweeper = eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in bound.value.sweep() }
    }

    func end() {
        sweeper?.cancel()
        sweeper = nil
    }

    /// Requests a task that serves the connection.
    func begin(serving gate: ConnectionGate, on channel: any Channel) {
        let bound = NIOLoopBound(gate, eventLoop: eventLoop)
        arrivals.yield(GatedConnection(channel: channel, gate: bound, executor: executor))
    }

    func add(_ resident: any LoopResident) {
        resident.slot = residents.count
        residents.append(resident)
    }

    func remove(_ resident: any LoopResident) {
        let slot = resident.slot
        guard slot >= 0, slot < residents.count, residents[slot] === resident else { return }
        let last = residents.removeLast()
        if last !== resident {
            residents[slot] = last
            last.slot = slot
        }
        resident.slot = -1
    }

    func cutAll() {
        for resident in residents { resident.cut() }
    }

    /// Closes the connections with the oldest unsent responses until the total is within the limit.
    ///
    /// A single connection that exceeds the limit alone stays open.
    func makeRoom() {
        while unsentBytes > door.limits.unsentAnswers {
            let waiting = residents.compactMap { resident in resident.unsentSince.map { (resident, since: $0) } }
            guard waiting.count > 1, let longest = waiting.min(by: { $0.since < $1.since }) else { return }
            longest.0.cut()
        }
    }

    private func sweep() {
        let now = now
        coarseNow = now
        date.update(toSecond: door.wallClock())
        // From the end, because a visited connection may leave the list, and the last one then takes its place.
        for index in stride(from: residents.count - 1, through: 0, by: -1) where index < residents.count {
            residents[index].sweep(now)
        }
    }
}

/// Runs the tasks of an event loop's connections on that loop, so that a request needs no thread switch.
///
/// Request handlers must therefore not block: a request that computes or reads for long must move to another executor.
final class LoopExecutor: TaskExecutor {
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
final class LoopAnswers: AnswerLane {
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
