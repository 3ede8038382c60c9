/// The state machine of one client's notice connection, without a socket or a clock of its own.
///
/// See Notices.md, "Connecting", "Keeping alive", "Close codes" and "Back-off".
///
///     backingOff -> connecting --opened--> awaitingReady --ready--> live --closed--> backingOff …
///        any --4400…4449--> awaitingCredentials --credentials changed--> connecting
package struct NoticeConnectionState: Sendable {
    package enum Event: Sendable {
        case started
        /// The WebSocket handshake has succeeded.
        case opened
        /// The relay has answered the hello.
        case ready
        /// Data arrived, so the peer is alive.
        case dataReceived
        /// The relay announces that it will close, and may say when to reconnect.
        case goodbye(retryAfter: Duration?)
        /// The socket was closed; `nil` if it was cut off or could not be opened.
        case closed(code: UInt16?)
        /// The relay refused the upgrade with an HTTP status.
        case refused(status: Int)
        case credentialsChanged
        /// The system reports a network again, so that waiting is pointless and a connection is to be probed.
        case networkReturned
        /// The relay has answered a request, so a connection that waits for the relay need not wait any longer.
        case requestAnswered
        /// A request did not reach the relay, or its response was lost.
        case requestUnanswered
        case timerFired
        case stopped
    }

    package enum Effect: Equatable, Sendable {
        case connect
        case sendHello
        case ping
        /// Abandon the socket without waiting for an answer.
        case drop
        case wake(at: Instant?)
        /// Whether notices are delivered.
        case isLive(Bool)
        /// The relay rejected the credentials; if `isRenewable`, fresh credentials of the same user suffice.
        case needsCredentials(isRenewable: Bool)
    }

    private enum State: Equatable {
        case backingOff(until: Instant)
        case connecting(until: Instant)
        case awaitingReady(until: Instant)
        case live(since: Instant)
        case awaitingCredentials
        case stopped
    }

    /// Timeout for connecting, and for the answer to the hello.
    static let connectTimeout: Duration = .seconds(10)
    /// After this time without data a ping is sent, because a half-open socket looks healthy.
    static let idleTimeout: Duration = .seconds(45)
    /// Timeout for the answer to a ping.
    static let pongTimeout: Duration = .seconds(15)
    /// A connection that lasted this long resets the back-off when it ends.
    static let stableAfter: Duration = .seconds(60)

    private var state: State = .stopped
    private var backoff = Backoff.socket
    private var lastHeard = Instant.start
    private var pingSentAt: Instant?
    private var announcedDelay: Duration?
    /// The credentials have changed since this connection attempt began, so a rejection does not concern the new ones.
    private var hasNewCredentials = false
    /// Whether it waits because the relay was unreachable, not because the relay asked it to.
    private var waitsForRelay = false
    /// Whether a request's success has already cut short a wait for an attempt that then failed.
    ///
    /// If requests succeed but sockets fail, each response would otherwise start an attempt.
    private var hasRetriedEarly = false

    package init() {}

    package var isLive: Bool {
        if case .live = state { true } else { false }
    }

    package mutating func handle(
        _ event: Event,
        at now: Instant,
        using random: inout some RandomNumberGenerator
    ) -> [Effect] {
        if case .dataReceived = event {
            lastHeard = now
            pingSentAt = nil
        }
        switch event {
        case .started: return state == .stopped ? connect(now) : []
        case .opened: return opened(now)
        case .ready: return ready(now)
        case .dataReceived: return [wakeUp]
        case .goodbye(let retryAfter):
            // A minimum, because a relay that promises to be back at once, and is not, would be called in a tight loop.
            announcedDelay = retryAfter.map { max($0, .milliseconds(500)) }
            return []
        case .closed(let code): return closed(code, now, &random)
        case .refused(let status): return refused(status, now, &random)
        case .credentialsChanged:
            if state == .awaitingCredentials { return connect(now) }
            hasNewCredentials = true
            return []
        case .networkReturned:
            if case .backingOff = state { return connect(now) }
            return isLive && pingSentAt == nil ? ping(now) : []
        case .requestAnswered: return requestAnswered(now)
        case .requestUnanswered:
            hasRetriedEarly = false
            return []
        case .timerFired: return timerFired(now, &random)
        case .stopped: return stopped()
        }
    }

    private mutating func connect(_ now: Instant) -> [Effect] {
        state = .connecting(until: now + Self.connectTimeout)
        announcedDelay = nil
        pingSentAt = nil
        hasNewCredentials = false
        return [.connect, wakeUp]
    }

    private mutating func ping(_ now: Instant) -> [Effect] {
        pingSentAt = now
        return [.ping, wakeUp]
    }

    private mutating func requestAnswered(_ now: Instant) -> [Effect] {
        guard case .backingOff = state, waitsForRelay, !hasRetriedEarly else { return [] }
        hasRetriedEarly = true
        return connect(now)
    }

    private mutating func opened(_ now: Instant) -> [Effect] {
        guard case .connecting = state else { return [] }
        state = .awaitingReady(until: now + Self.connectTimeout)
        lastHeard = now
        return [.sendHello, wakeUp]
    }

    private mutating func ready(_ now: Instant) -> [Effect] {
        guard case .awaitingReady = state else { return [] }
        state = .live(since: now)
        hasRetriedEarly = false
        lastHeard = now
        return [.isLive(true), wakeUp]
    }

    private mutating func stopped() -> [Effect] {
        let effects: [Effect] = isLive ? [.isLive(false)] : []
        state = .stopped
        return effects + [.drop, .wake(at: nil)]
    }

    private mutating func timerFired(_ now: Instant, _ random: inout some RandomNumberGenerator) -> [Effect] {
        switch state {
        case .backingOff(let until) where until <= now:
            hasRetriedEarly = false
            return connect(now)
        case .connecting(let until) where until <= now, .awaitingReady(let until) where until <= now:
            return [.drop] + backOff(backoff.failed(using: &random), now, forRelay: true)
        case .live:
            if let pingSentAt, pingSentAt + Self.pongTimeout <= now {
                return [.drop] + closed(nil, now, &random)
            }
            if pingSentAt == nil, lastHeard + Self.idleTimeout <= now { return ping(now) }
            return [wakeUp]
        case .backingOff, .connecting, .awaitingReady: return [wakeUp]
        case .awaitingCredentials, .stopped: return [.wake(at: nil)]
        }
    }

    private mutating func closed(
        _ code: UInt16?,
        _ now: Instant,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        var effects: [Effect] = []
        let wasLive = isLive
        switch state {
        case .stopped, .awaitingCredentials, .backingOff: return []
        case .live(let since):
            effects = [.isLive(false)]
            if now - since >= Self.stableAfter { backoff.succeeded() }
        case .connecting, .awaitingReady: break
        }
        switch code {
        case .some(1002), .some(1007...1009):
            // A fault of this client, or a disagreement that a retry does not solve.
            return effects + backOff(max(.seconds(60), backoff.failed(using: &random)), now)
        case .some(4400...4449): return effects + awaitCredentials(now, isRenewable: false, &random)
        case .some(4450) where wasLive:
            return effects + [.needsCredentials(isRenewable: true)] + backOff(backoff.failed(using: &random), now)
        // The token in this hello has expired, so sending it again cannot succeed.
        case .some(4450): return effects + awaitCredentials(now, isRenewable: true, &random)
        default:
            return effects + backOff(announcedDelay ?? backoff.failed(using: &random), now, forRelay: code == nil)
        }
    }

    private mutating func refused(
        _ status: Int,
        _ now: Instant,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        guard case .connecting = state else { return [] }
        // Credentials are sent with the hello, so this status does not concern them: there is no relay, or a proxy does
        // not forward the upgrade or requires its own sign-in. Polling continues meanwhile.
        let mayPass = status >= 500 || status == 408 || status == 429
        // The status of a proxy that cannot reach the relay.
        let isGone = status == 502 || status == 504
        return backOff(max(mayPass ? .zero : .seconds(60), backoff.failed(using: &random)), now, forRelay: isGone)
    }

    /// Stops connecting until the credentials change, unless they have changed during this attempt.
    private mutating func awaitCredentials(
        _ now: Instant,
        isRenewable: Bool,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        if hasNewCredentials { return backOff(backoff.failed(using: &random), now) }
        state = .awaitingCredentials
        return [.needsCredentials(isRenewable: isRenewable), .wake(at: nil)]
    }

    private mutating func backOff(_ wait: Duration, _ now: Instant, forRelay: Bool = false) -> [Effect] {
        state = .backingOff(until: now + wait)
        waitsForRelay = forRelay
        return [wakeUp]
    }

    private var wakeUp: Effect {
        switch state {
        case .backingOff(let until), .connecting(let until), .awaitingReady(let until): .wake(at: until)
        case .live: .wake(at: pingSentAt.map { $0 + Self.pongTimeout } ?? lastHeard + Self.idleTimeout)
        case .awaitingCredentials, .stopped: .wake(at: nil)
        }
    }
}
