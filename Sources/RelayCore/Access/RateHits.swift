package import Records

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
