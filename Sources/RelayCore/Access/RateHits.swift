package import Records

/// Which rate somebody ran into.
package enum RateName: String, CaseIterable, Hashable, Sendable {
    /// Requests of one user, or of one address that nobody has signed in at.
    case requests
    /// Requests to one container's public database, beyond what its users have of their own.
    case publicRequests
    /// Requests with credentials that are none, from one address.
    case failedCredentials
    /// Wrong passwords from one address.
    case failedSignIns
    /// Wrong passwords for one account.
    case failedSignInsOfAccount
}

/// Who ran into a rate, as far as the relay may remember it.
package enum RateSubject: Hashable, Sendable {
    case user(UserID)
    /// An address, or an IPv6 network: text that tells one from another, to be shown under a pseudonym only.
    case address(String)
    /// The account that passwords were tried for, likewise.
    case account(String)
    /// Callers of a container that nobody knows.
    case anyone(ContainerID)
}

/// Refusals of one kind to one subject.
package struct RateHit: Hashable, Sendable {
    package var rate: RateName
    package var subject: RateSubject
    package var count: Int
    /// When the last one was, by uptime.
    package var last: Duration

    package init(rate: RateName, subject: RateSubject, count: Int, last: Duration) {
        self.rate = rate
        self.subject = subject
        self.count = count
        self.last = last
    }
}

/// Who ran into rates in the last day, for the operator: in memory, and bounded.
///
/// Costs nothing but when something is refused: then one look-up. When it is full, whoever was refused least goes, so
/// that a flood of strangers who come once does not hide the few who come all the time.
package struct RateHits: Sendable {
    private struct Key: Hashable {
        var rate: RateName
        var subject: RateSubject
    }

    private struct Value {
        var count: Int
        var last: Duration
    }

    /// How many are remembered at the most.
    package let capacity: Int
    /// How long one is remembered.
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

    /// Those of the last day, the ones refused most first.
    package func hits(at now: Duration) -> [RateHit] {
        values.filter { now - $0.value.last <= Self.lifetime }
            .map { RateHit(rate: $0.key.rate, subject: $0.key.subject, count: $0.value.count, last: $0.value.last) }
            .sorted { ($0.count, $0.last) > ($1.count, $1.last) }
    }

    /// Half of them go, so that the next are cheap again.
    private mutating func makeRoom(at now: Duration) {
        let kept = hits(at: now).prefix(capacity / 2)
        values.removeAll(keepingCapacity: true)
        for hit in kept {
            values[Key(rate: hit.rate, subject: hit.subject)] = Value(count: hit.count, last: hit.last)
        }
    }
}
