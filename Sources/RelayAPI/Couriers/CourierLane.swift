import Records
import RelayCore
import Synchronization
import Wire

/// Devices that ask for notices again and again instead of holding a socket; to the hub a lane like another.
///
/// Each has a bounded queue of what came while it was not asking, as sockets have for slow readers, and at most one poll
/// that waits. Handing a notice out takes it off the queue. A device that has not asked for `idleTime` is forgotten.
final class CourierLane: NoticeLane {
    /// What a poll is answered with.
    enum Delivery: Sendable {
        case notice(NoticeFrame)
        /// Nothing came in time, or another poll has taken its place.
        case nothing
        /// The token's sign-in has ended, or the relay has forgotten the device.
        case gone
    }

    private struct Courier {
        var token: CourierToken
        var address: NoticeAddress
        var connection: NoticeConnectionID
        var queue = NoticeQueue()
        var waiter: (number: UInt64, continuation: CheckedContinuation<Delivery, Never>)?
        /// The latest poll whose time was over, be it before it came to wait.
        var lastGivenUp: UInt64 = 0
        /// When it last asked, or was made.
        var lastAsked: Duration
        var order: UInt64

        /// As the hub knows it.
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
    /// Hears of each device that an order has ended: the hub holds it for one that listens until it is told.
    private let left: @Sendable (AdmittedDevice, NoticeConnectionID) -> Void
    /// How long a device is remembered that does not ask.
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

    /// Carries the order out at once: all it does is to put into queues and to wake tasks.
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

    /// Takes a device in.
    ///
    /// Gives those that had to go: the user's oldest past `limit`, and whoever has not asked for long.
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
        // Two polls of one forgotten device have met; the later one waits.
        replaced?.waiter?.continuation.resume(returning: .nothing)
        for courier in gone { courier.waiter?.continuation.resume(returning: .gone) }
        return gone.map { ($0.device, $0.connection) }
    }

    /// Puts what a device has to hear of first.
    func put(_ notices: [OutgoingNotice], for id: String) {
        let now = uptime()
        state.withLock { state in
            for notice in notices { state.couriers[id]?.queue.put(notice, limits: limits, at: now) }
        }
    }

    // MARK: Polls

    /// The next notice for a device, as soon as there is one; nothing when `longest` has passed.
    ///
    /// Waits without a thread: for a notice, a timer, the relay's end or its own cancellation, whichever comes first.
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

    /// The relay stops: nobody waits any longer.
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
