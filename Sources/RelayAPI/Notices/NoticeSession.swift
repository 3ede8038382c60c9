package import RelayCore
package import Wire

/// The state machine of one notice connection, without socket or clock.
///
///     awaitingHello --hello--> admitting --admitted, ready--> live --any end--> closed
///
/// `now` is the time since an arbitrary fixed moment. Nothing that a peer sends can cause a trap.
package struct NoticeSession: Sendable {
    package enum Event: Sendable {
        /// A complete text message.
        case received(text: [UInt8])
        case receivedBinary
        case receivedPing(payload: [UInt8])
        case receivedPong
        /// The credentials of the hello are valid; the token expires after this time.
        case admitted(tokenLife: Duration?)
        /// The credentials are invalid, or the relay cannot serve this device now.
        case refused(NoticeClose)
        /// The subscriptions and the missed notices have been read.
        case caughtUp(ready: NoticeFrame, missed: [OutgoingNotice])
        case notice(OutgoingNotice)
        /// The result of the effect `renew`.
        case renewed(RenewedToken?)
        case writabilityChanged(Bool)
        /// Time has passed; due at `nextDeadline`, harmless at any time.
        case tick
        /// The relay closes the connection.
        case ended(NoticeClose)
        /// The peer has disconnected or begun to close.
        case disconnected
    }

    package enum Effect: Sendable {
        case send(NoticeFrame)
        case ping
        case pong(payload: [UInt8])
        /// Check this hello, then report `admitted` or `refused`.
        case admit(NoticeHello)
        /// Obtain a new token, then report `renewed`.
        case renew
        /// Close with this reason; no effect follows.
        case close(NoticeClose)
    }

    private enum State: Equatable {
        case awaitingHello(until: Duration)
        case admitting
        case live
        case closed
    }

    private var state: State
    private let limits: NoticeLimits
    private var queue = NoticeQueue()
    private var isWritable = true
    private var frames: TokenBucket
    private var nextPing: Duration
    private var unansweredPings = 0
    private var renewal: Duration?
    private var tokenEnd: Duration?

    /// Creates the session of a connection that has just been upgraded.
    package init(limits: NoticeLimits, at now: Duration) {
        self.limits = limits
        state = .awaitingHello(until: now + limits.helloTime)
        frames = TokenBucket(limits.frameRate, at: now)
        nextPing = now + limits.pingInterval
    }

    /// The time at which `tick` is due next.
    package var nextDeadline: Duration {
        var next = nextPing
        if case .awaitingHello(let until) = state { next = min(next, until) }
        for deadline in [renewal, tokenEnd, queue.fullSince.map { $0 + limits.fullTime }] {
            if let deadline { next = min(next, deadline) }
        }
        return next
    }

    /// Whether the only effect of a notice is to send it.
    var sendsDirectly: Bool {
        // Hot path, ten thousand calls per commit; comparing states with `==` would be a function call.
        if case .live = state { isWritable && queue.isEmpty } else { false }
    }

    /// The number of queued notices.
    var waiting: Int { queue.count }
    var isClosed: Bool { state == .closed }

    package mutating func handle(_ event: Event, at now: Duration) -> [Effect] {
        if case .closed = state { return [] }
        switch event {
        case .received(let text): return chargeFrame(now) ?? received(text)
        case .receivedBinary:
            if case .awaitingHello = state { return close(.badHello) }
            return chargeFrame(now) ?? close(.binary)
        case .receivedPing(let payload): return chargeFrame(now) ?? [.pong(payload: payload)]
        case .receivedPong:
            unansweredPings = 0
            return chargeFrame(now) ?? []
        case .admitted(let life): return admitted(tokenLife: life, at: now)
        case .refused(let reason): return close(reason)
        case .caughtUp(let ready, let missed): return caughtUp(ready, missed)
        case .notice(let notice): return deliver(notice, at: now)
        case .renewed(let token): return renewed(token, at: now)
        case .writabilityChanged(let isWritable):
            self.isWritable = isWritable
            return flush()
        case .tick: return tick(now)
        case .ended(let reason): return close(reason)
        case .disconnected:
            state = .closed
            queue = NoticeQueue()
            return []
        }
    }

    // MARK: Frames of the peer

    private static let pong = NoticeFrame(.pong)

    /// Counts one frame; returns the effects if the rate is exceeded.
    private mutating func chargeFrame(_ now: Duration) -> [Effect]? {
        frames.take(limits.frameRate, at: now) == nil ? nil : close(.tooManyFrames)
    }

    private mutating func received(_ text: [UInt8]) -> [Effect] {
        guard let frame = try? ClientFrame(decoding: text) else {
            if case .awaitingHello = state { return close(.badHello) }
            return close(.badFrame)
        }
        switch (state, frame) {
        case (.awaitingHello, .hello(let hello)):
            state = .admitting
            return [.admit(hello)]
        case (.awaitingHello, _): return close(.badHello)
        case (_, .hello): return close(.badFrame)
        // A peer that does not read gets no pong: the frames that wait for it are answer enough.
        case (_, .ping): return isWritable ? [.send(Self.pong)] : []
        case (_, .seen), (_, .unknown): return []
        }
    }

    // MARK: Admission

    private mutating func admitted(tokenLife: Duration?, at now: Duration) -> [Effect] {
        schedule(tokenLife: tokenLife, at: now)
        return []
    }

    private mutating func caughtUp(_ ready: NoticeFrame, _ missed: [OutgoingNotice]) -> [Effect] {
        guard state == .admitting else { return [] }
        state = .live
        // Notices queued in the meantime are newer than the missed ones and take precedence for the same zone.
        queue.putFirst(missed, limits: limits)
        return [.send(ready)] + flush()
    }

    // MARK: Notices

    private mutating func deliver(_ notice: OutgoingNotice, at now: Duration) -> [Effect] {
        guard sendsDirectly else {
            queue.put(notice, limits: limits, at: now)
            return []
        }
        return [.send(notice.frame)]
    }

    private mutating func flush() -> [Effect] {
        guard state == .live, isWritable, !queue.isEmpty else { return [] }
        return queue.removeAll().map { .send($0) }
    }

    // MARK: Time

    private mutating func tick(_ now: Duration) -> [Effect] {
        if case .awaitingHello(let until) = state, now >= until { return close(.noHello) }
        if let tokenEnd, now >= tokenEnd { return close(.tokenExpired) }
        if let since = queue.fullSince, now >= since + limits.fullTime { return close(.tooSlow) }
        var effects: [Effect] = []
        if let renewal, now >= renewal {
            self.renewal = nil
            effects.append(.renew)
        }
        if now >= nextPing {
            if unansweredPings >= limits.missedPings { return close(.noPong) }
            unansweredPings += 1
            nextPing = now + limits.pingInterval
            effects.append(.ping)
        }
        return effects
    }

    private mutating func renewed(_ token: RenewedToken?, at now: Duration) -> [Effect] {
        guard let token else { return [] }
        schedule(tokenLife: token.life, at: now)
        return [.send(NoticeFrame(.renewed(webAuthToken: token.webAuthToken)))]
    }

    private mutating func schedule(tokenLife: Duration?, at now: Duration) {
        guard let tokenLife else { return }
        tokenEnd = now + tokenLife
        renewal = now + max(tokenLife - limits.renewalMargin, tokenLife * 9 / 10)
    }

    private mutating func close(_ reason: NoticeClose) -> [Effect] {
        state = .closed
        queue = NoticeQueue()
        guard let goodbye = reason.goodbye, isWritable else { return [.close(reason)] }
        let frame = ServerFrame.goodbye(reason: reason.reason, retryAfter: goodbye.retryAfter)
        return [.send(NoticeFrame(frame)), .close(reason)]
    }
}

/// Why a notice connection is closed: a close code and a short text.
///
/// See Notices.md, "Close codes".
package struct NoticeClose: Error, Hashable, Sendable {
    package var code: UInt16
    /// At most 123 bytes, for readers of a log; contains nothing that the client sent.
    package var reason: String
    /// The content of a `goodbye` frame sent before the close, if the relay closes the connection on its own
    /// initiative.
    package var goodbye: Goodbye?

    package struct Goodbye: Hashable, Sendable {
        /// In seconds.
        package var retryAfter: Double?

        package init(retryAfter: Double? = nil) { self.retryAfter = retryAfter }
    }

    package init(code: UInt16, reason: String, goodbye: Goodbye? = nil) {
        self.code = code
        self.reason = reason
        self.goodbye = goodbye
    }

    package static let stopping = NoticeClose(code: 1001, reason: "relay stopping", goodbye: Goodbye(retryAfter: 2))
    package static let noPong = NoticeClose(code: 1001, reason: "no pong")
    package static let binary = NoticeClose(code: 1003, reason: "text frames only")
    package static let tooManyFrames = NoticeClose(code: 1008, reason: "too many frames")
    package static let tooSlow = NoticeClose(code: 1013, reason: "notices are not being read")
    package static let tryLater = NoticeClose(code: 1013, reason: "try again later", goodbye: Goodbye(retryAfter: 5))
    package static let badHello = NoticeClose(code: 4400, reason: "bad hello")
    package static let badFrame = NoticeClose(code: 4400, reason: "not a frame of this protocol")
    package static let notAuthenticated = NoticeClose(code: 4401, reason: "not authenticated")
    package static let revoked = NoticeClose(code: 4401, reason: "signed out", goodbye: Goodbye())
    package static let originRefused = NoticeClose(code: 4403, reason: "origin refused")
    package static let containerRefused = NoticeClose(code: 4403, reason: "container refused")
    package static let noHello = NoticeClose(code: 4408, reason: "no hello in time")
    package static let replaced = NoticeClose(code: 4409, reason: "replaced by the same device", goodbye: Goodbye())
    package static let tokenExpired = NoticeClose(
        code: 4450,
        reason: "web auth token expired",
        goodbye: Goodbye(retryAfter: 0)
    )
    package static let tooManyConnections = NoticeClose(
        code: 4451,
        reason: "too many connections of this user",
        goodbye: Goodbye(retryAfter: 30)
    )
}

/// The limits of one notice connection.
///
/// See Reliability.md, "Limits", and Notices.md, "Keeping alive".
package struct NoticeLimits: Sendable {
    /// The time from the upgrade to a valid hello.
    ///
    /// When exceeded: close 4408.
    package var helloTime: Duration = .seconds(10)
    /// The time between two pings.
    ///
    /// Proxies commonly close connections after 60 s of silence.
    package var pingInterval: Duration = .seconds(30)
    /// The number of consecutive pings without a pong after which the peer counts as disconnected.
    package var missedPings = 2
    /// The rate of frames from a client.
    ///
    /// Counts all frames, since a client sends few after its hello. When exceeded: close 1008.
    package var frameRate = RateLimit(perSecond: 20, burst: 100)
    /// The number of notices queued for a slow reader before they collapse into one for the database.
    package var queuedNotices = 256
    /// The number of bytes of queued notices, with the same effect.
    package var queuedBytes = 64 * 1024
    /// How long the queue of a slow reader may stay over its limit.
    ///
    /// When exceeded: close 1013; the client reconnects and fetches.
    package var fullTime: Duration = .seconds(15)
    /// The number of open connections of one user.
    ///
    /// When exceeded: close 4451.
    package var connectionsPerUser = 50
    /// A new web auth token is sent at most this long before the old one expires, and not before 90 % of its life.
    package var renewalMargin: Duration = .seconds(60)
    /// If more zones than this have changed since a device disconnected, it gets one notice for the database instead.
    package var catchUpZones = 20

    package init() {}
}
