import Records
import RelayCore
import Synchronization

/// Holds the public database of each container to its rate.
///
/// Each signed-in user has a little of their own, taken first; beyond it, and for callers whom nobody knows, all draw on
/// what the container has. So the whole grows with the users who are active, and none of them is kept out by another.
/// In memory and bounded; a request costs one or two look-ups under a lock, and none where nothing is limited.
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

    /// Counts one request.
    ///
    /// Throws `throttled` if it is one too many.
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
