import RelayCore
package import Wire

/// One notice connection, with no socket and no clock of its own.
///
///     awaitingHello --hello--> admitting --admitted, ready--> live --any end--> closed
///
/// `now` is time since any fixed moment. Nothing a peer sends can end in anything but effects.
package struct NoticeSession: Sendable {
    package enum Event: Sendable {
        /// A whole text message.
        case received(text: [UInt8])
        case receivedBinary
        case receivedPing(payload: [UInt8])
        case receivedPong
        /// The credentials of the hello are good; the token lives that much longer.
        case admitted(tokenLife: Duration?)
        /// The credentials are not, or the relay cannot serve this device now.
        case refused(NoticeClose)
        /// What it has missed is known.
        case caughtUp(ready: NoticeFrame, missed: [OutgoingNotice])
        case notice(OutgoingNotice)
        /// The answer to `renew`.
        case renewed(RenewedToken?)
        case writabilityChanged(Bool)
        /// Time has passed; due at `nextDeadline`, harmless at any time.
        case tick
        /// The relay ends the connection.
        case ended(NoticeClose)
        /// The peer has gone, or begun to close.
        case disconnected
    }

    package enum Effect: Sendable {
        case send(NoticeFrame)
        case ping
        case pong(payload: [UInt8])
        /// Check this hello, then say `admitted` or `refused`.
        case admit(NoticeHello)
        /// Ask for a fresh token, then say `renewed`.
        case renew
        /// Close with this; nothing follows.
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

    /// A connection whose upgrade has just been answered.
    package init(limits: NoticeLimits, at now: Duration) {
        self.limits = limits
        state = .awaitingHello(until: now + limits.helloTime)
        frames = TokenBucket(limits.frameRate, at: now)
        nextPing = now + limits.pingInterval
    }

    /// When `tick` is due next.
    package var nextDeadline: Duration {
        var next = nextPing
        if case .awaitingHello(let until) = state { next = min(next, until) }
        for deadline in [renewal, tokenEnd, queue.fullSince.map { $0 + limits.fullTime }] {
            if let deadline { next = min(next, deadline) }
        }
        return next
    }

    /// Whether the answer to a notice is to send it and nothing else.
    var passesNoticesOn: Bool {
        // Asked ten thousand times for one commit; to compare states would be a call.
        if case .live = state { isWritable && queue.isEmpty } else { false }
    }

    /// Notices that wait for the peer to read.
    var waiting: Int { queue.count }
    var isClosed: Bool { state == .closed }

    package mutating func handle(_ event: Event, at now: Duration) -> [Effect] {
        if case .closed = state { return [] }
        switch event {
        case .received(let text): return takes(now) ?? received(text)
        case .receivedBinary:
            if case .awaitingHello = state { return close(.badHello) }
            return takes(now) ?? close(.binary)
        case .receivedPing(let payload): return takes(now) ?? [.pong(payload: payload)]
        case .receivedPong:
            unansweredPings = 0
            return takes(now) ?? []
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

    // MARK: The peer's frames

    /// Counts one frame; the effects of there being too many.
    private mutating func takes(_ now: Duration) -> [Effect]? {
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
        case (_, .seen), (_, .unknown): return []
        }
    }

    // MARK: Coming up

    private mutating func admitted(tokenLife: Duration?, at now: Duration) -> [Effect] {
        schedule(tokenLife: tokenLife, at: now)
        return []
    }

    private mutating func caughtUp(_ ready: NoticeFrame, _ missed: [OutgoingNotice]) -> [Effect] {
        guard state == .admitting else { return [] }
        state = .live
        // What came in the meantime is newer than what was missed, so it stands where both speak of one zone.
        queue.putFirst(missed, limits: limits)
        return [.send(ready)] + flush()
    }

    // MARK: Notices

    private mutating func deliver(_ notice: OutgoingNotice, at now: Duration) -> [Effect] {
        guard passesNoticesOn else {
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
