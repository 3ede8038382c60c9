import Records
import RelayCore
import Synchronization

/// Enforces the request rate of each container's public database.
///
/// A signed-in user first draws on a small bucket of their own. When it is empty, and for anonymous callers, requests
/// draw on the bucket of the container. The total therefore grows with the number of active users, and no user can
/// exclude another. In memory and bounded; a request costs one or two lookups under a lock, and none if there is no
/// limit.
final class PublicRates: Sendable {
    private struct Caller: Hashable {
        var container: ContainerID
        var user: UserID
    }

    private struct Buckets {
        var shared: TokenBuckets<ContainerID>?
        var own: TokenBuckets<Caller>?
        var hits = RateHits()
    }

    private let isLimited: Bool
    private let buckets: Mutex<Buckets>

    init(_ settings: SignInSettings) {
        isLimited = settings.publicRate != nil
        buckets = Mutex(
            Buckets(
                shared: settings.publicRate.map { TokenBuckets($0, capacity: 4096) },
                own: settings.publicRatePerUser.map { TokenBuckets($0) }
            )
        )
    }

    /// Sets how many relays share the limits.
    func divide(among relays: Int) {
        buckets.withLock { buckets in
            buckets.shared?.divide(among: relays)
            buckets.own?.divide(among: relays)
        }
    }

    /// Counts one request.
    ///
    /// Throws `throttled` if it exceeds the rate.
    func charge(_ container: ContainerID, _ user: UserID?, at uptime: Duration) throws(RelayError) {
        guard isLimited else { return }
        let wait: Duration? = buckets.withLock { buckets in
            if let user, buckets.own != nil,
                buckets.own?.take(Caller(container: container, user: user), at: uptime) == nil
            {
                return nil
            }
            let wait = buckets.shared?.take(container, at: uptime)
            if wait != nil {
                buckets.hits.note(.publicRequests, user.map { .user($0) } ?? .anyone(container), at: uptime)
            }
            return wait
        }
        guard let wait else { return }
        throw RelayError(
            .throttled,
            "Too many requests to this public database. Wait before the next one.",
            retryAfter: wait
        )
    }

    func hits(at uptime: Duration) -> [RateHit] { buckets.withLock { $0.hits }.hits(at: uptime) }
}
