import Records
import RelayCore
import Synchronization
import Wire

/// The sessions of devices that use long polls instead of a socket; for the hub, an executor like an event loop.
///
/// Each session has a bounded queue of the notices that arrive between polls, like that of a socket with a slow reader,
/// and at most one waiting poll. Delivering a notice removes it from the queue. A session without a poll for `idleTime`
/// is removed.
final class LongPollSessions: NoticeWorker {
    /// The result of a poll.
    enum Delivery: Sendable {
        case notice(NoticeFrame)
        /// The time is over, or another poll has replaced this one.
        case nothing
        /// The session of the token has ended, or the relay has removed the device.
        case gone
    }

    private struct PollSession {
        var token: LongPollToken
        var address: NoticeAddress
        var connection: NoticeConnectionID
        var queue = NoticeQueue()
        var waiter: (number: UInt64, continuation: CheckedContinuation<Delivery, Never>)?
        /// The latest poll whose time was over, possibly before it began to wait.
        var lastTimedOut: UInt64 = 0
        /// The time of the latest poll, or of creation.
        var lastPoll: Duration
        var order: UInt64

        /// The device as registered with the hub.
        var device: AdmittedDevice { AdmittedDevice(address: address, deviceID: "courier-\(token.id)") }
    }

    private struct State {
        var sessions: [String: PollSession] = [:]
        var byAddress: [NoticeAddress: Set<String>] = [:]
        var lastNumber: UInt64 = 0
        var nextSweep: Duration = .zero
        var isStopped = false

        mutating func number() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        mutating func remove(_ id: String) -> PollSession? {
            guard let session = sessions.removeValue(forKey: id) else { return nil }
            byAddress[session.address]?.remove(id)
            if byAddress[session.address]?.isEmpty == true { byAddress[session.address] = nil }
            return session
        }
    }

    private let state = Mutex(State())
    private let limits: NoticeLimits
    private let uptime: @Sendable () -> Duration
    /// Called for each device that an order has ended; the hub considers it connected until then.
    private let onRemoved: @Sendable (AdmittedDevice, NoticeConnectionID) -> Void
    /// How long a device without a poll is remembered.
    static let idleTime = Duration.seconds(600)

    init(
        limits: NoticeLimits,
        uptime: @escaping @Sendable () -> Duration,
        onRemoved: @escaping @Sendable (AdmittedDevice, NoticeConnectionID) -> Void
    ) {
        self.limits = limits
        self.uptime = uptime
        self.onRemoved = onRemoved
    }

    // MARK: NoticeLane

    /// Performs the order immediately, since this only enqueues notices and resumes tasks.
    func post(_ order: NoticeOrder) {
        switch order {
        case .deliver(let notice, let address, let device): deliver(notice, to: address) { $0 != device }
        case .remind(let notice, let address, let device): deliver(notice, to: address) { $0 == device }
        case .end(let connection, let address, _):
            let gone = state.withLock { state in
                (state.byAddress[address] ?? [])
                    .filter { state.sessions[$0]?.connection == connection }
                    .compactMap { state.remove($0) }
            }
            for session in gone {
                onRemoved(session.device, session.connection)
                session.waiter?.continuation.resume(returning: .gone)
            }
        case .renewed: break
        }
    }

    private func deliver(_ notice: OutgoingNotice, to address: NoticeAddress, where isFor: (String) -> Bool) {
        let now = uptime()
        let handed = state.withLock { state in
            (state.byAddress[address] ?? []).compactMap {
                id -> (CheckedContinuation<Delivery, Never>, NoticeFrame)? in
                guard let device = state.sessions[id]?.token.deviceID, isFor(device) else { return nil }
                guard let waiter = state.sessions[id]?.waiter else {
                    state.sessions[id]?.queue.put(notice, limits: limits, at: now)
                    return nil
                }
                state.sessions[id]?.waiter = nil
                return (waiter.continuation, notice.frame)
            }
        }
        for (waiter, frame) in handed { waiter.resume(returning: .notice(frame)) }
    }

    // MARK: Devices

    func isKnown(_ id: String) -> Bool { state.withLock { $0.sessions[id] != nil } }

    /// Adds a device.
    ///
    /// Returns the removed devices: the user's oldest ones beyond `limit`, and those that have been idle too long.
    func add(
        _ token: LongPollToken,
        at address: NoticeAddress,
        as connection: NoticeConnectionID,
        limit: Int
    ) -> [(AdmittedDevice, NoticeConnectionID)] {
        let now = uptime()
        let (gone, replaced) = state.withLock { state -> ([PollSession], PollSession?) in
            let order = state.number()
            let replaced = state.remove(token.id)
            state.sessions[token.id] = PollSession(
                token: token,
                address: address,
                connection: connection,
                lastPoll: now,
                order: order
            )
            state.byAddress[address, default: []].insert(token.id)
            let own = (state.byAddress[address] ?? []).sorted {
                state.sessions[$0]?.order ?? 0 < state.sessions[$1]?.order ?? 0
            }
            var leaving = Array(own.dropLast(limit))
            if now >= state.nextSweep {
                state.nextSweep = now + .seconds(60)
                leaving += state.sessions.values
                    .filter { $0.waiter == nil && now - $0.lastPoll > Self.idleTime }.map(\.token.id)
            }
            return (leaving.compactMap { state.remove($0) }, replaced)
        }
        // Two polls of a device that the relay had removed arrived at the same time; the later one waits.
        replaced?.waiter?.continuation.resume(returning: .nothing)
        for session in gone { session.waiter?.continuation.resume(returning: .gone) }
        return gone.map { ($0.device, $0.connection) }
    }

    /// Enqueues the first notices of a device.
    func put(_ notices: [OutgoingNotice], for id: String) {
        let now = uptime()
        state.withLock { state in
            for notice in notices { state.sessions[id]?.queue.put(notice, limits: limits, at: now) }
        }
    }

    // MARK: Polls

    /// Returns the next notice for a device as soon as there is one, or `nothing` after `longest`.
    ///
    /// Suspends until a notice, a timeout, the stop of the relay or cancellation, whichever comes first.
    func next(for id: String, longest: Duration) async -> Delivery {
        let number = state.withLock { $0.number() }
        let timer = Task { [weak self] in
            try? await Task.sleep(for: longest)
            self?.pollTimedOut(number, of: id)
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, number, id) }
        } onCancel: {
            pollTimedOut(number, of: id)
        }
    }

    private func wait(_ continuation: CheckedContinuation<Delivery, Never>, _ number: UInt64, _ id: String) {
        let now = uptime()
        let isCancelled = Task.isCancelled
        let (answer, replaced) = state.withLock {
            state -> (Delivery?, CheckedContinuation<Delivery, Never>?) in
            guard let lastTimedOut = state.sessions[id]?.lastTimedOut else { return (.gone, nil) }
            state.sessions[id]?.lastPoll = now
            let replaced = state.sessions[id]?.waiter?.continuation
            state.sessions[id]?.waiter = nil
            if state.isStopped || isCancelled { return (.nothing, replaced) }
            if let frame = state.sessions[id]?.queue.removeFirst() { return (.notice(frame), replaced) }
            guard number > lastTimedOut else { return (.nothing, replaced) }
            state.sessions[id]?.waiter = (number, continuation)
            return (nil, replaced)
        }
        replaced?.resume(returning: .nothing)
        if let answer { continuation.resume(returning: answer) }
    }

    private func pollTimedOut(_ number: UInt64, of id: String) {
        let waiter = state.withLock { state -> CheckedContinuation<Delivery, Never>? in
            let lastTimedOut = state.sessions[id]?.lastTimedOut ?? 0
            state.sessions[id]?.lastTimedOut = max(number, lastTimedOut)
            guard let waiter = state.sessions[id]?.waiter, waiter.number == number else { return nil }
            state.sessions[id]?.waiter = nil
            return waiter.continuation
        }
        waiter?.resume(returning: .nothing)
    }

    /// Ends all waiting polls because the relay stops.
    func stop() {
        let waiters = state.withLock { state in
            state.isStopped = true
            return state.sessions.keys.compactMap { id -> CheckedContinuation<Delivery, Never>? in
                defer { state.sessions[id]?.waiter = nil }
                return state.sessions[id]?.waiter?.continuation
            }
        }
        for waiter in waiters { waiter.resume(returning: .nothing) }
    }
}
