import Records
import RelayCore
import Synchronization

/// Counts the bytes that each container's public database sends per calendar month, and enforces the quota.
///
/// Responses to reads and assets count; writes and sign-in are never refused. In memory: a read costs two dictionary
/// lookups under a lock, and none if there is no quota. The counts are added to the stores periodically; if the process
/// is killed, those since the last time are lost, in the container's favour.
final class TransferMeter: Sendable {
    private struct Count {
        var month: CalendarMonth
        /// The month, from its first moment to that of the next month.
        var span: Range<Timestamp>
        /// The number of bytes in the store when it was last read.
        var stored: Int64
        var unstored: Int64 = 0
        /// The number of users of the container when it was last read.
        var users: Int
    }

    /// The maximum retry delay of a refused client: an operator may raise the quota before the month ends.
    static let longestWait = Duration.seconds(3600)

    private let limit: QuotaSettings.Growing?
    /// The overrides of containers, `Int64.max` for no limit, and whether there are any.
    private let own = Mutex<[ContainerEnvironment: Int64]>([:])
    private let hasOwn = Atomic<Bool>(false)
    private let counts = Mutex<[ContainerEnvironment: Count]>([:])

    init(_ limit: QuotaSettings.Growing?) { self.limit = limit }

    /// Sets the overrides, effective from the next request.
    func setOwn(_ limits: [ContainerEnvironment: Int64]) {
        own.withLock { $0 = limits }
        hasOwn.store(!limits.isEmpty, ordering: .releasing)
    }

    /// Returns the quota of a container; `nil` for no limit.
    private func limit(of home: ContainerEnvironment) -> QuotaSettings.Growing? {
        guard hasOwn.load(ordering: .acquiring), let own = own.withLock({ $0[home] }) else { return limit }
        return own == .max ? nil : QuotaSettings.Growing(base: own, perUser: 0)
    }

    /// Throws `throttled` if the quota of the month is used up.
    func check(_ home: ContainerEnvironment, _ store: any Store, at now: Timestamp) throws(RelayError) {
        guard let limit = limit(of: home) else { return }
        let known = counts.withLock { counts in counts[home].flatMap { $0.span.contains(now) ? $0 : nil } }
        let count: Count
        if let known {
            count = known
        } else {
            let fresh = try Self.read(from: store, at: now)
            count = counts.withLock { counts in
                // Bytes of the previous month that were not stored are lost: at most a minute's worth. Another thread
                // may have read the store in the meantime.
                if let other = counts[home], other.span.contains(now) { return other }
                counts[home] = fresh
                return fresh
            }
        }
        let most = limit.bytes(forUsers: count.users)
        guard count.stored + count.unstored >= most else { return }
        throw RelayError(
            .throttled,
            "The public database of this container has used its quota of \(ByteText.of(most)) for this month. "
                + "Wait for the next month, or ask the operator to raise quota.public-transfer.",
            retryAfter: min(Self.longestWait, max(count.span.upperBound - now, .seconds(1)))
        )
    }

    /// Counts bytes that were sent or are about to be sent.
    func count(_ bytes: Int64, of home: ContainerEnvironment) {
        guard limit != nil || hasOwn.load(ordering: .acquiring) else { return }
        counts.withLock { $0[home]?.unstored += bytes }
    }

    /// Adds the counted bytes to the stores.
    func flush(to stores: any StoreCatalog) async {
        for (home, count) in counts.withLock({ $0 }) where count.unstored > 0 {
            let (bytes, month) = (count.unstored, count.month)
            // If the store cannot be written, the next call tries again.
            let stored = try? await stores.store(of: home).write(touching: Zone.publicOwner) {
                writer throws(RelayError) in
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

    /// Drops what is known of a store that may be replaced.
    func drop(_ home: ContainerEnvironment) { counts.withLock { $0[home] = nil } }

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
