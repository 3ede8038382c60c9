import Records

/// A rate limit: a sustained rate and a maximum burst.
package struct RateLimit: Hashable, Sendable {
    package var perSecond: Double
    package var burst: Double

    package init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }
}

/// The token bucket of one user or address.
package struct TokenBucket: Hashable, Sendable {
    private var level: Double
    private var at: Duration

    /// Creates a full bucket.
    package init(_ limit: RateLimit, at now: Duration) {
        level = limit.burst
        at = now
    }

    /// Takes one token.
    ///
    /// Returns `nil` on success, or the time until a token is available.
    package mutating func take(_ limit: RateLimit, at now: Duration) -> Duration? {
        refill(limit, at: now)
        guard level < 1 else {
            level -= 1
            return nil
        }
        return .seconds((1 - level) / limit.perSecond)
    }

    /// Undoes one `take`.
    package mutating func giveBack(_ limit: RateLimit, at now: Duration) {
        refill(limit, at: now)
        level = min(limit.burst, level + 1)
    }

    /// Returns whether the bucket is full, so that it can be removed without effect.
    package func isFull(_ limit: RateLimit, at now: Duration) -> Bool {
        var copy = self
        copy.refill(limit, at: now)
        return copy.level >= limit.burst
    }

    private mutating func refill(_ limit: RateLimit, at now: Duration) {
        // A clock that went back neither adds nor removes tokens.
        if now > at { level = min(limit.burst, level + (now - at).inSeconds * limit.perSecond) }
        at = now
    }
}

/// One token bucket per key, in bounded memory.
package struct TokenBuckets<Key: Hashable & Sendable>: Sendable {
    package let limit: RateLimit
    /// The maximum number of buckets.
    ///
    /// When it is reached, full buckets are removed. If less than half is freed, all buckets are removed, which errs on
    /// the lenient side.
    package let capacity: Int
    private var buckets: [Key: TokenBucket] = [:]

    package init(_ limit: RateLimit, capacity: Int = 65_536) {
        self.limit = limit
        self.capacity = capacity
    }

    package var count: Int { buckets.count }

    /// Takes one token for `key`.
    ///
    /// Returns `nil` on success, or the time to wait.
    package mutating func take(_ key: Key, at now: Duration) -> Duration? {
        if buckets.count >= capacity, buckets[key] == nil { makeRoom(at: now) }
        return buckets[key, default: TokenBucket(limit, at: now)].take(limit, at: now)
    }

    /// Undoes one `take` that should not have counted.
    package mutating func giveBack(_ key: Key, at now: Duration) {
        buckets[key]?.giveBack(limit, at: now)
    }

    private mutating func makeRoom(at now: Duration) {
        buckets = buckets.filter { !$0.value.isFull(limit, at: now) }
        if buckets.count > capacity / 2 { buckets.removeAll(keepingCapacity: true) }
    }
}
