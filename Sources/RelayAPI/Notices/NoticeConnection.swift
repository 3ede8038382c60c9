import Records
import RelayCore
import Synchronization
import Wire

/// The transport of a notice connection, which performs the effects of the session.
///
/// Confined to the connection's event loop.
package protocol NoticeTransport: AnyObject {
    /// Writes a text message.
    ///
    /// May be called while the peer is slow; the transport then buffers the message.
    func send(_ frame: NoticeFrame)
    /// Writes several text messages, with one write if possible.
    func send(_ frames: [NoticeFrame])
    func sendPing()
    func sendPong(_ payload: [UInt8])
    /// Starts the closing handshake after the messages sent so far.
    func close(_ reason: NoticeClose)
}

extension NoticeTransport {
    package func send(_ frames: [NoticeFrame]) {
        for frame in frames { send(frame) }
    }
}

/// One notice connection: its session, its registration with the hub, and the transport that performs its effects.
///
/// Confined to its event loop, including all calls of the transport. Only `admit` suspends.
package final class NoticeConnection {
    package let id: NoticeConnectionID
    /// `nil` until the device is admitted.
    private(set) var deviceID: String?
    private let hub: NoticeHub
    private let tally = NoticeTally()
    private let worker: Int
    private let registry: NoticeConnectionRegistry
    /// The upgrade request.
    ///
    /// Released once the device is admitted, like the hello, to save memory in idle connections.
    private var request: APIRequest?
    private let admission: any NoticeAdmission
    private let uptime: @Sendable () -> Duration
    /// The transport owns this connection; `closed` breaks the reference cycle.
    private var transport: (any NoticeTransport)?
    private var session: NoticeSession
    private var device: AdmittedDevice?
    private var isOver = false
    private var hello: NoticeHello?
    private var helloWaiter: UnsafeContinuation<Void, Never>?
    private var startAdmission: ((NoticeConnection) -> Void)?

    /// - Parameters:
    ///   - request: The upgrade request.
    ///   - hub: The hub to join.
    ///   - worker: The number of the event loop in the hub.
    ///   - registry: The connections of that event loop.
    ///   - admission: Authenticates the device.
    ///   - uptime: A monotonic clock.
    ///   - transport: The transport, which owns this connection.
    ///   - startAdmission: Must call `admit` in a task; called only if admission has to suspend. If `nil`, the creator must
    ///     call `admit`.
    package init(
        request: APIRequest,
        hub: NoticeHub,
        worker: Int,
        registry: NoticeConnectionRegistry,
        admission: any NoticeAdmission,
        uptime: @escaping @Sendable () -> Duration,
        transport: any NoticeTransport,
        startAdmission: ((NoticeConnection) -> Void)? = nil
    ) {
        self.startAdmission = startAdmission
        id = hub.newConnectionID()
        self.request = request
        self.hub = hub
        self.worker = worker
        self.registry = registry
        self.admission = admission
        self.uptime = uptime
        self.transport = transport
        session = NoticeSession(limits: hub.limits, at: uptime())
    }

    // MARK: Transport events

    /// Handles an event of the transport or the peer.
    package func handle(_ event: NoticeSession.Event) {
        let waiting = session.waiting
        let effects = session.handle(event, at: uptime())
        if waiting > 0 || effects.count > 1 { count(effects, of: event, after: waiting) }
        if waiting > 0 { tally.setWaiting(session.waiting) }
        perform(effects)
    }

    /// Updates the tally for the notices that were queued before the event.
    private func count(_ effects: [NoticeSession.Effect], of event: NoticeSession.Event, after waiting: Int) {
        if session.isClosed {
            tally.countDropped(waiting)
        } else if case .caughtUp = event {
            // The first frame is `ready`, not a notice.
            tally.countSent(max(0, effects.count - 1))
        } else {
            tally.countSent(max(0, waiting - session.waiting))
        }
    }

    /// Handles timeouts.
    ///
    /// Call at least once a second.
    package func tick() {
        let now = uptime()
        guard now >= session.nextDeadline else { return }
        perform(session.handle(.tick, at: now))
    }

    /// Waits for the hello and admits or refuses the device; returns when that is done or the connection is over.
    ///
    /// The only task that a connection needs, and only until it is live. Runs on the connection's event loop.
    package func admit() async {
        if hello == nil, !isOver { await withUnsafeContinuation { helloWaiter = $0 } }
        guard let hello, let request, !isOver else { return }
        self.hello = nil
        self.request = nil
        do throws(NoticeClose) {
            let device = try await admission.admit(request, hello: hello)
            let revision = try joinHub(device)
            caughtUp(try await admission.catchUpWaiting(device, since: hello.since), device, revision)
        } catch {
            handle(.refused(error))
        }
    }

    /// Admits or refuses the device if that is possible without suspending; otherwise returns `false`.
    private func admitAtOnce(_ hello: NoticeHello) -> Bool {
        guard let request else { return true }
        do throws(NoticeClose) {
            guard let device = try admission.admitAtOnce(request, hello: hello) else { return false }
            self.hello = nil
            self.request = nil
            let revision = try joinHub(device)
            caughtUp(try admission.catchUp(device, since: hello.since), device, revision)
        } catch {
            handle(.refused(error))
        }
        return true
    }

    /// Closes the connection on the relay's initiative.
    package func end(_ reason: NoticeClose) { handle(.ended(reason)) }

    func deliver(_ notice: OutgoingNotice) {
        // Hot path: ten thousand connections may take it for one commit, so it allocates nothing and reads no clock.
        if session.sendsDirectly, let transport {
            tally.countSent()
            return transport.send(notice.frame)
        }
        let waiting = session.waiting
        let effects = session.handle(.notice(notice), at: uptime())
        if effects.isEmpty { tally.countMerged(max(0, waiting + 1 - session.waiting)) } else { tally.countSent() }
        tally.setWaiting(session.waiting)
        perform(effects)
    }

    // MARK: Admission

    /// Joins the hub before anything is read; from here on no change is missed.
    private func joinHub(_ device: AdmittedDevice) throws(NoticeClose) -> Int {
        guard !isOver else { throw .noPong }
        let revision = try hub.join(device, as: id, on: worker, tally: tally, at: uptime())
        self.device = device
        deviceID = device.deviceID
        registry.add(self, at: device.address)
        handle(.admitted(tokenLife: device.tokenLife))
        return revision
    }

    private func caughtUp(_ news: NoticeCatchUp, _ device: AdmittedDevice, _ revision: Int) {
        guard !isOver else { return }
        let subscriptions = hub.subscriptionsRead(news.subscriptions, of: device.address, revision: revision)
        let ready = NoticeReady(
            userRecordName: device.address.user.recordName,
            subscriptions: subscriptions.ids,
            pingInterval: Int(hub.limits.pingInterval.components.seconds),
            relay: hub.relayName
        )
        let missed = missedNotices(news, device.address, subscriptions) + news.matches.map { OutgoingNotice($0) }
        handle(.caughtUp(ready: NoticeFrame(.ready(ready)), missed: missed))
    }

    private func missedNotices(
        _ news: NoticeCatchUp,
        _ address: NoticeAddress,
        _ subscriptions: NoticeSubscriptions
    ) -> [OutgoingNotice] {
        news.news.sorted { $0.key.rawValue < $1.key.rawValue }
            .flatMap { scope, news in
                let zones: [NoticeCatchUp.Zone?]
                switch news {
                case .zones(let changed): zones = changed.count <= hub.limits.catchUpZones ? changed : [nil]
                case .manyZones: zones = [nil]
                }
                return zones.compactMap { zone in
                    hub.notice(
                        about: NoticeSubject(scope: scope, zone: zone?.zone),
                        syncToken: zone?.syncToken,
                        for: address,
                        subscriptions: subscriptions
                    )
                }
            }
    }

    // MARK: Effects

    private func perform(_ effects: [NoticeSession.Effect]) {
        if effects.count > 1 {
            let frames = effects.compactMap { if case .send(let frame) = $0 { frame } else { nil } }
            if frames.count == effects.count {
                transport?.send(frames)
                return
            }
        }
        for effect in effects {
            switch effect {
            case .send(let frame): transport?.send(frame)
            case .ping: transport?.sendPing()
            case .pong(let payload): transport?.sendPong(payload)
            case .admit(let hello):
                self.hello = hello
                guard let startAdmission else {
                    resumeAdmission()
                    continue
                }
                self.startAdmission = nil
                if !admitAtOnce(hello) { startAdmission(self) }
            case .renew:
                guard let device else { continue }
                admission.renewToken(of: device) { [hub, worker, id] token in
                    hub.post(.renewed(token, for: id, of: device.address), on: worker)
                }
            case .close(let reason):
                leave()
                transport?.close(reason)
            }
        }
    }

    /// Must be called when the transport has closed or begins to close.
    ///
    /// Ends the session and releases the transport.
    package func closed() {
        tally.countDropped(session.waiting)
        _ = session.handle(.disconnected, at: uptime())
        leave()
        transport = nil
    }

    private func leave() {
        guard !isOver else { return }
        isOver = true
        startAdmission = nil
        resumeAdmission()
        guard let device else { return }
        registry.remove(self, at: device.address)
        hub.leave(device, as: id, tally: tally)
    }

    private func resumeAdmission() {
        helloWaiter?.resume()
        helloWaiter = nil
    }
}

/// Counts the notices of one connection.
///
/// Only the event loop of the connection writes, so that counting is a plain addition; any thread may read.
package final class NoticeTally: Sendable {
    private let sent = Atomic<Int>(0)
    private let merged = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let waiting = Atomic<Int>(0)

    package init() {}

    package struct Counts: Codable, Hashable, Sendable {
        /// Written to the connection.
        package var sent = 0
        /// Merged with a queued notice about the same zone, or about the same database if the queue was full.
        package var merged = 0
        /// Queued when the connection ended; the device catches up when it reconnects.
        package var dropped = 0
        /// Queued now because the client reads slowly.
        package var waiting = 0

        package init() {}

        mutating func add(_ more: Counts) {
            sent += more.sent
            merged += more.merged
            dropped += more.dropped
            waiting += more.waiting
        }

        /// Returns the counts that follow from continuing to count at `earlier`; what waited then is gone.
        package func continuing(_ earlier: Counts) -> Counts {
            var sum = self
            sum.sent &+= earlier.sent
            sum.merged &+= earlier.merged
            sum.dropped &+= earlier.dropped
            return sum
        }
    }

    package var counts: Counts {
        var counts = Counts()
        counts.sent = sent.load(ordering: .relaxed)
        counts.merged = merged.load(ordering: .relaxed)
        counts.dropped = dropped.load(ordering: .relaxed)
        counts.waiting = waiting.load(ordering: .relaxed)
        return counts
    }

    func countSent(_ count: Int = 1) { Self.add(count, to: sent) }
    func countMerged(_ count: Int = 1) { Self.add(count, to: merged) }
    func countDropped(_ count: Int) { Self.add(count, to: dropped) }
    func setWaiting(_ count: Int) { waiting.store(count, ordering: .relaxed) }

    /// Needs no atomic addition because there is only one writer.
    private static func add(_ count: Int, to counter: borrowing Atomic<Int>) {
        counter.store(counter.load(ordering: .relaxed) &+ count, ordering: .relaxed)
    }
}
