/// The life of one client's notice connection, with no socket and no clock of its own.
///
/// See Notices.md, "Connecting", "Keeping alive", "Close codes" and "Back-off".
///
///     resting -> connecting --opened--> greeting --ready--> live --closed--> resting …
///        any --4400…4449--> parked --credentials changed--> connecting
package struct NoticeLine: Sendable {
    package enum Event: Sendable {
        case started
        /// The WebSocket handshake is done.
        case opened
        /// The relay has answered the hello.
        case ready
        /// Anything at all came in: the other end is alive.
        case heard
        /// The relay says that it is about to close, and perhaps when to come back.
        case goodbye(retryAfter: Duration?)
        /// The socket is gone; `nil` when it was cut, or never came to be.
        case closed(code: UInt16?)
        /// The upgrade was refused with an HTTP status.
        case refused(status: Int)
        case credentialsChanged
        /// The system says that there is a network again: no reason to wait out a back-off.
        case networkReturned
        /// The relay has answered a request, so a line that only waits for it to be there has waited enough.
        case requestAnswered
        /// A request found no relay, or lost it before the answer.
        case requestUnanswered
        case timerFired
        case stopped
    }

    package enum Effect: Equatable, Sendable {
        case connect
        case sendHello
        case ping
        /// Give the socket up; no answer is awaited.
        case drop
        case wake(at: Moment?)
        /// Notices come from now on, or no longer do.
        case isLive(Bool)
        /// The relay will not have these credentials; with `isRenewable`, fresh ones of the same user will do.
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

    /// To a connection, and from a hello to its answer.
    static let patience: Duration = .seconds(10)
    /// Without a word for this long a ping asks whether the other end is there; a half-open socket looks healthy.
    static let silence: Duration = .seconds(45)
    /// How long a ping may go unanswered.
    static let pongPatience: Duration = .seconds(15)
    /// A connection this old was a good one, and its end starts the back-off anew.
    static let healthy: Duration = .seconds(60)

    private var state: State = .stopped
    private var backoff = Backoff.socket
    private var lastHeard = Moment.start
    private var pingSentAt: Moment?
    private var promisedReturn: Duration?
    /// They have changed since this connection was begun: that it is turned away says nothing of them.
    private var hasNewCredentials = false
    /// It rests because nobody was there, and not because it was told to.
    private var waitsForRelay = false
    /// An answer has ended a wait already, for a try that came to nothing: where requests pass and sockets do not, each
    /// answer would be a try.
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
            // A relay that promises to be back at once, and is not, would be asked without a pause.
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
            return []
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
            if pingSentAt == nil, lastHeard + Self.silence <= now {
                pingSentAt = now
                return [.ping, wakeUp]
            }
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
        switch state {
        case .stopped, .parked, .resting: return []
        case .live(let since):
            effects = [.isLive(false)]
            if now - since >= Self.healthy { backoff.succeeded() }
        case .connecting, .greeting: break
        }
        switch code {
        case .some(1002), .some(1007...1009):
            // Our own fault, or a disagreement that will not go away by itself.
            return effects + rest(max(.seconds(60), backoff.failed(using: &random)), now)
        case .some(4400...4449): return effects + park(now, &random)
        case .some(4450):
            return effects + [.needsCredentials(isRenewable: true)] + rest(backoff.failed(using: &random), now)
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
        // Credentials come with the hello, so this is not about them: no relay is there, or a proxy does not forward the
        // upgrade, or wants a sign-in of its own. The poll goes on meanwhile.
        let mayPass = status >= 500 || status == 408 || status == 429
        // A proxy says so where it finds no relay.
        let isGone = status == 502 || status == 504
        return rest(max(mayPass ? .zero : .seconds(60), backoff.failed(using: &random)), now, forRelay: isGone)
    }

    /// Stays away until the credentials change, unless they have.
    private mutating func park(_ now: Moment, _ random: inout some RandomNumberGenerator) -> [Effect] {
        if hasNewCredentials { return rest(backoff.failed(using: &random), now) }
        state = .parked
        return [.needsCredentials(isRenewable: false), .wake(at: nil)]
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
