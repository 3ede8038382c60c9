import NIOCore

/// A connection as its loop sees it: something to look at on every sweep.
protocol LoopResident: AnyObject {
    /// Where it stands in the loop's list; kept by the loop.
    var slot: Int { get set }
    /// Acts on whatever deadline has passed.
    func sweep(_ now: NIODeadline)
    /// The relay is stopping, or others need the room, and it will be waited for no longer.
    func cut()
    /// Since when bytes that are counted wait for the peer.
    var unsentSince: NIODeadline? { get }
}

extension LoopResident {
    var unsentSince: NIODeadline? { nil }
}

/// What the connections of one event loop share.
///
/// Confined to that loop.
final class LoopState {
    let eventLoop: any EventLoop
    let executor: LoopExecutor
    let answers: LoopAnswers
    let door: GateDoor
    /// This loop as a lane of the notice hub.
    let lane: LoopLane?
    private var residents: [any LoopResident] = []
    private var date = DateText()
    /// Room for the head of the answer that is being written; kept, so that an answer needs none of its own.
    var headBytes = ByteBuffer()
    private var sweeper: RepeatedTask?
    /// Bytes of bodies that are arriving.
    var heldBytes = 0
    /// Bytes of answers that their peers have not taken, as of the last sweep.
    var unsentBytes = 0
    /// The time of the last sweep: good to one interval, and free.
    private(set) var coarseNow: NIODeadline
    /// The time by which deadlines are kept.
    var now: NIODeadline { door.now() }

    private let arrivals: AsyncStream<GatedConnection>.Continuation

    /// `arrivals` gets each connection when it first has something to do.
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

    /// Has a task made for the gate.
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

    /// Cuts off those that have left an answer waiting for the longest, until all that wait are within bounds.
    ///
    /// One that alone is beyond them stays.
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
        // A resident may leave while it is looked at, and the last one then takes its place: so from the end.
        for index in stride(from: residents.count - 1, through: 0, by: -1) where index < residents.count {
            residents[index].sweep(now)
        }
    }
}
