import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

extension MirrorSync {
    /// The result of one round of sending.
    struct SendProgress: SendRoundProgress {
        /// Writes in the name of the user whose changes were read.
        let client: any RelayClient
        let epoch: Int
        var began: Date
        var moves = 0
        /// The number of passes through the outbox since the last move.
        var passes = 0
        /// The place in the outbox up to which this pass has read it; `nil` at its end.
        var place: Int64? = -1
        var outcome = SyncSchedule.SendOutcome()
        var error: CKError?
        var busyZones: Set<ZoneID> = []
        var busy: CKError?
        var sent = 0
        var bytes = 0
        var refused: [SendResultWriter.Refusal] = []
        /// The error of a change that found no space.
        var quotaError: CKError?
        var changedZones: Set<ZoneID> = []
        /// Whether something must be sent again in this round.
        var needsAnotherPass = false
        /// Whether changes must be fetched before anything is sent again.
        var needsFetch = false
        /// Whether the database's feed must be read for lost zones.
        var needsDatabaseFetch = false
        var details: [MirrorEvent.Detail] = []
        /// New objects whose share is unknown.
        var objectsWithoutShare: [String] = []
        /// Changes that failed when sent alone, by a failure of the relay or the network, since the relay last
        /// answered any request.
        var unansweredChanges: [(item: Outgoing, error: CKError)] = []

        var failure: CKError? { error ?? busy }
    }

    /// The maximum number of times that records found in a zone to be removed are moved in one round; the next round
    /// continues.
    private static let maxMoves = 6

    static var scheduledSend: Void { () }

    /// Sends all unsent changes.
    ///
    /// With `objects`, only errors of these objects are thrown. The other changes are sent nevertheless.
    ///
    /// - Throws: The error that ended the round, the first refusal, or what a change waits for.
    func sendNow(concerning objects: [ObjectID]? = nil) async throws {
        try await checkAccount()
        // A caller's request also retries changes that wait for a zone or for something that may have arrived.
        _ = try? await file.pool.write { db in
            try RecordTable(db).release(.zoneFreed)
            try RecordTable(db).release(.dependencyArrived)
        }
        let names = objects.map { Set($0.map(\.name.text)) }
        let refused = try await send(()).refused
        if let refusal = refused.first(where: { names?.contains($0.oid) ?? true }) { throw refusal.error }
        let waiting = try await file.pool.read { try OutboxRow.waiting($0) }
        if let first = waiting.first(where: { names?.contains($0.oid) ?? true }) { throw first.reasonToWait }
    }

    func sendProgress(_: Void) -> SendProgress {
        SendProgress(
            client: isPublic ? store.account.clientOfCurrentUser : client,
            epoch: runner.accountEpoch,
            began: conditions.wallClock()
        )
    }

    /// Moves records, and then starts at the beginning of the outbox.
    func passBegins(_ progress: inout SendProgress) async throws {
        (progress.needsAnotherPass, progress.unansweredChanges, progress.place) = (false, [], -1)
        guard progress.passes == 0 else { return }
        if isPrivate { try await UnsharedLinkedObjects.moveToShares(in: file) }
        try await shareMover.moveOnRelay(self)
    }

    /// Conflicts are merged and sent again immediately, a limited number of times for each change.
    ///
    /// Another pass follows too if a record must move before its zone can be removed.
    func passEnds(_ progress: inout SendProgress) async throws -> Bool {
        if progress.needsFetch {
            // A record was not found in its zone, because it may have moved.
            (progress.needsFetch, progress.needsAnotherPass) = (false, true)
            try await fetch([])
        }
        progress.passes += 1
        if progress.needsAnotherPass, progress.passes < SendDecision.maxConflicts + 3 { return true }
        try await UnknownRecords(store: store).send(&progress, self)
        guard try await !shareMover.finishMoves(self) else { return false }
        progress.moves += 1
        progress.passes = 0
        return progress.moves < Self.maxMoves && progress.error == nil
    }

    func sendEnds(_ progress: inout SendProgress) async {
        // Nothing has shown that the failure was not in the network.
        progress.error = progress.error ?? progress.unansweredChanges.first?.error ?? progress.quotaError
        let failure = progress.error ?? progress.busy
        let objectsWithoutShare = Set(progress.objectsWithoutShare)
        if !objectsWithoutShare.isSubset(of: exports.objectsWithoutShare) {
            progress.details.append(.shareMissing(objectsWithoutShare.sorted()))
        }
        exports.objectsWithoutShare.formUnion(objectsWithoutShare)
        await note(sent: progress, failure)
        let hasSent = progress.sent > 0
        lastError = failure
        let now = conditions.wallClock().timeIntervalSince1970
        let isDone = progress.error == nil && progress.busyZones.isEmpty
        try? await file.pool.write { db in
            if isDone {
                try State.set(db, .lastExport, now)
                try Duplicates.exported(db)
            }
            // Waiting changes may be sent now that something was saved.
            if hasSent { try RecordTable(db).release(.dependencyArrived) }
        }
        progress.outcome.madeProgress = hasSent
        progress.outcome.hadRejections = !progress.refused.isEmpty
        progress.outcome.onlyZonesBackingOffRemain =
            progress.error == nil && !progress.busyZones.isEmpty && progress.refused.isEmpty
        await outboxChanged()
    }

    func sendEnded(_ progress: SendProgress) async {
        await storeRetryDelay()
        if progress.needsDatabaseFetch { handle(.noticed(nil)) }
        if !progress.refused.isEmpty { await checkSchema() }
    }

    /// Reads the next changes from the outbox.
    func pendingBatch(_ progress: inout SendProgress) async throws -> Exporter.Batch? {
        while let place = progress.place {
            let (file, limit, room) = (file, runner.limits.operations, conditions.room)
            let now = conditions.wallClock().timeIntervalSince1970
            let batch = try await file.pool.write { db in
                var isFull = try State.text(db, .quotaIsFull) != nil
                // Space may have been freed elsewhere, so a full database is tried again every 15 minutes.
                if let since = try State.number(db, .quotaIsFull), abs(now - since) > 900 {
                    try State.set(db, .quotaIsFull, nil)
                    isFull = false
                }
                return try Exporter(db, file).batch(after: place, limit: limit, room: room, isFull: isFull)
            }
            progress.place = batch.isLast ? nil : batch.upTo
            progress.objectsWithoutShare += batch.objectsWithoutShare
            guard batch.hasMoves else {
                if !batch.items.isEmpty { try conditions.crashPoint(.beforeSend) }
                return batch
            }
            try await shareMover.moveOnRelay(self)
        }
        return nil
    }

    /// Creates a zone of this user before its first record is sent.
    ///
    /// Returns `false` if the zone cannot be created now. The changes for the zone are marked as failed then, and others
    /// continue.
    func createZone(_ zone: ZoneID, for items: [Outgoing], _ progress: inout SendProgress) async throws -> Bool {
        guard isPrivate, !zone.isDefault else { return true }
        let isThere = try await file.pool.read { try KnownZone.find($0, zone)?.isThere ?? false }
        guard !isThere else { return true }
        do throws(CKError) {
            try await progress.client.make([zone])
        } catch {
            if error.syncFailure.isRetriedAutomatically || error.isServiceFailure {
                progress.retryLater(error, in: zone)
            } else if error.code == .quotaExceeded {
                try await block(items, error, &progress)
            } else {
                _ = try await applyResults(items, items.map { _ in .failed(error, nil) }, zone, &progress)
            }
            return false
        }
        try await file.pool.write { try KnownZone.make($0, zone).exists($0) }
        imports.feed.wrote(zone)
        return true
    }

    /// Holds changes for a zone that cannot be created because the user has too many zones, which does not affect the
    /// quota.
    private func block(_ items: [Outgoing], _ error: CKError, _ progress: inout SendProgress) async throws {
        let file = file
        try await file.pool.write { db in
            let records = RecordTable(db)
            for item in items { try records.hold(item.oid, .zoneRefused, error.errorDescription ?? "", code: nil) }
        }
        progress.quotaError = progress.quotaError ?? error
        retryLater(.quota)
    }

    /// Stores a request that is about to be sent.
    func request(
        for items: [Outgoing],
        of batch: Exporter.Batch,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> SentRequest? {
        let names = items.map(\.oid)
        exports.inFlight.formUnion(names)
        defer { exports.inFlight.subtract(names) }
        let (ready, writes) = try await prepareRequest(items, in: zone, &progress)
        guard !ready.isEmpty, progress.error == nil else { return nil }
        let isAtomic = !isPublic && !zone.isDefault
        let request = try await file.pool.write { db -> SentRequest in
            let request = try SentRequest(stillDue: ready, writes, in: zone, atomically: isAtomic, db)
            if !request.items.isEmpty { try request.keep(db, in: zone) }
            return request
        }
        if request.items.count < ready.count { progress.needsAnotherPass = true }
        return request.items.isEmpty ? nil : request
    }

    func answer(to request: SentRequest, in zone: ZoneID, _ progress: SendProgress) async throws -> [WriteAnswer] {
        exports.inFlight.formUnion(request.items.map(\.oid))
        return try await progress.client.modify(request.body, count: request.items.count, in: zone)
    }

    func settle(
        _ request: SentRequest,
        _ answers: [WriteAnswer],
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> [Outgoing] {
        defer { exports.inFlight.subtract(request.items.map(\.oid)) }
        progress.bytes += request.items.reduce(0) { $0 + $1.size }
        imports.feed.wrote(zone)
        try conditions.crashPoint(.afterSend)
        try await refuseUnansweredChanges(&progress)
        var answers = answers
        try await open(&answers, to: request.writes, in: zone)
        for index in answers.indices {
            guard case .failed(let error, let server) = answers[index] else { continue }
            if error.code == .invalidArguments { values.assets.forgetUploads(of: request.writes[index]) }
            guard var server = server.map({ [$0] }) else { continue }
            try await values.makeReadable(&server, in: zone)
            answers[index] = .failed(error, server.first)
        }
        return try await applyResults(request.items, answers, zone, &progress, answers: true)
    }

    func settle(
        _ request: SentRequest,
        _ error: CKError,
        _ decision: WriteAttempts.Decision,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> [Outgoing] {
        defer { exports.inFlight.subtract(request.items.map(\.oid)) }
        try await file.pool.write { db in
            if decision == .repeatUnchanged {
                try request.keep(db, in: zone)
            } else {
                try SentRequest.remove(db, in: zone)
            }
        }
        switch decision {
        case .repeatUnchanged, .split, .later: return []
        case .keep:
            requestFailedUnanswered(request.items, error, &progress)
            return []
        case .refuse:
            let answers = request.items.map { _ in WriteAnswer.failed(error, nil) }
            return try await applyResults(request.items, answers, zone, &progress)
        }
    }

    // MARK: Requests without an answer

    func unansweredZones() async throws -> [ZoneID] { try await file.pool.read { try SentRequest.zones($0) } }

    func unansweredRequest(in zone: ZoneID) async throws -> SentRequest? {
        do {
            return try await file.pool.read { try SentRequest.find($0, in: zone) }
        } catch is JSONError {
            // Another version of this library may have stored it. Its changes are sent like any others.
            try await file.pool.write { try SentRequest.remove($0, in: zone) }
            return nil
        }
    }

    func requestRepeated(_ progress: SendProgress) async { await note(sent: progress, nil) }

    /// Decrypts the saved records, which the relay returns completely, with fields that only a newer program knows.
    private func open(
        _ answers: inout [WriteAnswer],
        to writes: [ClientRequest.Write],
        in zone: ZoneID
    ) async throws(CKError) {
        for (index, write) in zip(answers.indices, writes) {
            guard case .saved(let record) = answers[index], !record.encryptedFields.isSubset(of: write.encrypted)
            else { continue }
            var records = [record]
            try await values.open(&records, in: zone)
            answers[index] = .saved(records[0])
        }
    }

    /// Records the result of a round of sending as an event, if there is any.
    func note(sent progress: SendProgress, _ failure: CKError?) async {
        var details = progress.details
        if !progress.refused.isEmpty { details.append(.refused(progress.refused.map(\.oid))) }
        guard !details.isEmpty || progress.sent > 0 || failure != nil else { return }
        await store.note(
            .export,
            began: progress.began,
            done: progress.sent,
            bytes: progress.bytes,
            error: failure ?? progress.refused.first?.error,
            details: details
        )
    }
}

/// Preparing requests and applying their results.
extension MirrorSync {
    /// The number of consecutive failures of single changes after which the connection is considered broken.
    private static let maxUnansweredChanges = 3

    /// Handles a request without a response: its changes stay, and the next request is smaller.
    ///
    /// A change that was sent alone does not block the next one: if the relay answers that one, the failure is the
    /// change's own.
    func requestFailedUnanswered(_ request: [Outgoing], _ error: CKError, _ progress: inout SendProgress) {
        guard let item = request.first, request.count == 1 else {
            runner.limits.exceeded(by: request.count)
            progress.error = error
            return
        }
        progress.unansweredChanges.append((item, error))
        if progress.unansweredChanges.count >= Self.maxUnansweredChanges { progress.error = error }
    }

    /// Marks the failed changes as refused by the relay, since a later response shows that the connection works.
    func refuseUnansweredChanges(_ progress: inout SendProgress) async throws {
        let unansweredChanges = progress.unansweredChanges
        progress.unansweredChanges = []
        for (item, error) in unansweredChanges {
            _ = try await applyResults([item], [.failed(error, nil)], item.zone, &progress)
        }
    }

    /// Encrypts and uploads what the changes need; those for which that fails are marked as failed.
    func prepareRequest(
        _ request: [Outgoing],
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> ([Outgoing], [ClientRequest.Write]) {
        var (good, writes, bad): ([Outgoing], [ClientRequest.Write], [(Outgoing, CKError)]) = ([], [], [])
        for item in request {
            do throws(CKError) {
                // A missing zone key is requested once, not for each change.
                if let noKey = bad.last?.1, noKey.isZoneKeyMissing, !item.write.encrypted.isEmpty { throw noKey }
                writes.append(try await values.prepared(item, in: zone))
                good.append(item)
            } catch {
                // A full local disk is no reason to undo the change.
                guard !error.syncFailure.isRetriedAutomatically, !error.isOfStorage else {
                    progress.error = error
                    return ([], [])
                }
                bad.append((item, error))
            }
        }
        if good.contains(where: { !$0.large.isEmpty }) { try conditions.crashPoint(.afterUpload) }
        if !bad.isEmpty {
            _ = try await applyResults(bad.map(\.0), bad.map { .failed($0.1, nil) }, zone, &progress)
        }
        return (good, writes)
    }

    /// Applies the results of a request in one transaction.
    ///
    /// `answers` means that they come from the relay's response to the zone's stored request, which is complete then.
    func applyResults(
        _ request: [Outgoing],
        _ outcomes: [WriteAnswer],
        _ zone: ZoneID,
        _ progress: inout SendProgress,
        answers: Bool = false
    ) async throws -> [Outgoing] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let isOwnZone = isPrivate && !zone.isDefault
        let result = try await file.pool.write { db in
            var writer = try SendResultWriter(db, file, now: now, isOwnZone: isOwnZone)
            for (item, outcome) in zip(request, outcomes) { try writer.apply(item, outcome, in: zone) }
            if answers { try SentRequest.remove(db, in: zone) }
            try writer.end()
            try crash(.insideConfirm)
            return writer.result
        }
        try crash(.afterConfirm)
        progress.sent += result.sent
        if result.sent > 0 { progress.changedZones.insert(zone) }
        progress.refused += result.refused
        progress.needsAnotherPass = progress.needsAnotherPass || result.needsAnotherPass
        progress.needsFetch = progress.needsFetch || result.needsFetch
        progress.needsDatabaseFetch = progress.needsDatabaseFetch || result.needsDatabaseFetch
        progress.details += await withNumbers(result.details, needed: request.reduce(0) { $0 + $1.size })
        progress.quotaError = progress.quotaError ?? result.quotaError
        if let error = result.temporaryError { progress.retryLater(error, in: zone) }
        // Each change failed because of another one, but no other is left: sending them again would change nothing.
        if result.resend.count == request.count {
            progress.error =
                progress.error ?? CKError(.batchRequestFailed, "The relay did not report which change it refused.")
            return []
        }
        return result.resend
    }

    /// Adds the numbers to an event that the quota is exceeded.
    func withNumbers(_ details: [MirrorEvent.Detail], needed: Int) async -> [MirrorEvent.Detail] {
        guard details.contains(.quotaExceeded()), isPrivate,
            let storage = try? await database.client.limits().storage
        else { return details }
        return details.map { detail in
            detail == .quotaExceeded()
                ? .quotaExceeded(used: storage.used, limit: storage.limit, needed: Int64(needed)) : detail
        }
    }
}
