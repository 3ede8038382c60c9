public import Foundation
import Records
package import RelayCore
import Synchronization

/// A clock that stands still until a test moves it, and that wakes sleeping tasks in order.
///
/// Code under test uses it as `some Clock<Duration>`. A sleep ends at once if its deadline has passed or its task is
/// cancelled; otherwise it waits for `advance`.
public final class TestClock: Clock, Sendable {
    /// A time, relative to the creation of the clock.
    public struct Instant: InstantProtocol, Hashable, Sendable {
        /// The time since the clock was created.
        public var offset: Duration

        /// Creates an instant.
        public init(offset: Duration) { self.offset = offset }

        /// Returns the instant that is later by this duration.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

        /// Returns the duration until another instant.
        public func duration(to other: Instant) -> Duration { other.offset - offset }

        /// Returns whether one instant is before another.
        public static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
    }

    private struct Sleeper {
        enum Alarm {
            case resume(CheckedContinuation<Void, any Error>)
            case call(@Sendable () -> Void)
        }

        var deadline: Instant
        var number: UInt64
        var alarm: Alarm

        func wake() {
            switch alarm {
            case .resume(let continuation): continuation.resume()
            case .call(let call): call()
            }
        }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Sleeper] = []
        /// Sleeps that were cancelled before they began to wait.
        var cancelled: Set<UInt64> = []
        var lastNumber: UInt64 = 0
        var listeners: [@Sendable () -> Void] = []
    }

    /// The date at which the clock starts.
    public let start: Date
    private let state = Mutex(State())

    /// Creates a clock that starts at a date.
    public init(start: Date = Date(timeIntervalSince1970: 1_700_000_000)) { self.start = start }

    /// The current time.
    public var now: Instant { state.withLock { $0.now } }

    /// The current date.
    public var date: Date { start.addingTimeInterval(now.offset.inSeconds) }

    /// Any duration is possible.
    public var minimumResolution: Duration { .zero }

    /// The earliest deadline of all sleeps; `nil` if there are none.
    public var nextDeadline: Instant? { state.withLock { $0.sleepers.map(\.deadline).min() } }

    /// The number of sleeps that wait for the clock to move.
    public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// Waits until the clock has been moved to the deadline.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let answer: Result<Void, any Error>? = state.withLock { state in
                    if state.cancelled.remove(number) != nil { return .failure(CancellationError()) }
                    if deadline <= state.now { return .success(()) }
                    state.sleepers.append(Sleeper(deadline: deadline, number: number, alarm: .resume(continuation)))
                    return nil
                }
                if let answer { continuation.resume(with: answer) }
            }
        } onCancel: {
            let sleeper = state.withLock { state -> Sleeper? in
                guard let index = state.sleepers.firstIndex(where: { $0.number == number }) else {
                    state.cancelled.insert(number)
                    return nil
                }
                return state.sleepers.remove(at: index)
            }
            if case .resume(let continuation) = sleeper?.alarm { continuation.resume(throwing: CancellationError()) }
        }
        _ = state.withLock { $0.cancelled.remove(number) }
    }

    /// Calls `body` when the clock has been moved to the deadline, or at once if it has passed.
    func call(at deadline: Instant, _ body: @escaping @Sendable () -> Void) {
        let isDue = state.withLock { state in
            guard deadline > state.now else { return true }
            state.lastNumber += 1
            state.sleepers.append(Sleeper(deadline: deadline, number: state.lastNumber, alarm: .call(body)))
            return false
        }
        if isDue { body() }
    }

    /// Removes the pending calls; sleeping tasks are not affected.
    func dropCalls() {
        state.withLock { state in
            state.sleepers.removeAll { sleeper in
                if case .call = sleeper.alarm { true } else { false }
            }
        }
    }

    /// Moves the clock, and wakes the tasks whose deadlines have passed, earliest first.
    ///
    /// - Parameter duration: how far to move; negative values are taken as zero.
    public func advance(by duration: Duration) {
        let due = state.withLock { state -> [Sleeper] in
            state.now = state.now.advanced(by: max(.zero, duration))
            let due = state.sleepers.filter { $0.deadline <= state.now }
            state.sleepers.removeAll { $0.deadline <= state.now }
            return due.sorted { ($0.deadline, $0.number) < ($1.deadline, $1.number) }
        }
        due.forEach { $0.wake() }
        state.withLock { $0.listeners }.forEach { $0() }
    }

    /// Calls `body` after each move.
    func whenMoved(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.listeners.append(body) } }

    /// The clock in the form that the relay uses.
    package var timeSource: TimeSource { timeSource(off: ClockError()) }

    /// The same, with dates that are off by an error.
    func timeSource(off error: ClockError) -> TimeSource {
        let start = Timestamp(milliseconds: Int64((start.timeIntervalSince1970 * 1000).rounded()))
        return TimeSource(now: { start + self.now.offset + error.value }, uptime: { self.now.offset })
    }
}
