/// The state machine of one client's notice connection, without a socket or a clock of its own.
///
/// See Notices.md, "Connecting", "Keeping alive", "Close codes" and "Back-off".
///
///     resting -> connecting --opened--> greeting --ready--> live --closed--> resting …
///        any --4400…4449--> parked --credentials changed--> connecting
package struct NoticeLine: Sendable {
    package enum Event: Sendable {
        case started
        /// The WebSocket handshake has succeeded.
        case opened
        /// The relay has answered the hello.
        case ready
        /// Data arrived, so the peer is alive.
        case heard
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
        case wake(at: Moment?)
        /// Whether notices are delivered.
        case isLive(Bool)
        /// The relay rejected the credentials; if `isRenewable`, fresh credentials of the same user suffice.
        case needsCredentials(isRenewable: Bool)
    }

    private enum State: Equatable {
        case resting(until: Moment)
        case connecting(until: Moment)
        case greeting(until: Moment)
        case live(since: Moment)
        case parked
        case stopped
    }

    /// Timeout for connecting, and for the answer to the hello.
    static let patience: Duration = .seconds(10)
    /// After this time without data a ping is sent, because a half-open socket looks healthy.
    static let silence: Duration = .seconds(45)
    /// Timeout for the answer to a ping.
    static let pongPatience: Duration = .seconds(15)
    /// A connection that lasted this long resets the back-off when it ends.
    static let healthy: Duration = .seconds(60)

    private var state: State = .stopped
    private var backoff = Backoff.socket
    private var lastHeard = Moment.start
    private var pingSentAt: Moment?
    private var promisedReturn: Duration?
    /// The credentials have changed since this connection attempt began, so a rejection does not concern the new ones.
    private var hasNewCredentials = false
    /// Whether it waits because the relay was unreachable, not because the relay asked it to.
    private var waitsForRelay = false
    /// Whether a request's success has already cut short a wait for an attempt that then failed.
    ///
    /// If requests succeed but sockets fail, each response would otherwise start an attempt.
    private var hasHurried = false

    package init() {}

    package var isLive: Bool {
        if case .live = state { true } else { false }
    }

    package mutating func handle(
        _ event: Event,
        at now: Moment,
        using random: inout some RandomNumberGenerator
    ) -> [Effect] {
        if case .heard = event {
            lastHeard = now
            pingSentAt = nil
        }
        switch event {
        case .started: return state == .stopped ? connect(now) : []
        case .opened: return opened(now)
        case .ready: return ready(now)
        case .heard: return [wakeUp]
        case .goodbye(let retryAfter):
            // A minimum, because a relay that promises to be back at once, and is not, would be called in a tight loop.
            promisedReturn = retryAfter.map { max($0, .milliseconds(500)) }
            return []
        case .closed(let code): return closed(code, now, &random)
        case .refused(let status): return refused(status, now, &random)
        case .credentialsChanged:
            if state == .parked { return connect(now) }
            hasNewCredentials = true
            return []
        case .networkReturned:
            if case .resting = state { return connect(now) }
            return isLive && pingSentAt == nil ? ping(now) : []
        case .requestAnswered: return requestAnswered(now)
        case .requestUnanswered:
            hasHurried = false
            return []
        case .timerFired: return timerFired(now, &random)
        case .stopped: return stopped()
        }
    }

    private mutating func connect(_ now: Moment) -> [Effect] {
        state = .connecting(until: now + Self.patience)
        promisedReturn = nil
        pingSentAt = nil
        hasNewCredentials = false
        return [.connect, wakeUp]
    }

    private mutating func ping(_ now: Moment) -> [Effect] {
        pingSentAt = now
        return [.ping, wakeUp]
    }

    private mutating func requestAnswered(_ now: Moment) -> [Effect] {
        guard case .resting = state, waitsForRelay, !hasHurried else { return [] }
        hasHurried = true
        return connect(now)
    }

    private mutating func opened(_ now: Moment) -> [Effect] {
        guard case .connecting = state else { return [] }
        state = .greeting(until: now + Self.patience)
        lastHeard = now
        return [.sendHello, wakeUp]
    }

    private mutating func ready(_ now: Moment) -> [Effect] {
        guard case .greeting = state else { return [] }
        state = .live(since: now)
        hasHurried = false
        lastHeard = now
        return [.isLive(true), wakeUp]
    }

    private mutating func stopped() -> [Effect] {
        let effects: [Effect] = isLive ? [.isLive(false)] : []
        state = .stopped
        return effects + [.drop, .wake(at: nil)]
    }

    private mutating func timerFired(_ now: Moment, _ random: inout some RandomNumberGenerator) -> [Effect] {
        switch state {
        case .resting(let until) where until <= now:
            hasHurried = false
            return connect(now)
        case .connecting(let until) where until <= now, .greeting(let until) where until <= now:
            return [.drop] + rest(backoff.failed(using: &random), now, forRelay: true)
        case .live:
            if let pingSentAt, pingSentAt + Self.pongPatience <= now {
                return [.drop] + closed(nil, now, &random)
            }
            if pingSentAt == nil, lastHeard + Self.silence <= now { return ping(now) }
            return [wakeUp]
        case .resting, .connecting, .greeting: return [wakeUp]
        case .parked, .stopped: return [.wake(at: nil)]
        }
    }

    private mutating func closed(
        _ code: UInt16?,
        _ now: Moment,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        var effects: [Effect] = []
        let wasLive = isLive
        switch state {
        case .stopped, .parked, .resting: return []
        case .live(let since):
            effects = [.isLive(false)]
            if now - since >= Self.healthy { backoff.succeeded() }
        case .connecting, .greeting: break
        }
        switch code {
        case .some(1002), .some(1007...1009):
            // A fault of this client, or a disagreement that a retry does not solve.
            return effects + rest(max(.seconds(60), backoff.failed(using: &random)), now)
        case .some(4400...4449): return effects + park(now, isRenewable: false, &random)
        case .some(4450) where wasLive:
            return effects + [.needsCredentials(isRenewable: true)] + rest(backoff.failed(using: &random), now)
        // The token in this hello has expired, so sending it again cannot succeed.
        case .some(4450): return effects + park(now, isRenewable: true, &random)
        default:
            return effects + rest(promisedReturn ?? backoff.failed(using: &random), now, forRelay: code == nil)
        }
    }

    private mutating func refused(
        _ status: Int,
        _ now: Moment,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        guard case .connecting = state else { return [] }
        // Credentials are sent with the hello, so this status does not concern them: there is no relay, or a proxy does
        // not forward the upgrade or requires its own sign-in. Polling continues meanwhile.
        let mayPass = status >= 500 || status == 408 || status == 429
        // The status of a proxy that cannot reach the relay.
        let isGone = status == 502 || status == 504
        return rest(max(mayPass ? .zero : .seconds(60), backoff.failed(using: &random)), now, forRelay: isGone)
    }

    /// Stops connecting until the credentials change, unless they have changed during this attempt.
    private mutating func park(
        _ now: Moment,
        isRenewable: Bool,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        if hasNewCredentials { return rest(backoff.failed(using: &random), now) }
        state = .parked
        return [.needsCredentials(isRenewable: isRenewable), .wake(at: nil)]
    }

    private mutating func rest(_ wait: Duration, _ now: Moment, forRelay: Bool = false) -> [Effect] {
        state = .resting(until: now + wait)
        waitsForRelay = forRelay
        return [wakeUp]
    }

    private var wakeUp: Effect {
        switch state {
        case .resting(let until), .connecting(let until), .greeting(let until): .wake(at: until)
        case .live: .wake(at: pingSentAt.map { $0 + Self.pongPatience } ?? lastHeard + Self.silence)
        case .parked, .stopped: .wake(at: nil)
        }
    }
}
