import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

extension MirrorSync {
    /// The result of one fetch round.
    struct FetchProgress: FetchRoundProgress {
        let epoch: Int
        var began: Date
        /// Zones that the round skips because they are in back-off.
        let backingOff: Set<ZoneID>
        var records = 0
        var bytes = 0
        /// The number of records still to fetch, by zone, as far as the relay has reported it.
        var rest: [ZoneID: Int] = [:]
        var errors: [ZoneID?: CKError] = [:]
        var details: [MirrorEvent.Detail] = []
    }

    /// Zones to fetch before all others.
    static var scheduledFetch: [ZoneID] { [] }

    func fetchNow(prioritized: [ZoneID] = []) async throws {
        guard !isPublic else { return try await pollNow() }
        try await checkAccount()
        try await fetch(prioritized)
    }

    func fetchBegins(_ prioritized: [ZoneID], asksDatabase: Bool, backingOff: Set<ZoneID>) -> (
        FetchRound, FetchProgress
    ) {
        (
            FetchRound(asksDatabase: asksDatabase, prioritized: prioritized, backingOff: backingOff),
            FetchProgress(epoch: runner.accountEpoch, began: conditions.wallClock(), backingOff: backingOff)
        )
    }

    func fetchEnds(_ outcome: inout FetchRound.Outcome, _ progress: inout FetchProgress) async {
        imports.stopPrefetching()
        let skipsUnfetched = imports.feed.unfetched.contains(where: progress.backingOff.contains)
        if outcome.syncFailure == nil, outcome.failedZones.isEmpty, !skipsUnfetched {
            do {
                try await allChangesFetched(&progress)
            } catch {
                let error = CKError(from: error)
                progress.errors[nil] = error
                outcome.syncFailure = error.ofImport(.busy)
            }
        }
        let failure = failure(of: outcome, progress)
        lastError = failure
        // The start of the last round that read the database's feed: all its zones have that state or a newer one.
        if outcome.reachedDatabaseEnd { imports.unfinishedSince = progress.began }
        if failure == nil, !imports.feed.unfetched.contains(where: progress.backingOff.contains),
            let seen = imports.unfinishedSince
        {
            imports.unfinishedSince = nil
            await noteImported(at: seen)
            await checkSchema()
        }
        guard progress.records > 0 || failure != nil || !progress.details.isEmpty else { return }
        await store.note(
            .import,
            began: progress.began,
            done: progress.records,
            bytes: progress.bytes,
            error: failure,
            details: progress.details
        )
    }

    func fetchEnded() async {
        await storeRetryDelay()
        await outboxChanged()
    }

    nonisolated func failure(of zones: [ZoneID: CKError]) -> CKError? {
        zones.min { $0.key.description < $1.key.description }?.value
    }

    /// Forgets all change tokens; objects are removed only after a full fetch shows that their records are gone.
    func forgetTokens() async throws {
        let isPublic = isPublic
        try await inLane(.fetching) {
            repeat {
                // A poll under way would store its progress.
                await awaitScheduledPolls()
                try await file.pool.write { db in
                    try KnownZone.forgetTokens(db)
                    try State.set(db, .databaseToken, nil)
                    if isPublic { try PollProgress.forgetAll(db) }
                }
            } while polls.runningTypes > 0
            imports.feed = FeedState(databaseToken: nil)
            polls.restore([:])
            beginPolls()
        }
    }

    private func noteImported(at seen: Date) async {
        let (file, now) = (file, seen.timeIntervalSince1970)
        try? await file.pool.write { db in
            try State.set(db, .hasImported, "1")
            try State.set(db, .lastImport, now)
            try Duplicates.removeConfirmed(db, file)
            try Duplicates.markAdopted(db, file)
        }
    }

    func databasePage(since token: SyncToken?) async throws -> DatabasePage {
        try await client.databasePage(since: token, isPrivate: isPrivate)
    }

    func zonePage(_ zone: ZoneID, since token: SyncToken?) async throws -> MirrorPage {
        if let prefetch = imports.prefetchers[zone] {
            // A save sent since may be newer than the prefetched pages.
            if prefetch.token == token, prefetch.prefetcher.changes == runner.changes[zone, default: 0] {
                let page = await prefetch.prefetcher.take()
                // After a failure, the next attempt starts again.
                if case .failure = page { imports.prefetchers[zone] = nil }
                return try page.get()
            }
            prefetch.prefetcher.stop()
            imports.prefetchers[zone] = nil
        }
        let counts = token == nil
        return try await client.mirrorPage(of: zone, since: token, isPrivate: isPrivate, countsRemaining: counts)
    }

    /// Prefetches the following pages while this one is imported.
    private func prefetch(_ page: MirrorPage, of zone: ZoneID) {
        guard page.records.moreComing, !isStopped else { return }
        let token = page.records.token
        if imports.prefetchers[zone] != nil {
            imports.prefetchers[zone]?.token = token
            return
        }
        let prefetcher = PagePrefetcher(changes: runner.changes[zone, default: 0])
        imports.prefetchers[zone] = (token, prefetcher)
        inBackground { await prefetcher.run($0.client, $0.file.mapping, zone, isPrivate: $0.isPrivate, from: token) }
    }

    /// Includes zones of which nothing was fetched yet, because all of their records were written here.
    func knownZones() async -> Set<ZoneID> {
        let zones = (try? await file.pool.read { try KnownZone.all($0) }) ?? []
        return Set(zones.filter { $0.isThere && !$0.zone.isDefault }.map(\.zone))
    }

    func apply(_ page: DatabasePage, returned: Set<ZoneID>, _ progress: inout FetchProgress) async throws {
        var reasons: [ZoneID: ShareChange.Loss] = [:]
        if database.databaseScope == .shared {
            for (zone, _) in page.deleted { reasons[zone] = await reasonOfLoss(zone) }
        }
        for (zone, _) in page.deleted { database.keys.forgetKey(of: CKRecordZone.ID(zone)) }
        progress.details += try await write(page, reasons)
    }

    func apply(
        _ page: MirrorPage,
        of zone: ZoneID,
        since token: SyncToken?,
        _ progress: inout FetchProgress
    ) async throws -> FetchRound.Event {
        prefetch(page, of: zone)
        do {
            for part in page.parts(room: conditions.room) { try await importPart(part, of: zone, token, &progress) }
        } catch is PageImporter.OutOfSequencePage {
            return .zoneFailed(zone, SyncFailure(.tokenExpired))
        }
        progress.bytes += page.bytes
        let arrived = page.records.changed.count
        progress.rest[zone] = page.remaining ?? progress.rest[zone].map { max(0, $0 - arrived) }
        if page.records.moreComing { postProgress(progress) }
        return .zonePage(zone, token: page.records.token, moreComing: page.records.moreComing)
    }

    func zoneReplaced(_ zone: ZoneID, _ reason: ZoneDeletionReason, _ progress: inout FetchProgress) async throws {
        // Records of a zone that was only deleted may have moved; a full fetch of their new zone shows that.
        guard reason != .deleted else { return }
        var kept: [MirrorEvent.Detail] = []
        if let known = try await file.pool.read({ try KnownZone.find($0, zone) }) {
            kept = try store.keepCopy(of: known)
        }
        progress.details += kept + (try await store.importer.zoneLost(zone, reason))
    }

    private func importPart(_ part: MirrorPage, of zone: ZoneID, _ since: SyncToken?, _ progress: inout FetchProgress)
        async throws
    {
        var part = part
        // Runs before the page counts as read: if the new key is not available now, the page is fetched again.
        if part.hasKeys { try await unlock(zone) }
        try await values.makeReadable(&part.records.changed, in: zone)
        let (count, details) = try await write(part, of: zone, since: since)
        await handleKeys(part, in: zone, isListed: since == nil, &progress)
        progress.records += count
        progress.details += details
    }

    /// Handles a change of a zone's keys: reads locked values again and sends changes that could not be encrypted.
    func unlock(_ zone: ZoneID) async throws {
        await database.keys.keysChanged(in: CKRecordZone.ID(zone))
        try await file.pool.write { try RecordTable($0).release(.dependencyArrived) }
        let locked = try await file.pool.read { db -> [Record] in
            guard let home = try KnownZone.find(db, zone) else { return [] }
            let names = try String.fetchAll(
                db,
                sql: "SELECT name FROM mirror_record WHERE zone = ? AND \(RecordTable.unsettled) AND state = ?",
                arguments: [home.id, RecordState.locked.rawValue]
            )
            return try names.compactMap { name in
                guard let known = try KnownRecord.find(db, zone: home.id, name: name) else { return nil }
                var record = try known.record(db, in: zone)
                record.encryptedFields.formUnion(known.encryptedFields())
                return record
            }
        }
        let opened = zip(locked, try await values.reopen(locked, in: zone)).filter { $0.fields != $1.fields }.map(\.1)
        guard !opened.isEmpty else { return }
        try await store.importer.unlocked(opened, in: zone)
    }

    /// Reports an import's progress to the listeners; the file stores only its end.
    private func postProgress(_ progress: FetchProgress) {
        store.broadcaster.post(
            MirrorEvent(
                id: 0,
                store: file.id,
                kind: .import,
                began: progress.began,
                ended: nil,
                succeeded: true,
                errorCode: nil,
                message: nil,
                done: progress.records,
                total: progress.rest.isEmpty ? nil : progress.records + progress.rest.values.reduce(0, +),
                bytes: progress.bytes,
                details: []
            )
        )
    }

    /// Reports missing keys and gives the zone's key to the users with whom it is shared.
    private func handleKeys(_ page: MirrorPage, in zone: ZoneID, isListed: Bool, _ progress: inout FetchProgress) async
    {
        if page.records.changed.contains(where: \.isLocked) {
            let missing = MirrorEvent.Detail.keyMissing(zone: zone.zoneName)
            if !progress.details.contains(missing) { progress.details.append(missing) }
        }
        guard isPrivate, database.keys.isAvailable, let caller = try? database.session.connection().caller else {
            return
        }
        var reader = RecordReader(scope: .private, caller: caller)
        let shares = page.shares.compactMap { name, details in
            page.records.changed.first { $0.id.recordName == name }.flatMap { reader.record($0, details) as? CKShare }
        }
        let ended = page.records.deleted.filter { $0.type == Share.recordType }.map(\.id.recordName)
        await database.keys.provideKeys(by: shares, ended: ended, in: CKRecordZone.ID(zone), isListed: isListed)
    }
}

/// Imports, and what they change outside of the store's file.
extension MirrorSync {
    /// Imports the zones of a page of the database's feed and its token in one transaction.
    func write(
        _ page: DatabasePage,
        _ reasons: [ZoneID: ShareChange.Loss]
    ) async throws -> [MirrorEvent.Detail] {
        // Records of an ended zone may have moved to a changed one, so the zone is kept until those are fetched.
        let waits = page.moreComing || !page.changed.isEmpty || !imports.feed.unfetched.isEmpty
        var ending: [ZoneID] = []
        var lost: [(ZoneID, ZoneDeletionReason)] = []
        for (zone, reason) in page.deleted {
            guard waits, reason == .deleted, zone != file.homeZone else {
                lost.append((zone, reason))
                continue
            }
            ending.append(zone)
            imports.endings[zone] = reasons[zone] ?? .unknown
        }
        var kept: [MirrorEvent.Detail] = []
        for (zone, _) in lost where file.scope == .shared {
            if let known = try await file.pool.read({ try KnownZone.find($0, zone) }) {
                kept += try store.keepCopy(of: known)
            }
        }
        return kept + (try await store.importer.write(page, ending: ending, lost: lost, reasons))
    }

    /// Imports a page's records and its token in one transaction.
    func write(
        _ found: MirrorPage,
        of zone: ZoneID,
        since: SyncToken?
    ) async throws -> (Int, [MirrorEvent.Detail]) {
        let written = try await store.importer.write(found, of: zone, since: since)
        for zone in written.left { runner.changes[zone, default: 0] += 1 }
        for zone in written.awaiting { imports.expectRecords(in: zone) }
        try conditions.crashPoint(.afterImport)
        return (written.count, written.details)
    }
}

/// The end of a fetch round: records that left a zone without appearing in another, and zones that ended.
extension MirrorSync {
    /// Called after all changes were fetched.
    func allChangesFetched(_ progress: inout FetchProgress) async throws {
        if imports.awaitsRecords { try await lookUpAwaitedRecords(&progress) }
        if !imports.endings.isEmpty { try await endZones(&progress) }
        try await removeInvisibleObjects(&progress)
        if isPrivate { try await UnsharedLinkedObjects.find(in: file) }
    }

    // MARK: Expected records

    /// Fetches expected records by name that their new zone's feed did not contain, because it was read before the old
    /// zone's.
    private func lookUpAwaitedRecords(_ progress: inout FetchProgress) async throws {
        let awaited = try await file.pool.read { db -> [ZoneID: [String]] in
            var found: [ZoneID: [String]] = [:]
            let sql = "SELECT zone, name FROM mirror_record WHERE \(RecordTable.unsettled) AND state = ? ORDER BY id"
            for row in try Row.fetchAll(db, sql: sql, arguments: [RecordState.awaited.rawValue]) {
                let (id, name): (Int64, String) = (row[0], row[1])
                if let zone = try KnownZone.find(db, id: id)?.zone { found[zone, default: []].append(name) }
            }
            return found
        }
        for (zone, names) in awaited {
            let lock = lock(of: zone)
            await lock.enter()
            defer { lock.leave() }
            for start in stride(from: 0, to: names.count, by: BatchLimits.maxOperations) {
                let part = Array(names[start..<min(start + BatchLimits.maxOperations, names.count)])
                let found = try await records(part, in: zone)
                for range in found.parts(room: conditions.room) {
                    var some = Array(found[range])
                    try await values.makeReadable(&some, in: zone)
                    progress.records += try await store.importer.applyLookup(some.map(\.id.recordName), some, in: zone)
                }
                let there = Set(found.map(\.id.recordName))
                progress.records += try await store.importer.applyLookup(
                    part.filter { !there.contains($0) },
                    [],
                    in: zone
                )
            }
        }
        try await file.pool.write { try State.set($0, .awaitsRecords, nil) }
        imports.awaitsRecords = false
    }

    private func records(_ names: [String], in zone: ZoneID) async throws(CKError) -> [Record] {
        do {
            return try await client.lookup(names, in: zone)
        } catch {
            if error.code == .zoneNotFound { return [] }
            guard error.code == .limitExceeded, names.count > 1 else { throw error }
            // The records exceed the maximum size of a response.
            let half = names.count / 2
            return try await records(Array(names[..<half]), in: zone) + records(Array(names[half...]), in: zone)
        }
    }

    // MARK: Ended zones

    /// Removes the objects that are still in an ended zone.
    private func endZones(_ progress: inout FetchProgress) async throws {
        let zones = try await file.pool.read { try KnownZone.all($0).filter(\.isEnding) }
        for zone in zones where file.scope == .shared { progress.details += try store.keepCopy(of: zone) }
        progress.details += try await store.importer.endZones(zones, imports.endings)
        imports.endings = [:]
    }
}
