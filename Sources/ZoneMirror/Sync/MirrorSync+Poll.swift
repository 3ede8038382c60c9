import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// What the polls of a public database leave out, and the permissions that go with them.
struct PublicPolling {
    /// The mirrored part of each record type, for types that are not mirrored completely.
    let extents: [String: WireExtent]
    /// Types reported as skipped, and types that exist but cannot be polled.
    var skipped: Set<String> = []
    var unpolled: Set<String> = []
    /// The user and time of the last fetch of permissions.
    var lastRightsFetch: (generation: Int, at: Date)?
}

/// Polling of a public database.
extension MirrorSync: PollTarget {
    func beginPolls() {
        guard isPublic, conditions.isAutomatic, !isStopped else { return }
        delayPolls()
        tellPoll(.started)
    }

    func delayPolls() {
        guard isPublic, let until = runner.schedule.retryNotBefore else { return }
        tellPoll(.backingOff(until: until))
    }

    /// Polls all types now and throws the first failure after all were polled.
    ///
    /// A type that the relay does not know, or for which it lacks an index, is skipped with an event.
    func pollNow() async throws {
        try await checkAccount()
        await refreshRights()
        try await inLane(.fetching) {
            // A poll under way may have been requested before the changes that this one is to find.
            await awaitScheduledPolls()
            do throws(CKError) {
                try await pollAllTypes()
                lastError = nil
            } catch {
                lastError = error
                throw error
            }
            if polling.unpolled.isEmpty { await noteFirstPoll() }
        }
    }

    func setPollAlarm(at instant: Instant?) {
        runner.pollWake = instant
        setAlarm()
    }

    func pollBegins() async throws {
        try await checkAccount()
        await refreshRights()
    }

    func pollCannotBegin(_ error: CKError) async { await report(error, of: .fetching) }

    func scheduledPollEnded(_ error: CKError?) async {
        guard let error else {
            await removeConfirmedDuplicates()
            return reportSuccess()
        }
        lastError = error
        await report(error, of: .fetching, isReported: true)
    }

    /// A manual poll notes its own end.
    func pollEnded(isComplete: Bool) {
        if isComplete, polling.unpolled.isEmpty { inBackground { await $0.noteFirstPoll() } }
    }

    func typePolled(_ type: String, count: Int, began: Date) async {
        if count > 0 { await store.note(.poll, began: began, done: count) }
    }

    private func noteFirstPoll() async {
        let now = conditions.wallClock().timeIntervalSince1970
        try? await file.pool.write { db in
            try State.set(db, .hasImported, "1")
            try State.set(db, .lastImport, now)
        }
        await removeConfirmedDuplicates()
    }

    private func removeConfirmedDuplicates() async {
        let file = file
        try? await file.pool.write { try Duplicates.removeConfirmed($0, file) }
        await outboxChanged()
    }

    /// A page read before a save or deletion of this device would undo it.
    func pageLock() -> AsyncLock? { lock(of: ZoneID(ZoneID.defaultName)) }

    func pollPage(of type: String, since: Timestamp?, after marker: String?) async throws -> PollPage<Record, String> {
        try await repeatUnanswered(beforeReading: ZoneID(ZoneID.defaultName))
        let extent = polling.extents[type]
        let page = try await database.client.query(type, since: since, marker: marker, extent: extent)
        polling.unpolled.remove(type)
        return PollPage(page.records, page.marker) { record in
            PublicPoll.ListedRecord(
                recordName: record.id.recordName,
                changeTag: record.changeTag ?? "",
                modified: record.modified?.at ?? Timestamp(milliseconds: 0)
            )
        }
    }

    /// Returns whether a type is skipped until the relay can be asked for it; reports this once.
    ///
    /// A type that does not exist yet has no records. Without an index, there may be records that cannot be fetched.
    func skips(_ type: String, _ error: CKError) async -> Bool {
        let isUnknown = error.code == .unknownItem
        guard isUnknown || error.code == .invalidArguments else { return false }
        if polling.skipped.insert(type).inserted {
            let field = isUnknown ? "recordName" : Self.unmarkedField(error) ?? "modificationDate"
            await store.note(.poll, error: error, details: [.indexMissing(recordType: type, field: field)])
        }
        if !isUnknown { polling.unpolled.insert(type) }
        return true
    }

    /// Returns the field named in CloudKit's error "Field 'recordName' is not marked queryable".
    ///
    /// Nothing else in the response says whether one of the three fields, or one of the extent's, is meant.
    private static func unmarkedField(_ error: CKError) -> String? {
        let parts = (error.errorDescription ?? "").split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "Field ", parts[2].hasPrefix(" is not marked ") else { return nil }
        let name = String(parts[1])
        return Query.SystemField(anyName: name) == .modified ? "modificationDate" : name
    }

    func pageFailed(_ type: String, _ error: CKError, _ failure: SyncFailure) async {
        await store.note(.poll, error: error)
        handle(.operationFailed(failure))
        await storeRetryDelay()
    }

    func apply(_ records: [Record], of type: String, _ mark: PublicPoll.Mark?) async throws -> Int {
        var count = 0
        for range in records.parts(room: conditions.room) {
            var part = Array(records[range])
            try await values.makeReadable(&part, in: ZoneID(ZoneID.defaultName))
            count += try await write(part, type, range.upperBound == records.count ? mark : nil)
        }
        return count
    }

    private func write(_ records: [Record], _ type: String, _ mark: PublicPoll.Mark?) async throws -> Int {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        return try await file.pool.write { db in
            let zone = try KnownZone.make(db, ZoneID(ZoneID.defaultName))
            let count = try Importer.run(db, file, at: now) { importer in
                for record in records { try importer.importRecord(record, zone: zone) }
                return importer.count
            }
            if let mark { try PollProgress.store(db, type, mark) }
            try crash(.insideImport)
            return count
        }
    }

    // MARK: Permissions

    /// The interval between checks of one user's permissions, in seconds.
    private static let rightsInterval: TimeInterval = 300

    /// Fetches the permissions of the user's roles at the first poll of a user, and from time to time afterwards.
    func refreshRights() async {
        guard isPublic, let generation = try? database.session.connection().credentials.current.generation else {
            return
        }
        let now = conditions.wallClock()
        if let last = polling.lastRightsFetch, last.generation == generation,
            abs(now.timeIntervalSince(last.at)) < Self.rightsInterval
        {
            return
        }
        polling.lastRightsFetch = (generation, now)
        guard let rights = try? await database.client.limits().rights else { return }
        let types = file.mapping.recordTypes
        let known = try? await file.pool.read { db in
            try Row.fetchAll(db, sql: "SELECT type, rights FROM mirror_right").reduce(into: [String: Rights]()) {
                $0[$1[0]] = Rights(rawValue: $1[1])
            }
        }
        guard known != rights.filter({ types.contains($0.key) }) else { return }
        try? await file.pool.write { try GrantedRights.store($0, rights, of: types) }
    }
}
