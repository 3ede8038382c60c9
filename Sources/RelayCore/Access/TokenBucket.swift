import Records

/// How often something may happen: so many in a second on average, so many at once.
package struct RateLimit: Hashable, Sendable {
    package var perSecond: Double
    package var burst: Double

    package init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }
}

/// What is left of a rate limit for one user or address.
package struct TokenBucket: Hashable, Sendable {
    private var level: Double
    private var at: Duration

    /// A full one.
    package init(_ limit: RateLimit, at now: Duration) {
        level = limit.burst
        at = now
    }

    /// Takes one if there is one.
    ///
    /// Otherwise says how long until there is.
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

    /// Whether nothing is missing, so that forgetting this bucket changes nothing.
    package func isFull(_ limit: RateLimit, at now: Duration) -> Bool {
        var copy = self
        copy.refill(limit, at: now)
        return copy.level >= limit.burst
    }

    private mutating func refill(_ limit: RateLimit, at now: Duration) {
        // A clock that went back gives nothing, and takes nothing away.
        if now > at { level = min(limit.burst, level + (now - at).inSeconds * limit.perSecond) }
        at = now
    }
}

/// One bucket for each of many users or addresses, in bounded memory.
package struct TokenBuckets<Key: Hashable & Sendable>: Sendable {
    package let limit: RateLimit
    /// How many buckets are kept.
    ///
    /// Past it the full ones go; if that frees less than half, all do, which errs on the mild side.
    package let capacity: Int
    private var buckets: [Key: TokenBucket] = [:]

    package init(_ limit: RateLimit, capacity: Int = 65_536) {
        self.limit = limit
        self.capacity = capacity
    }

    package var count: Int { buckets.count }

    /// Takes one for `key`.
    ///
    /// `nil` if it may go ahead, else how long it must wait.
    package mutating func take(_ key: Key, at now: Duration) -> Duration? {
        if buckets.count >= capacity, buckets[key] == nil { makeRoom(at: now) }
        return buckets[key, default: TokenBucket(limit, at: now)].take(limit, at: now)
    }

    /// Undoes one `take`: what was counted turned out not to count.
    package mutating func giveBack(_ key: Key, at now: Duration) {
        buckets[key]?.giveBack(limit, at: now)
    }

    private mutating func makeRoom(at now: Duration) {
        buckets = buckets.filter { !$0.value.isFull(limit, at: now) }
        if buckets.count > capacity / 2 { buckets.removeAll(keepingCapacity: true) }
    }
}
