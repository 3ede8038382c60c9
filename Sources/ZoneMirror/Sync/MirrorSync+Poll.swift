import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

extension MirrorSync {
    /// Polls all types now and throws the first failure after all were polled.
    ///
    /// A type that the relay does not know, or for which it lacks an index, is skipped with an event.
    func pollNow() async throws {
        try await checkAccount()
        await refreshRights()
        try await inLane(.fetching) {
            var failure: CKError?
            // A poll under way may have been requested before the changes that this one is to find.
            await waitForScheduledPolls()
            for case .query(let type, let since) in effects(of: .pollNow) {
                do throws(CKError) {
                    try await pollPages(type, since)
                } catch {
                    failure = failure ?? error
                }
            }
            lastError = failure
            if failure == nil, unpolled.isEmpty { await noteFirstPoll() }
            if let failure { throw failure }
        }
    }

    func waitForScheduledPolls() async {
        while typesBeingPolled > 0 { await withCheckedContinuation { pollWaiters.append($0) } }
    }

    /// Polls one type on schedule.
    func pollOnSchedule(_ type: String, _ since: Timestamp?) async {
        defer { typePollEnded() }
        do throws(CKError) {
            try await checkAccount()
        } catch {
            hasPollFailed = true
            tellPoll(.failed(type: type, syncFailure(of: error)))
            return await report(error, of: .fetching)
        }
        await refreshRights()
        do throws(CKError) {
            try await pollPages(type, since)
            await removeConfirmedDuplicates()
            reportSuccess()
        } catch {
            lastError = error
            await report(error, of: .fetching, isReported: true)
        }
    }

    private func typePollEnded() {
        typesBeingPolled -= 1
        guard typesBeingPolled == 0 else { return }
        pollWaiters.forEach { $0.resume() }
        pollWaiters = []
    }

    /// Notes the end of a scheduled poll of all types; a manual poll notes its own.
    func scheduledPollCompleted() {
        defer { hasPollFailed = false }
        guard typesBeingPolled > 0, !hasPollFailed, unpolled.isEmpty else { return }
        inBackground { await $0.noteFirstPoll() }
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

    private func pollPages(_ type: String, _ since: Timestamp?) async throws(CKError) {
        let began = conditions.wallClock()
        var marker: String?
        var count = 0
        repeat {
            guard let page = try await pollPage(type, since, after: marker) else { return }
            marker = page.marker
            count += page.count
        } while marker != nil && !isStopped
        if count > 0 { await note(.poll, began: began, done: count) }
    }

    /// Fetches a page and imports what is new; returns `nil` if the type is skipped.
    ///
    /// Runs with the zone's lock held, because a page read before a save or deletion of this device would undo it.
    private func pollPage(
        _ type: String,
        _ since: Timestamp?,
        after marker: String?
    ) async throws(CKError) -> (count: Int, marker: String?)? {
        let lock = lock(of: ZoneID(ZoneID.defaultName))
        await lock.enter()
        defer { lock.leave() }
        let page: (records: [Record], marker: String?)
        do throws(CKError) {
            try await repeatUnanswered(beforeReading: ZoneID(ZoneID.defaultName))
            page = try await link.query(type, since: since, marker: marker, extent: extents[type])
        } catch {
            if await skips(type, error) { return nil }
            await pollFailed(type, error)
            throw error
        }
        unpolled.remove(type)
        let before = poll.marks[type]
        do {
            let count = try await importNew(page.records, type, isLast: page.marker == nil)
            // A cancelled task must report the failure, so that the type does not stay marked as being polled.
            if page.marker != nil { try Task.checkCancellation() }
            return (count, page.marker)
        } catch {
            poll.restore(type, to: before)
            let error = CKError(from: error)
            // This failure did not come from the relay, so the poll is retried as after any temporary error.
            let syncFailure = error.syncFailure.isRetriedAutomatically ? error.syncFailure : SyncFailure(.busy)
            await pollFailed(type, error, syncFailure)
            throw error
        }
    }

    /// Returns whether a type is skipped until the relay can be asked for it; reports this once.
    ///
    /// A type that does not exist yet has no records. Without an index, there may be records that cannot be fetched.
    private func skips(_ type: String, _ error: CKError) async -> Bool {
        let isUnknown = error.code == .unknownItem
        guard isUnknown || error.code == .invalidArguments else { return false }
        if skipped.insert(type).inserted {
            let field = isUnknown ? "recordName" : Self.unmarkedField(error) ?? "modificationDate"
            await note(.poll, error: error, details: [.indexMissing(recordType: type, field: field)])
        }
        if !isUnknown { unpolled.insert(type) }
        tellPoll(.page(type: type, [], moreComing: false))
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

    private func pollFailed(_ type: String, _ error: CKError, _ syncFailure: SyncFailure? = nil) async {
        hasPollFailed = true
        await note(.poll, error: error)
        let syncFailure = syncFailure ?? error.syncFailure
        tellPoll(.failed(type: type, syncFailure))
        handle(.operationFailed(syncFailure))
        await storeRetryDelay()
    }

    /// Imports what is new in a page together with the poll's progress; only then the type may be complete.
    private func importNew(_ records: [Record], _ type: String, isLast: Bool) async throws -> Int {
        let listed = records.map { record in
            PublicPoll.ListedRecord(
                recordName: record.id.recordName,
                changeTag: record.changeTag ?? "",
                modified: record.modified?.at ?? Timestamp(milliseconds: 0)
            )
        }
        var count = 0
        for case .apply(_, let positions) in effects(of: .page(type: type, listed, moreComing: true)) {
            let news = positions.map { records[$0] }
            for range in news.parts(room: conditions.room) {
                var part = Array(news[range])
                try await makeReadable(&part, in: ZoneID(ZoneID.defaultName))
                count += try await write(part, type, isLast: range.upperBound == news.count)
            }
        }
        if isLast {
            tellPoll(.page(type: type, [], moreComing: false))
        }
        return count
    }

    private func write(_ records: [Record], _ type: String, isLast: Bool) async throws -> Int {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let mark = isLast ? poll.marks[type] : nil
        return try await file.pool.write { db in
            let zone = try KnownZone.make(db, ZoneID(ZoneID.defaultName))
            let count = try HistoryTable.importing(db, author: Importer.author, at: now) { transaction in
                let importer = try Importer(db, file, transaction: transaction, now: now)
                for record in records { try importer.importRecord(record, zone: zone) }
                return importer.count
            }
            if let mark { try PollProgress.store(db, type, mark) }
            try crash(.insideImport)
            return count
        }
    }
}
