import Records
import Synchronization

/// Counts attempts that are limited, such as sign-ins, and accepts some values only once.
///
/// Several relays on the same accounts count together, so that their number does not multiply the guesses. Calls may block
/// their thread for a round trip to a database. Safe to call from any thread.
package protocol Attempts: Sendable {
    /// Counts one attempt, unless that exceeds the limit.
    ///
    /// All calls with the same key must have the same limit.
    ///
    /// - Returns: The time to wait if the attempt was refused.
    func take(_ key: String, of limit: RateLimit) throws(DirectoryError) -> Duration?

    /// Undoes one `take`, because the attempt was successful.
    func giveBack(_ key: String, of limit: RateLimit) throws(DirectoryError)

    /// Returns whether a value was not used within `lifetime`, and marks it as used.
    func isFirstUse(of value: String, within lifetime: Duration) throws(DirectoryError) -> Bool

    /// Forgets what has no effect any more.
    func removeExpired() throws(DirectoryError)
}

/// The attempts of the only relay, in bounded memory.
package final class AttemptsInMemory: Attempts {
    private struct State {
        var buckets: [RateLimit: TokenBuckets<String>] = [:]
        /// The uptime at which each use is forgotten.
        var uses: [String: Duration] = [:]
    }

    /// The maximum number of keys per limit.
    private static let capacity = 4_096

    private let state = Mutex(State())
    private let uptime: @Sendable () -> Duration

    /// - Parameter uptime: A monotonic clock.
    package init(uptime: @escaping @Sendable () -> Duration) { self.uptime = uptime }

    package func take(_ key: String, of limit: RateLimit) -> Duration? {
        let now = uptime()
        return state.withLock {
            $0.buckets[limit, default: TokenBuckets(limit, capacity: Self.capacity)].take(key, at: now)
        }
    }

    package func giveBack(_ key: String, of limit: RateLimit) {
        let now = uptime()
        state.withLock { $0.buckets[limit]?.giveBack(key, at: now) }
    }

    package func isFirstUse(of value: String, within lifetime: Duration) -> Bool {
        let now = uptime()
        return state.withLock { state in
            state.uses = state.uses.filter { $0.value > now }
            return state.uses.updateValue(now + lifetime, forKey: value) == nil
        }
    }

    package func removeExpired() {}
}
