import Records
import RelayCore
import Synchronization
import Wire

/// The sessions of devices that use long polls instead of a socket; for the hub, an executor like an event loop.
///
/// Each session has a bounded queue of the notices that arrive between polls, like that of a socket with a slow reader,
/// and at most one waiting poll. Delivering a notice removes it from the queue. A session without a poll for `idleTime`
/// is removed.
final class CourierLane: NoticeLane {
    /// The result of a poll.
    enum Delivery: Sendable {
        case notice(NoticeFrame)
        /// The time is over, or another poll has replaced this one.
        case nothing
        /// The session of the token has ended, or the relay has removed the device.
        case gone
    }

    private struct Courier {
        var token: CourierToken
        var address: NoticeAddress
        var connection: NoticeConnectionID
        var queue = NoticeQueue()
        var waiter: (number: UInt64, continuation: CheckedContinuation<Delivery, Never>)?
        /// The latest poll whose time was over, possibly before it began to wait.
        var lastGivenUp: UInt64 = 0
        /// The time of the latest poll, or of creation.
        var lastAsked: Duration
        var order: UInt64

        /// The device as registered with the hub.
        var device: AdmittedDevice { AdmittedDevice(address: address, deviceID: "courier-\(token.id)") }
    }

    private struct State {
        var couriers: [String: Courier] = [:]
        var byAddress: [NoticeAddress: Set<String>] = [:]
        var lastNumber: UInt64 = 0
        var nextSweep: Duration = .zero
        var isStopped = false

        mutating func number() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }

        mutating func remove(_ id: String) -> Courier? {
            guard let courier = couriers.removeValue(forKey: id) else { return nil }
            byAddress[courier.address]?.remove(id)
            if byAddress[courier.address]?.isEmpty == true { byAddress[courier.address] = nil }
            return courier
        }
    }

    private let state = Mutex(State())
    private let limits: NoticeLimits
    private let uptime: @Sendable () -> Duration
    /// Called for each device that an order has ended; the hub considers it connected until then.
    private let left: @Sendable (AdmittedDevice, NoticeConnectionID) -> Void
    /// How long a device without a poll is remembered.
    static let idleTime = Duration.seconds(600)

    init(
        limits: NoticeLimits,
        uptime: @escaping @Sendable () -> Duration,
        left: @escaping @Sendable (AdmittedDevice, NoticeConnectionID) -> Void
    ) {
        self.limits = limits
        self.uptime = uptime
        self.left = left
    }

    // MARK: NoticeLane

    /// Performs the order immediately, since this only enqueues notices and resumes tasks.
    func post(_ order: NoticeOrder) {
        switch order {
        case .deliver(let notice, let address, let device):
            let now = uptime()
            let handed = state.withLock { state in
                (state.byAddress[address] ?? []).compactMap {
                    id -> (CheckedContinuation<Delivery, Never>, NoticeFrame)? in
                    guard state.couriers[id]?.token.deviceID != device else { return nil }
                    guard let waiter = state.couriers[id]?.waiter else {
                        state.couriers[id]?.queue.put(notice, limits: limits, at: now)
                        return nil
                    }
                    state.couriers[id]?.waiter = nil
                    return (waiter.continuation, notice.frame)
                }
            }
            for (waiter, frame) in handed { waiter.resume(returning: .notice(frame)) }
        case .end(let connection, let address, _):
            let gone = state.withLock { state in
                (state.byAddress[address] ?? [])
                    .filter { state.couriers[$0]?.connection == connection }
                    .compactMap { state.remove($0) }
            }
            for courier in gone {
                left(courier.device, courier.connection)
                courier.waiter?.continuation.resume(returning: .gone)
            }
        }
    }

    // MARK: Devices

    func isKnown(_ id: String) -> Bool { state.withLock { $0.couriers[id] != nil } }

    /// Adds a device.
    ///
    /// Returns the removed devices: the user's oldest ones beyond `limit`, and those that have been idle too long.
    func add(
        _ token: CourierToken,
        at address: NoticeAddress,
        as connection: NoticeConnectionID,
        limit: Int
    ) -> [(AdmittedDevice, NoticeConnectionID)] {
        let now = uptime()
        let (gone, replaced) = state.withLock { state -> ([Courier], Courier?) in
            let order = state.number()
            let replaced = state.remove(token.id)
            state.couriers[token.id] = Courier(
                token: token,
                address: address,
                connection: connection,
                lastAsked: now,
                order: order
            )
            state.byAddress[address, default: []].insert(token.id)
            let own = (state.byAddress[address] ?? []).sorted {
                state.couriers[$0]?.order ?? 0 < state.couriers[$1]?.order ?? 0
            }
            var leaving = Array(own.dropLast(limit))
            if now >= state.nextSweep {
                state.nextSweep = now + .seconds(60)
                leaving += state.couriers.values
                    .filter { $0.waiter == nil && now - $0.lastAsked > Self.idleTime }.map(\.token.id)
            }
            return (leaving.compactMap { state.remove($0) }, replaced)
        }
        // Two polls of a device that the relay had removed arrived at the same time; the later one waits.
        replaced?.waiter?.continuation.resume(returning: .nothing)
        for courier in gone { courier.waiter?.continuation.resume(returning: .gone) }
        return gone.map { ($0.device, $0.connection) }
    }

    /// Enqueues the first notices of a device.
    func put(_ notices: [OutgoingNotice], for id: String) {
        let now = uptime()
        state.withLock { state in
            for notice in notices { state.couriers[id]?.queue.put(notice, limits: limits, at: now) }
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
            self?.giveUp(number, of: id)
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, number, id) }
        } onCancel: {
            giveUp(number, of: id)
        }
    }

    private func wait(_ continuation: CheckedContinuation<Delivery, Never>, _ number: UInt64, _ id: String) {
        let now = uptime()
        let isCancelled = Task.isCancelled
        let (answer, replaced) = state.withLock {
            state -> (Delivery?, CheckedContinuation<Delivery, Never>?) in
            guard let lastGivenUp = state.couriers[id]?.lastGivenUp else { return (.gone, nil) }
            state.couriers[id]?.lastAsked = now
            let replaced = state.couriers[id]?.waiter?.continuation
            state.couriers[id]?.waiter = nil
            if state.isStopped || isCancelled { return (.nothing, replaced) }
            if let frame = state.couriers[id]?.queue.removeFirst() { return (.notice(frame), replaced) }
            guard number > lastGivenUp else { return (.nothing, replaced) }
            state.couriers[id]?.waiter = (number, continuation)
            return (nil, replaced)
        }
        replaced?.resume(returning: .nothing)
        if let answer { continuation.resume(returning: answer) }
    }

    private func giveUp(_ number: UInt64, of id: String) {
        let waiter = state.withLock { state -> CheckedContinuation<Delivery, Never>? in
            let lastGivenUp = state.couriers[id]?.lastGivenUp ?? 0
            state.couriers[id]?.lastGivenUp = max(number, lastGivenUp)
            guard let waiter = state.couriers[id]?.waiter, waiter.number == number else { return nil }
            state.couriers[id]?.waiter = nil
            return waiter.continuation
        }
        waiter?.resume(returning: .nothing)
    }

    /// Ends all waiting polls because the relay stops.
    func stop() {
        let waiters = state.withLock { state in
            state.isStopped = true
            return state.couriers.keys.compactMap { id -> CheckedContinuation<Delivery, Never>? in
                defer { state.couriers[id]?.waiter = nil }
                return state.couriers[id]?.waiter?.continuation
            }
        }
        for waiter in waiters { waiter.resume(returning: .nothing) }
    }
}
