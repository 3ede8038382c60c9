/// When a sleeping device is told, and when again: decisions alone, on the relay's uptime.
///
/// A burst of commits is one push, a device is not woken again at once, and a service that cannot take pushes is asked
/// at growing intervals. Pushes are hints: what a service has not taken in a day is dropped, since the device asks for
/// all changes when it wakes.
package struct PushPace: Hashable, Sendable {
    /// What is to be done when the time has come.
    package enum Step: Hashable, Sendable {
        case wait(until: Duration)
        case send
        /// Nothing is left to do.
        case rest
    }

    /// Between the first notice and the push, so that a burst is one.
    package static let gathering = Duration.seconds(1)
    /// Between two pushes that show nothing, to one device.
    package static let pause = Duration.seconds(5)
    /// For which a notice to a device with a socket is kept: by then a socket whose peer is gone is closed.
    ///
    /// Three pings: see Notices.md, "Keeping alive".
    package static let socketDoubt = Duration.seconds(100)
    /// Between two tries: from and to.
    static let firstRetry = Duration.seconds(5)
    static let longestRetry = Duration.seconds(3_600)
    /// After which a push is not worth sending any more.
    static let life = Duration.seconds(86_400)

    /// The oldest notice that waits; `nil` when none does.
    package private(set) var waitingSince: Duration?
    private var notBefore = Duration.zero
    private var failures = 0
    private var isUrgent = false
    /// Since when its socket has been open with the last notice waiting here.
    private var doubtedSince: Duration?

    package init() {}

    /// A notice has come; whether nobody was waiting yet.
    package mutating func noticed(isUrgent: Bool, at now: Duration) -> Bool {
        let isFirst = waitingSince == nil
        if isFirst { waitingSince = now }
        self.isUrgent = self.isUrgent || isUrgent
        doubtedSince = nil
        return isFirst
    }

    /// What to do now, for a device that listens by itself or does not.
    package mutating func step(hasSocket: Bool, at now: Duration) -> Step {
        guard let waitingSince, now - waitingSince < Self.life else {
            rest()
            return .rest
        }
        if hasSocket { return doubt(at: now) }
        doubtedSince = nil
        let due = isUrgent && failures == 0 ? waitingSince : max(waitingSince + Self.gathering, notBefore)
        return now < due ? .wait(until: due) : .send
    }

    /// What waited has been handed to a service, which said this.
    package mutating func sent(_ outcome: PushOutcome, at now: Duration) {
        switch outcome {
        case .later(let wait, _):
            let backOff = Self.firstRetry * (1 << min(failures, 20))
            failures += 1
            notBefore = now + max(min(backOff, Self.longestRetry), min(wait ?? .zero, Self.life))
        case .taken, .gone, .refused:
            failures = 0
            rest()
            notBefore = now + Self.pause
        }
    }

    /// A socket that is open had the notice, unless its peer is gone and the relay has yet to find out.
    private mutating func doubt(at now: Duration) -> Step {
        let since = doubtedSince ?? now
        doubtedSince = since
        guard now - since >= Self.socketDoubt else { return .wait(until: since + Self.socketDoubt) }
        rest()
        return .rest
    }

    private mutating func rest() {
        waitingSince = nil
        isUrgent = false
        doubtedSince = nil
    }
}
