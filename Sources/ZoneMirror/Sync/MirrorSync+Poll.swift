import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// The polls of a public database, as far as a store has to know of them.
struct PublicPolling {
    var poll: PublicPoll
    /// The mirrored part of each record type, for types that are not mirrored completely.
    let extents: [String: WireExtent]
    /// The number of record types being polled on schedule, and the callers that wait until it is 0.
    var typesBeingPolled = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
    /// Types reported as skipped, and types that exist but cannot be polled.
    var skipped: Set<String> = []
    var unpolled: Set<String> = []
    /// Whether a type could not be polled in the poll that is running.
    var hasFailed = false
    /// The user and time of the last fetch of permissions.
    var lastRightsFetch: (generation: Int, at: Date)?

    init(_ types: [String], every interval: Duration, _ extents: [String: WireExtent]) {
        var settings = PublicPoll.Settings()
        settings.interval = interval
        poll = PublicPoll(types: types, settings: settings)
        self.extents = extents
    }

    /// Continues with the progress of the last run.
    mutating func restore(_ marks: [String: PublicPoll.Mark]) {
        poll = PublicPoll(types: poll.polledTypes, settings: poll.currentSettings, marks: marks)
    }
}

/// Polling of a public database.
extension MirrorSync {
    func beginPolls() {
        guard isPublic, conditions.isAutomatic, !isStopped else { return }
        delayPolls()
        tellPoll(.started)
    }

    func delayPolls() {
        guard isPublic, let until = runner.schedule.retryNotBefore else { return }
        tellPoll(.backingOff(until: until))
    }

    /// Passes an event to the poll, and performs what it decides.
    func tellPoll(_ event: PublicPoll.Event) { perform(effects(of: event)) }

    /// Passes an event to the poll, and returns what it decides.
    func effects(of event: PublicPoll.Event) -> [PublicPoll.Effect] {
        polling.poll.handle(event, at: conditions.time.now(), using: &runner.random)
    }

    func perform(_ effects: [PublicPoll.Effect]) {
        for effect in effects {
            switch effect {
            case .query(let type, let since):
                guard !isStopped else { break }
                runner.pollBegan()
                polling.typesBeingPolled += 1
                inBackground { await $0.pollOnSchedule(type, since) }
            case .wake(let instant):
                runner.pollWake = instant
                setAlarm()
            case .pollEnded:
                // A type that the relay does not know yet has no changes either.
                runner.pollSucceeded()
                scheduledPollCompleted()
            // The page loop handles the others.
            case .nextPage, .apply, .ended: break
            }
        }
    }

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
            if failure == nil, polling.unpolled.isEmpty { await noteFirstPoll() }
            if let failure { throw failure }
        }
    }

    func waitForScheduledPolls() async {
        while polling.typesBeingPolled > 0 { await withCheckedContinuation { polling.waiters.append($0) } }
    }

    /// Polls one type on schedule.
    func pollOnSchedule(_ type: String, _ since: Timestamp?) async {
        defer { typePollEnded() }
        do throws(CKError) {
            try await checkAccount()
        } catch {
            polling.hasFailed = true
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
        polling.typesBeingPolled -= 1
        guard polling.typesBeingPolled == 0 else { return }
        polling.waiters.forEach { $0.resume() }
        polling.waiters = []
    }

    /// Notes the end of a scheduled poll of all types; a manual poll notes its own.
    func scheduledPollCompleted() {
        defer { polling.hasFailed = false }
        guard polling.typesBeingPolled > 0, !polling.hasFailed, polling.unpolled.isEmpty else { return }
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

    /// Fetches a page and imports what is new; returns `nil` if the type is polling.skipped.
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
            page = try await database.client.query(type, since: since, marker: marker, extent: polling.extents[type])
        } catch {
            if await skips(type, error) { return nil }
            await pollFailed(type, error)
            throw error
        }
        polling.unpolled.remove(type)
        let before = polling.poll.marks[type]
        do {
            let count = try await importNew(page.records, type, isLast: page.marker == nil)
            // A cancelled task must report the failure, so that the type does not stay marked as being polled.
            if page.marker != nil { try Task.checkCancellation() }
            return (count, page.marker)
        } catch {
            polling.poll.restore(type, to: before)
            let error = CKError(from: error)
            // This failure did not come from the relay, so the poll is retried as after any temporary error.
            await pollFailed(type, error, error.ofImport(.busy))
            throw error
        }
    }

    /// Returns whether a type is skipped until the relay can be asked for it; reports this once.
    ///
    /// A type that does not exist yet has no records. Without an index, there may be records that cannot be fetched.
    private func skips(_ type: String, _ error: CKError) async -> Bool {
        let isUnknown = error.code == .unknownItem
        guard isUnknown || error.code == .invalidArguments else { return false }
        if polling.skipped.insert(type).inserted {
            let field = isUnknown ? "recordName" : Self.unmarkedField(error) ?? "modificationDate"
            await note(.poll, error: error, details: [.indexMissing(recordType: type, field: field)])
        }
        if !isUnknown { polling.unpolled.insert(type) }
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
        polling.hasFailed = true
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
                try await values.makeReadable(&part, in: ZoneID(ZoneID.defaultName))
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
        let mark = isLast ? polling.poll.marks[type] : nil
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
