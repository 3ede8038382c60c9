import Records
import RelayCore
import Wire

/// The transport's side of a notice connection: what it does when the session says so.
///
/// Confined to the lane.
package protocol NoticeOutlet: AnyObject {
    /// Writes a text message.
    ///
    /// May be called while the peer is slow; then the transport buffers it.
    func send(_ frame: NoticeFrame)
    /// Writes several, in one go where it can.
    func send(_ frames: [NoticeFrame])
    func sendPing()
    func sendPong(_ payload: [UInt8])
    /// Begins the closing handshake, after what has been sent.
    func close(_ reason: NoticeClose)
}

extension NoticeOutlet {
    package func send(_ frames: [NoticeFrame]) {
        for frame in frames { send(frame) }
    }
}

/// A notice connection on its lane: the session, its place in the hub, and the outlet that its effects go to.
///
/// Confined to its lane, every call and the outlet's too. `admit` is the only one that waits.
package final class NoticeConnection {
    package let id: NoticeConnectionID
    /// Known once admitted.
    private(set) var deviceID: String?
    private let hub: NoticeHub
    private let tally = NoticeTally()
    private let lane: Int
    private let roll: NoticeLaneRoll
    /// The upgrade request; given up once the device is in, as is the hello: an idle connection keeps neither.
    private var request: APIRequest?
    private let admission: any NoticeAdmission
    private let uptime: @Sendable () -> Duration
    /// The outlet owns this connection, until `closed` lets go of it.
    private var outlet: (any NoticeOutlet)?
    private var session: NoticeSession
    private var device: AdmittedDevice?
    private var isOver = false
    private var hello: NoticeHello?
    private var helloWaiter: UnsafeContinuation<Void, Never>?
    private var needsTask: ((NoticeConnection) -> Void)?

    /// - Parameters:
    ///   - request: The upgrade request.
    ///   - hub: Where it will listen.
    ///   - lane: The lane's number in the hub.
    ///   - roll: The lane's own roll.
    ///   - admission: Who decides whether it may.
    ///   - uptime: Time since some fixed moment.
    ///   - outlet: The transport, which owns this connection.
    ///   - needsTask: Calls `admit` in a task, asked for only where that has to wait; without it the maker calls `admit`.
    package init(
        request: APIRequest,
        hub: NoticeHub,
        lane: Int,
        roll: NoticeLaneRoll,
        admission: any NoticeAdmission,
        uptime: @escaping @Sendable () -> Duration,
        outlet: any NoticeOutlet,
        needsTask: ((NoticeConnection) -> Void)? = nil
    ) {
        self.needsTask = needsTask
        id = hub.newConnectionID()
        self.request = request
        self.hub = hub
        self.lane = lane
        self.roll = roll
        self.admission = admission
        self.uptime = uptime
        self.outlet = outlet
        session = NoticeSession(limits: hub.limits, at: uptime())
    }

    // MARK: What the transport tells

    /// Hands on what a peer did, or what became of the connection.
    package func handle(_ event: NoticeSession.Event) {
        let waiting = session.waiting
        let effects = session.handle(event, at: uptime())
        if waiting > 0 || effects.count > 1 { count(effects, of: event, after: waiting) }
        if waiting > 0 { tally.waits(session.waiting) }
        perform(effects)
    }

    /// Counts what has become of the notices that waited.
    private func count(_ effects: [NoticeSession.Effect], of event: NoticeSession.Event, after waiting: Int) {
        if session.isClosed {
            tally.countDropped(waiting)
        } else if case .caughtUp = event {
            // The first frame says that the connection is up.
            tally.countSent(max(0, effects.count - 1))
        } else {
            tally.countSent(max(0, waiting - session.waiting))
        }
    }

    /// To be called now and then, at least every second.
    package func tick() {
        let now = uptime()
        guard now >= session.nextDeadline else { return }
        perform(session.handle(.tick, at: now))
    }

    /// Waits for the hello and lets the device in or not; returns when that is decided or the connection is over.
    ///
    /// The only task that a connection needs, and only until it is up. Runs on the lane.
    package func admit() async {
        if hello == nil, !isOver { await withUnsafeContinuation { helloWaiter = $0 } }
        guard let hello, let request, !isOver else { return }
        self.hello = nil
        self.request = nil
        do throws(NoticeClose) {
            try comeUp(try await admission.admit(request, hello: hello), since: hello.since)
        } catch {
            handle(.refused(error))
        }
    }

    /// Lets the device in or not, where that needs no wait; false where it does.
    private func admitAtOnce(_ hello: NoticeHello) -> Bool {
        guard let request else { return true }
        do throws(NoticeClose) {
            guard let device = try admission.admitAtOnce(request, hello: hello) else { return false }
            self.hello = nil
            self.request = nil
            try comeUp(device, since: hello.since)
        } catch {
            handle(.refused(error))
        }
        return true
    }

    /// Ends the connection for a reason of the relay's.
    package func end(_ reason: NoticeClose) { handle(.ended(reason)) }

    func deliver(_ notice: OutgoingNotice) {
        // The one path that ten thousand connections take for one commit: nothing is made and no clock is read.
        if session.passesNoticesOn, let outlet {
            tally.countSent()
            return outlet.send(notice.frame)
        }
        let waiting = session.waiting
        let effects = session.handle(.notice(notice), at: uptime())
        if effects.isEmpty { tally.countMerged(max(0, waiting + 1 - session.waiting)) } else { tally.countSent() }
        tally.waits(session.waiting)
        perform(effects)
    }

    // MARK: Coming up

    /// Joins the hub, before anything is read: from here on no change is missed.
    private func enter(_ device: AdmittedDevice) throws(NoticeClose) -> Int {
        guard !isOver else { throw .noPong }
        let mark = try hub.join(device, as: id, on: lane, tally: tally, at: uptime())
        self.device = device
        deviceID = device.deviceID
        roll.add(self, at: device.address)
        handle(.admitted(tokenLife: device.tokenLife))
        return mark
    }

    private func comeUp(_ device: AdmittedDevice, since: [DatabaseScope: String]) throws(NoticeClose) {
        let mark = try enter(device)
        let news = try admission.catchUp(device, since: since)
        guard !isOver else { return }
        let subscriptions = hub.learned(news.subscriptions, of: device.address, mark: mark)
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
                outlet?.send(frames)
                return
            }
        }
        for effect in effects {
            switch effect {
            case .send(let frame): outlet?.send(frame)
            case .ping: outlet?.sendPing()
            case .pong(let payload): outlet?.sendPong(payload)
            case .admit(let hello):
                self.hello = hello
                guard let needsTask else {
                    wakeAdmission()
                    continue
                }
                self.needsTask = nil
                if !admitAtOnce(hello) { needsTask(self) }
            case .renew:
                guard let device else { continue }
                handle(.renewed(admission.renewedToken(for: device)))
            case .close(let reason):
                leave()
                outlet?.close(reason)
            }
        }
    }

    /// The transport is closed, or closing: nothing more comes or goes.
    package func closed() {
        tally.countDropped(session.waiting)
        _ = session.handle(.disconnected, at: uptime())
        leave()
        outlet = nil
    }

    private func leave() {
        guard !isOver else { return }
        isOver = true
        needsTask = nil
        wakeAdmission()
        guard let device else { return }
        roll.remove(self, at: device.address)
        hub.leave(device, as: id, tally: tally)
    }

    private func wakeAdmission() {
        helloWaiter?.resume()
        helloWaiter = nil
    }
}
