import Crypto
import Records
import RelayCore
import Synchronization
import Wire

/// Devices with a push registration; for the hub, an executor like an event loop.
///
/// Each device has a bounded queue of unsent notices, like a socket with a slow reader. While the queue is not empty, a
/// task of the device waits for the time that `PushSchedule` determines and passes the notices to the gateway.
final class PushWorker: NoticeWorker {
    private struct Registration {
        var device: PushDevice
        var connection: NoticeConnectionID
        var queue = NoticeQueue()
        var pace = PushSchedule()
        var task: Task<Void, Never>?
    }

    private struct State {
        var registrations: [String: Registration] = [:]
        var byAddress: [NoticeAddress: Set<String>] = [:]
        var isStopped = false

        mutating func remove(_ id: String) -> Registration? {
            guard let registration = registrations.removeValue(forKey: id) else { return nil }
            let address = registration.device.address
            byAddress[address]?.remove(id)
            if byAddress[address]?.isEmpty == true { byAddress[address] = nil }
            return registration
        }
    }

    /// The next action for a device.
    private enum NextStep {
        case wait(Duration)
        case send([OutgoingNotice], PushDevice)
        case end
    }

    /// Callbacks about registrations; called from tasks and other executors, never with a lock held.
    struct Events: Sendable {
        /// The registration has ended: the push service has rejected it, or its credential was revoked.
        var ended: @Sendable (PushDevice, NoticeConnectionID) -> Void
        /// The value of `lastFault` has changed.
        var faultChanged: @Sendable (PushDevice) -> Void
    }

    private let state = Mutex(State())
    private let gateway: any PushGateway
    private let limits: NoticeLimits
    private let uptime: @Sendable () -> Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    private let tasks: (any TaskExecutor)?
    private let isOwn: @Sendable (PushDevice) -> Bool
    private let isConnected: @Sendable (PushDevice) -> Bool
    private let events: Events

    /// Creates the executor.
    ///
    /// `sleep` uses the clock of `uptime` and throws when its task is cancelled; `isConnected` returns whether a device has
    /// an open socket, and `isOwn` whether this node sends its pushes.
    init(
        gateway: any PushGateway,
        limits: NoticeLimits,
        uptime: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void,
        tasks: (any TaskExecutor)?,
        isOwn: @escaping @Sendable (PushDevice) -> Bool,
        isConnected: @escaping @Sendable (PushDevice) -> Bool,
        events: Events
    ) {
        self.gateway = gateway
        self.limits = limits
        self.uptime = uptime
        self.sleep = sleep
        self.tasks = tasks
        self.isOwn = isOwn
        self.isConnected = isConnected
        self.events = events
    }

    // MARK: NoticeLane

    /// Performs the order immediately, since this only enqueues notices and starts tasks.
    func post(_ order: NoticeOrder) {
        switch order {
        case .deliver(let notice, let address, let device):
            let now = uptime()
            state.withLock { state in
                guard !state.isStopped else { return }
                for id in state.byAddress[address] ?? [] {
                    guard let known = state.registrations[id]?.device, known.deviceID != device, isOwn(known) else {
                        continue
                    }
                    put(notice, for: id, at: now, in: &state)
                }
            }
        case .remind, .renewed: break
        case .end(let connection, let address, _):
            let gone = state.withLock { state in
                (state.byAddress[address] ?? [])
                    .filter { state.registrations[$0]?.connection == connection }
                    .compactMap { state.remove($0) }
            }
            for registration in gone {
                registration.task?.cancel()
                events.ended(registration.device, registration.connection)
            }
        }
    }

    private func put(_ notice: OutgoingNotice, for id: String, at now: Duration, in state: inout State) {
        state.registrations[id]?.queue.put(notice, limits: limits, at: now)
        // An alert about a zone waits for the end of a burst of changes, which it also reports.
        let isUrgent = notice.aps != nil && notice.subject.match != nil
        guard state.registrations[id]?.pace.noticed(isUrgent: isUrgent, at: now) == true else { return }
        state.registrations[id]?.task = Task(executorPreference: tasks) { [weak self] in await self?.sendQueued(id) }
    }

    // MARK: Devices

    /// Adds a device.
    func add(_ device: PushDevice, as connection: NoticeConnectionID) {
        state.withLock { state in
            state.registrations[device.id] = Registration(device: device, connection: connection)
            state.byAddress[device.address, default: []].insert(device.id)
        }
    }

    /// Removes a device and returns it with its connection.
    func remove(_ id: String) -> (PushDevice, NoticeConnectionID)? {
        guard let registration = state.withLock({ $0.remove(id) }) else { return nil }
        registration.task?.cancel()
        return (registration.device, registration.connection)
    }

    /// Returns the registration of a user's device; `nil` if it has none.
    func device(_ deviceID: String, at address: NoticeAddress) -> PushDevice? {
        state.withLock { state in
            let id = state.byAddress[address]?.first { state.registrations[$0]?.device.deviceID == deviceID }
            return id.flatMap { state.registrations[$0]?.device }
        }
    }

    func devices(at address: NoticeAddress) -> [PushDevice] {
        state.withLock { state in (state.byAddress[address] ?? []).compactMap { state.registrations[$0]?.device } }
    }

    func devices(in home: ContainerEnvironment) -> [PushDevice] {
        state.withLock { $0.registrations.values.map(\.device).filter { $0.home == home } }
    }

    var devices: [PushDevice] { state.withLock { $0.registrations.values.map(\.device) } }

    func knows(_ id: String) -> Bool { state.withLock { $0.registrations[id] != nil } }

    /// The number of registered devices.
    var count: Int { state.withLock { $0.registrations.count } }

    /// Stops sending because the relay stops.
    ///
    /// Queued notices are lost, which notices permit; a device that wakes fetches all changes.
    func stop() {
        let tasks = state.withLock { state in
            state.isStopped = true
            return state.registrations.values.compactMap(\.task)
        }
        for task in tasks { task.cancel() }
    }

    // MARK: Sending

    /// Waits and sends until a device's queue is empty.
    private func sendQueued(_ id: String) async {
        while true {
            switch nextStep(of: id) {
            case .wait(let time):
                guard (try? await sleep(time)) != nil else { return }
            case .send(let notices, let device):
                guard pushCompleted(await send(notices, to: device), notices, device) else { return }
            case .end: return
            }
        }
    }

    private func nextStep(of id: String) -> NextStep {
        guard let device = state.withLock({ $0.registrations[id]?.device }) else { return .end }
        let hasSocket = isConnected(device)
        let now = uptime()
        return state.withLock { state in
            guard !state.isStopped, let step = state.registrations[id]?.pace.step(hasSocket: hasSocket, at: now) else {
                return .end
            }
            switch step {
            case .wait(let due): return .wait(due - now)
            case .send: return .send(state.registrations[id]?.queue.removeAllNotices() ?? [], device)
            case .idle:
                _ = state.registrations[id]?.queue.removeAll()
                return .end
            }
        }
    }

    /// Sends one push per notice; returns the first outcome other than `taken`, or `taken`.
    private func send(_ notices: [OutgoingNotice], to device: PushDevice) async -> PushOutcome {
        for notice in notices {
            let outcome = await gateway.send(Push(notice), to: device.target)
            if outcome != .taken { return outcome }
        }
        return .taken
    }

    /// Processes the outcome; returns whether there is more to send to the device.
    private func pushCompleted(_ outcome: PushOutcome, _ notices: [OutgoingNotice], _ device: PushDevice) -> Bool {
        let now = uptime()
        switch outcome {
        case .taken: note(nil, of: device)
        case .refused(let reason), .later(_, let reason): note(reason, of: device)
        case .gone:
            if let (device, connection) = remove(device.id) { events.ended(device, connection) }
            return false
        }
        return state.withLock { state in
            state.registrations[device.id]?.pace.sent(outcome, at: now)
            if case .later = outcome {
                // Notices that were accepted are sent again with the others: a push may be delivered twice.
                state.registrations[device.id]?.queue.putFirst(notices, limits: limits)
                return true
            }
            guard state.registrations[device.id]?.queue.isEmpty == false else { return false }
            _ = state.registrations[device.id]?.pace.noticed(isUrgent: false, at: now)
            return true
        }
    }
}

extension PushWorker {
    private func note(_ fault: String?, of device: PushDevice) {
        let changed = state.withLock { state -> PushDevice? in
            guard let known = state.registrations[device.id]?.device, known.lastFault != fault else { return nil }
            state.registrations[device.id]?.device.lastFault = fault
            return state.registrations[device.id]?.device
        }
        if let changed { events.faultChanged(changed) }
    }
}

extension PushDevice {
    /// The recipient of its notices.
    var address: NoticeAddress { NoticeAddress(store: home, user: user) }
}

extension Push {
    init(_ notice: OutgoingNotice) {
        let subject = notice.subject
        let text = [
            "\(subject.scope.rawValue)", subject.zone?.zoneName, subject.zone?.owner.recordName,
            subject.match?.subscriptionID, subject.match?.recordName,
        ]
        // 24 characters; push services allow at most 32.
        let digest = SHA256.hash(data: Array(text.map { $0 ?? "" }.joined(separator: "\n").utf8))
        self.init(
            payload: notice.frame.payload,
            topic: String(Hex.encode(digest).prefix(24)),
            alert: notice.aps.flatMap(Self.alert)
        )
    }

    /// The text of the alert; empty if there is only a sound or a badge.
    private static func alert(_ aps: [UInt8]) -> String? {
        guard let root = try? JSONDocument(parsing: aps).root, let alert = root["alert"] else { return "" }
        return (try? alert.string()) ?? (try? alert["body"]?.string()) ?? ""
    }
}
