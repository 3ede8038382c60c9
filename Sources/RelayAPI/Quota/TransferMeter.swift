import Records
import RelayCore
import Synchronization

/// Counts what each container's public database sends in a calendar month, and refuses more once that is too much.
///
/// Answers to reads count and assets; what people write, and their signing in, goes through all the same. In memory: a
/// read costs two looks into a dictionary under a lock, and none where nothing is limited. Now and then the counts are
/// added to the stores'; what was counted since is forgotten when the process is killed, to the container's advantage.
final class TransferMeter: Sendable {
    private struct Count {
        var month: CalendarMonth
        /// The month's, from its first moment to the next one's.
        var span: Range<Timestamp>
        /// In the store, as of the last look.
        var stored: Int64
        var unstored: Int64 = 0
        /// Of the container, as of the last look.
        var users: Int
    }

    /// How long a refused client is told to wait at the most: an operator may raise the limit before the month is over.
    static let longestWait = Duration.seconds(3600)

    private let limit: QuotaSettings.Growing?
    /// Bounds of single containers, `Int64.max` for any number; and whether there are any.
    private let own = Mutex<[ContainerEnvironment: Int64]>([:])
    private let hasOwn = Atomic<Bool>(false)
    private let counts = Mutex<[ContainerEnvironment: Count]>([:])

    init(_ limit: QuotaSettings.Growing?) { self.limit = limit }

    /// Goes by these from the next request on.
    func setOwn(_ limits: [ContainerEnvironment: Int64]) {
        own.withLock { $0 = limits }
        hasOwn.store(!limits.isEmpty, ordering: .releasing)
    }

    /// `nil`: any number.
    private func limit(of home: ContainerEnvironment) -> QuotaSettings.Growing? {
        guard hasOwn.load(ordering: .acquiring), let own = own.withLock({ $0[home] }) else { return limit }
        return own == .max ? nil : QuotaSettings.Growing(base: own, perUser: 0)
    }

    /// Throws `throttled` once the month's bytes are used up.
    func check(_ home: ContainerEnvironment, _ store: any Store, at now: Timestamp) throws(RelayError) {
        guard let limit = limit(of: home) else { return }
        let known = counts.withLock { counts in counts[home].flatMap { $0.span.contains(now) ? $0 : nil } }
        let count: Count
        if let known {
            count = known
        } else {
            let fresh = try Self.read(from: store, at: now)
            count = counts.withLock { counts in
                // What another month left unstored is lost, a minute's worth; somebody else may have looked meanwhile.
                if let other = counts[home], other.span.contains(now) { return other }
                counts[home] = fresh
                return fresh
            }
        }
        let most = limit.bytes(forUsers: count.users)
        guard count.stored + count.unstored >= most else { return }
        throw RelayError(
            .throttled,
            "The public database of this container has sent \(ByteText.of(most)) this month, which is all it may. "
                + "Wait for the next month, or ask the operator to raise quota.public-transfer.",
            retryAfter: min(Self.longestWait, max(count.span.upperBound - now, .seconds(1)))
        )
    }

    /// Counts bytes that were sent, or soon will be.
    func count(_ bytes: Int64, of home: ContainerEnvironment) {
        guard limit != nil || hasOwn.load(ordering: .acquiring) else { return }
        counts.withLock { $0[home]?.unstored += bytes }
    }

    /// Adds what has come together to the stores'.
    func flush(to stores: any StoreCatalog) async {
        for (home, count) in counts.withLock({ $0 }) where count.unstored > 0 {
            let (bytes, month) = (count.unstored, count.month)
            // Where the store cannot be written, it is tried again with the next ones.
            let stored = try? await stores.store(of: home).write { writer throws(RelayError) in
                try writer.addTransfer(bytes, in: month)
                return (bytes: try writer.transfer(in: month), users: try writer.userCount)
            }
            guard let stored else { continue }
            counts.withLock { counts in
                guard counts[home]?.month == month else { return }
                counts[home]?.unstored -= bytes
                counts[home]?.stored = stored.bytes
                counts[home]?.users = stored.users
            }
        }
    }

    private static func read(from store: any Store, at now: Timestamp) throws(RelayError) -> Count {
        let month = CalendarMonth(of: now)
        return try store.read { reader throws(RelayError) in
            Count(
                month: month,
                span: month.start..<month.next.start,
                stored: try reader.transfer(in: month),
                users: try reader.userCount
            )
        }
    }
}
