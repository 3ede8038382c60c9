import Foundation
package import Records
import SyncCore
import Synchronization
package import Wire

/// Writes whose responses were lost, so that a repeat of the same write uses the same idempotency key.
///
/// The relay executes a write with a given key once. It answers a repeat with the first outcome, even if other clients
/// have since changed the records, so the repeat does not overwrite their changes. The keys are kept in memory only;
/// after a restart of the app, a repeat fails with a conflict against its own first execution, which loses no data
/// either.
///
/// A sync engine or a mirror repeats a write until it gets a response. A program's own call ends with an error: if the
/// program makes the same call much later, or after it has fetched the record, the call counts as a new write.
package final class IdempotencyCache: Sendable {
    /// The content of a record write.
    fileprivate struct Write: Hashable, Sendable {
        var isAtomic: Bool
        var records: [ClientRequest.Write]
    }

    /// The content of a zone write.
    fileprivate struct ZoneWrite: Hashable, Sendable {
        var creating: [ZoneID]
        var deleting: [ZoneID]
        var reason: ZoneDeletionReason
    }

    /// The target of a write: the database, the zone and the operation.
    fileprivate struct Target: Hashable {
        var scope: DatabaseScope
        var zone: ZoneID
        var operation: String
    }

    /// How long an identical write counts as a repeat.
    package enum Retention: Sendable {
        case untilAnswered
        /// Ten minutes: longer than a program waits before it repeats a call that failed.
        case minutes

        fileprivate var length: Duration? { self == .minutes ? .seconds(600) : nil }
    }

    private struct UnansweredWrite {
        var isSame: @Sendable (any Sendable) -> Bool
        /// The names of the records that the write saves or deletes.
        var records: Set<String> = []
        /// The names of the records that the write changes regardless of their version.
        var forced: Set<String> = []
        /// The zones that the write deletes.
        var zones: Set<ZoneID> = []
        var key: String
        var at: Instant
        /// `nil`: the write is remembered until there is a response.
        var until: Instant?
    }

    /// The latest lost write per target.
    private let lost = Mutex<[Target: UnansweredWrite]>([:])
    /// The maximum number of targets; more than a program writes to at the same time.
    private static let limit = 64
    fileprivate static let modify = "records/modify"

    /// Returns the idempotency key for a write that is about to be sent.
    fileprivate func key(of content: any Sendable, to target: Target, at now: Instant) -> String {
        let known = lost.withLock { lost in
            lost = lost.filter { $0.value.until.map { $0 > now } ?? true }
            return lost[target]
        }
        if let known, known.isSame(content) { return known.key }
        return UUID().uuidString
    }

    /// Remembers a write whose outcome is unknown.
    fileprivate func responseLost<Content: Equatable & Sendable>(
        _ content: Content,
        key: String,
        to target: Target,
        at now: Instant,
        for retention: Retention
    ) {
        lost.withLock { lost in
            if lost.count >= Self.limit { lost.removeAll() }
            let until = retention.length.map { now + $0 }
            var write = UnansweredWrite(isSame: { $0 as? Content == content }, key: key, at: now, until: until)
            if let records = (content as? Write)?.records {
                write.records = Set(records.map(\.recordName))
                let forced = records.filter { !$0.type.needsChangeTag && $0.type != .create }
                write.forced = Set(forced.map(\.recordName))
            }
            if let zones = content as? ZoneWrite { write.zones = Set(zones.deleting) }
            lost[target] = write
        }
    }

    /// Forgets a write, because its response arrived.
    fileprivate func responseReceived(to target: Target) { lost.withLock { $0[target] = nil } }

    /// Forgets lost writes to records that the program has seen through a request that it made at `instant`.
    fileprivate func didSee(
        _ records: some Sequence<CKRecord.ID>,
        _ fetchKind: FetchKind,
        of scope: DatabaseScope,
        at instant: Instant
    ) {
        lost.withLock { lost in
            // Almost always there is no lost write.
            guard !lost.isEmpty else { return }
            for record in records {
                let target = Target(scope: scope, zone: record.zoneID.zone, operation: Self.modify)
                guard let known = lost[target], known.until != nil, known.at <= instant,
                    (fetchKind == .lookup ? known.records : known.forced).contains(record.recordName)
                else { continue }
                lost[target] = nil
            }
        }
    }

    /// Forgets lost deletions of zones that the program has seen through a request that it made at `instant`.
    fileprivate func didSee(_ zones: some Sequence<ZoneID>, of scope: DatabaseScope, at instant: Instant) {
        lost.withLock { lost in
            guard !lost.isEmpty else { return }
            let zones = Set(zones)
            lost = lost.filter { target, known in
                known.until == nil || known.at > instant || target.scope != scope || known.zones.isDisjoint(with: zones)
            }
        }
    }

    /// Forgets lost writes in another user's zone, because the program has accepted a share in the zone.
    fileprivate func didAcceptShare(_ zone: ZoneID) {
        lost.withLock { lost in
            lost = lost.filter { target, known in
                known.until == nil || target.scope != .shared || (target.zone != zone && !known.zones.contains(zone))
            }
        }
    }

    /// How a program came to see a record.
    enum FetchKind {
        /// It fetched this record by its ID, for example to find out the outcome of its write.
        case lookup
        /// It found the record in a query or in a list of changes. Only writes that ignore the record's version get a
        /// new meaning.
        case listing
    }
}

extension RelayConnection {
    var now: Instant { (conditions?.time ?? .system).now() }

    /// Called when the program has seen records through a request that it made at `instant`.
    ///
    /// A later write that is identical to a lost one then counts as a new write.
    func didSee(
        _ records: some Sequence<CKRecord.ID>,
        _ fetchKind: IdempotencyCache.FetchKind,
        of scope: DatabaseScope,
        at instant: Instant
    ) {
        idempotencyCache.didSee(records, fetchKind, of: scope, at: instant)
    }

    /// Called when the program has seen that zones exist.
    func didSee(_ zones: some Sequence<CKRecordZone.ID>, of scope: DatabaseScope, at instant: Instant) {
        idempotencyCache.didSee(zones.lazy.map(\.zone), of: scope, at: instant)
    }

    /// Called when the program has accepted a share in a zone.
    ///
    /// If the response to an earlier request to leave the zone was lost, the program can now leave it again.
    func didAcceptShare(_ zone: ZoneID) { idempotencyCache.didAcceptShare(zone) }

    /// Sends a write with an idempotency key, so that the relay recognizes a repeat if the response is lost.
    ///
    /// - Parameters:
    ///   - content: Everything that the write asks for; a write with equal content is a repeat.
    ///   - zone: The zone that the write changes, or one of several.
    ///   - scope: The database.
    ///   - operation: The operation's path below the database.
    ///   - settings: The request's priority, timeouts and other settings.
    ///   - retention: How long an identical write counts as a repeat if the response is lost.
    ///   - body: Returns the request's body for an idempotency key.
    /// - Returns: The response's body.
    /// - Throws: `CallFailure` if the call fails.
    package func write(
        _ content: some Equatable & Sendable,
        to zone: ZoneID,
        of scope: DatabaseScope,
        _ operation: String,
        settings: RequestSettings = RequestSettings(),
        retention: IdempotencyCache.Retention = .untilAnswered,
        _ body: (_ key: String) -> [UInt8]
    ) async throws(CallFailure) -> JSONDocument {
        let target = IdempotencyCache.Target(scope: scope, zone: zone, operation: operation)
        let key = idempotencyCache.key(of: content, to: target, at: now)
        do throws(CallFailure) {
            let call = RelayCall(scope, operation, body(key), isWrite: true, settings: settings)
            let document = try await send(call)
            idempotencyCache.responseReceived(to: target)
            return document
        } catch {
            if error.error.leavesOutcomeOpen {
                idempotencyCache.responseLost(content, key: key, to: target, at: now, for: retention)
            }
            throw error
        }
    }

    /// Sends a `records/modify` request with an idempotency key.
    package func modify(
        _ records: [ClientRequest.Write],
        in zone: ZoneID,
        of scope: DatabaseScope,
        atomically isAtomic: Bool,
        settings: RequestSettings = RequestSettings(),
        retention: IdempotencyCache.Retention = .untilAnswered
    ) async throws(CallFailure) -> JSONDocument {
        let content = IdempotencyCache.Write(isAtomic: isAtomic, records: records)
        return try await write(
            content,
            to: zone,
            of: scope,
            IdempotencyCache.modify,
            settings: settings,
            retention: retention
        ) { key in
            ClientRequest.modify(records, in: zone, atomically: isAtomic, operationID: key)
        }
    }

    /// Sends a `zones/modify` request with an idempotency key.
    ///
    /// A repeat does not delete a zone that was deleted and created again in the meantime.
    func modify(
        creating: [ZoneID],
        deleting: [ZoneID],
        because reason: ZoneDeletionReason,
        of scope: DatabaseScope,
        settings: RequestSettings,
        retention: IdempotencyCache.Retention
    ) async throws(CallFailure) -> JSONDocument {
        try await write(
            IdempotencyCache.ZoneWrite(creating: creating, deleting: deleting, reason: reason),
            to: creating.first ?? deleting.first ?? ZoneID(ZoneID.defaultName),
            of: scope,
            "zones/modify",
            settings: settings,
            retention: retention
        ) { key in
            ClientRequest.modify(
                creating: creating,
                deleting: deleting,
                of: scope,
                reason: reason,
                operationID: key
            )
        }
    }
}
