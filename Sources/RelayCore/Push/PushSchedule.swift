/// Decides when to send a push to a device without a socket, based on the relay's uptime.
///
/// A burst of commits causes one push, pushes to one device keep a minimum distance, and a failing service is retried
/// with exponential back-off. Pushes are hints: one that was not sent within a day is dropped, since the device fetches
/// all changes when it wakes.
package struct PushSchedule: Hashable, Sendable {
    /// The next action.
    package enum Step: Hashable, Sendable {
        case wait(until: Duration)
        case send
        /// Nothing is pending.
        case idle
    }

    /// Delay from the first notice to the push, so that a burst causes one push.
    package static let coalescingDelay = Duration.seconds(1)
    /// Minimum time between two silent pushes to one device.
    package static let minInterval = Duration.seconds(5)
    /// How long a notice is kept for a device with an open socket, in case the socket's peer is gone.
    ///
    /// Three ping intervals, after which a dead socket is closed; see Notices.md, "Keeping alive".
    package static let socketGracePeriod = Duration.seconds(100)
    /// Bounds of the retry delay.
    static let firstRetry = Duration.seconds(5)
    static let longestRetry = Duration.seconds(3_600)
    /// The age at which a push is dropped.
    static let maxAge = Duration.seconds(86_400)

    /// The time of the oldest pending notice; `nil` if none is pending.
    package private(set) var waitingSince: Duration?
    private var notBefore = Duration.zero
    private var failures = 0
    private var isUrgent = false
    /// The time since which the device has had a socket open while the latest notice was pending.
    private var socketSince: Duration?

    package init() {}

    /// Records a notice; returns whether it is the only pending one.
    package mutating func noticed(isUrgent: Bool, at now: Duration) -> Bool {
        let isFirst = waitingSince == nil
        if isFirst { waitingSince = now }
        self.isUrgent = self.isUrgent || isUrgent
        socketSince = nil
        return isFirst
    }

    /// Returns the next action, depending on whether the device has a socket.
    package mutating func step(hasSocket: Bool, at now: Duration) -> Step {
        guard let waitingSince, now - waitingSince < Self.maxAge else {
            idle()
            return .idle
        }
        if hasSocket { return waitForSocket(at: now) }
        socketSince = nil
        let due = isUrgent && failures == 0 ? waitingSince : max(waitingSince + Self.coalescingDelay, notBefore)
        return now < due ? .wait(until: due) : .send
    }

    /// Records the result of sending a push.
    package mutating func sent(_ outcome: PushOutcome, at now: Duration) {
        switch outcome {
        case .later(let wait, _):
            let backOff = Self.firstRetry * (1 << min(failures, 20))
            failures += 1
            notBefore = now + max(min(backOff, Self.longestRetry), min(wait ?? .zero, Self.maxAge))
        case .taken, .gone, .refused:
            failures = 0
            idle()
            notBefore = now + Self.minInterval
        }
    }

    /// Waits until the open socket has proven alive: the notice may have been lost if its peer is gone.
    private mutating func waitForSocket(at now: Duration) -> Step {
        let since = socketSince ?? now
        socketSince = since
        guard now - since >= Self.socketGracePeriod else { return .wait(until: since + Self.socketGracePeriod) }
        idle()
        return .idle
    }

    private mutating func idle() {
        waitingSince = nil
        isUrgent = false
        socketSince = nil
    }
}
