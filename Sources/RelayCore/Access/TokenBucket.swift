package import Records

/// A rate limit: a sustained rate and a maximum burst.
package struct RateLimit: Hashable, Sendable {
    package var perSecond: Double
    package var burst: Double

    package init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }

    /// Returns the part of one of several relays that serve the same users.
    package func divided(among relays: Int) -> RateLimit {
        guard relays > 1 else { return self }
        // A bucket must hold one token, or it never gives one.
        return RateLimit(perSecond: perSecond / Double(relays), burst: max(1, burst / Double(relays)))
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
    package private(set) var limit: RateLimit
    private let whole: RateLimit
    /// The maximum number of buckets.
    ///
    /// When it is reached, full buckets are removed. If less than half is freed, all buckets are removed, which errs on
    /// the lenient side.
    package let capacity: Int
    private var buckets: [Key: TokenBucket] = [:]

    package init(_ limit: RateLimit, capacity: Int = 65_536) {
        self.limit = limit
        whole = limit
        self.capacity = capacity
    }

    /// Sets how many relays share the limit.
    package mutating func divide(among relays: Int) { limit = whole.divided(among: relays) }

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

/// A rate limit.
package enum RateName: String, CaseIterable, Hashable, Sendable {
    /// Requests of one user, or of one address without a signed-in user.
    case requests
    /// Requests to one container's public database that exceed the share of its users.
    case publicRequests
    /// Requests with invalid credentials from one address.
    case failedCredentials
    /// Wrong passwords from one address.
    case failedSignIns
    /// Wrong passwords for one account.
    case failedSignInsOfAccount
}

/// The user, address or account that exceeded a rate limit.
package enum RateSubject: Hashable, Sendable {
    case user(UserID)
    /// An address or an IPv6 network; shown only as a pseudonym.
    case address(String)
    /// The account for which passwords were tried; shown only as a pseudonym.
    case account(String)
    /// The anonymous callers of a container.
    case anyone(ContainerID)
}

/// The number of rejections by one rate limit for one subject.
package struct RateHit: Hashable, Sendable {
    package var rate: RateName
    package var subject: RateSubject
    package var count: Int
    /// The uptime of the last rejection.
    package var last: Duration

    package init(rate: RateName, subject: RateSubject, count: Int, last: Duration) {
        self.rate = rate
        self.subject = subject
        self.count = count
        self.last = last
    }
}

/// The rate limit rejections of the last day, for the operator; in memory and bounded.
///
/// Costs one dictionary lookup per rejection and nothing otherwise. When it is full, the subjects with the fewest
/// rejections are removed, so that a flood of one-time strangers does not hide the few persistent ones.
package struct RateHits: Sendable {
    private struct Key: Hashable {
        var rate: RateName
        var subject: RateSubject
    }

    private struct Value {
        var count: Int
        var last: Duration
    }

    /// The maximum number of entries.
    package let capacity: Int
    /// How long an entry is kept after its last rejection.
    package static let lifetime = Duration.seconds(86_400)
    private var values: [Key: Value] = [:]

    package init(capacity: Int = 512) { self.capacity = max(2, capacity) }

    package mutating func note(_ rate: RateName, _ subject: RateSubject, at now: Duration) {
        let key = Key(rate: rate, subject: subject)
        if let known = values[key] {
            let isOld = now - known.last > Self.lifetime
            values[key] = Value(count: isOld ? 1 : known.count + 1, last: now)
            return
        }
        if values.count >= capacity { makeRoom(at: now) }
        values[key] = Value(count: 1, last: now)
    }

    /// Returns the entries of the last day, most rejections first.
    package func hits(at now: Duration) -> [RateHit] {
        values.filter { now - $0.value.last <= Self.lifetime }
            .map { RateHit(rate: $0.key.rate, subject: $0.key.subject, count: $0.value.count, last: $0.value.last) }
            .sorted { ($0.count, $0.last) > ($1.count, $1.last) }
    }

    /// Removes half of the entries, so that the cost is spread over many calls.
    private mutating func makeRoom(at now: Duration) {
        let kept = hits(at: now).prefix(capacity / 2)
        values.removeAll(keepingCapacity: true)
        for hit in kept {
            values[Key(rate: hit.rate, subject: hit.subject)] = Value(count: hit.count, last: hit.last)
        }
    }
}
