import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Checking the outbox after each commit to the store.
extension MirrorSync {
    /// Called after each commit to the store.
    ///
    /// Checks run one at a time: an older result reported after a newer one would leave a change unsent until the next
    /// commit.
    func outboxChanged() async {
        await outboxLook.enter()
        defer { outboxLook.leave() }
        let file = file
        if (try? await file.pool.read { try OutboxRow.hasWaiting($0) }) == true { lookAgainLater() }
        let look = try? await file.pool.read { db -> (count: Int, isFull: Bool, mayGo: Bool) in
            let isUnsent = try State.text(db, .hasUnsent) != nil
            let count = try OutboxRow.count(db, free: true) + (isUnsent ? 1 : 0)
            guard try State.text(db, .quotaIsFull) != nil else { return (count, false, count > 0) }
            // Deletions are sent, wherever they are in the outbox.
            if try OutboxRow.hasDeletion(db) { return (count, true, true) }
            let exporter = try Exporter(db, file)
            let first = try OutboxRow.next(db, after: -1, limit: Self.lookedAt)
            return (count, true, try first.contains { try exporter.makesRoom($0) })
        }
        let count = look?.count ?? 0
        tell(.outboxChanged(isEmpty: look?.mayGo != true))
        if look?.isFull == true, count > 0 { lookForSpaceLater() }
        let isLarge = count > file.description.cloud?.outboxWarning ?? .max
        if isLarge, !hasWarned { await note(.notice, details: [.outboxIsLarge(count)]) }
        hasWarned = isLarge
    }

    /// While the quota is exceeded, the number of changes checked for one that needs no space.
    private static let lookedAt = 1_000

    /// Schedules a later retry of changes that found no space; another device may free some.
    func lookForSpaceLater() {
        guard spaceWatch == nil, conditions.isAutomatic, !isStopped else { return }
        let time = conditions.time
        spaceWatch = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.spaceInterval)) != nil else { return }
            await self?.lookForSpace()
        }
    }

    private func lookForSpace() async {
        spaceWatch = nil
        try? await file.pool.write { db in
            try State.set(db, .quotaIsFull, nil)
            try OutboxRow.releaseZoneless(db)
        }
        await outboxChanged()
    }

    /// Schedules a later retry of changes that wait for something, even if nothing reports its arrival.
    private func lookAgainLater() {
        guard waitWatch == nil, conditions.isAutomatic, !isStopped else { return }
        let time = conditions.time
        waitWatch = time.start { [weak self] in
            guard (try? await time.sleep(time.now() + Self.spaceInterval)) != nil else { return }
            await self?.lookAgain()
        }
    }

    private func lookAgain() async {
        waitWatch = nil
        try? await file.pool.write { try OutboxRow.releaseWaiting($0) }
        await outboxChanged()
    }

    /// The interval between retries of changes that found no space or that wait for something.
    private static let spaceInterval = Duration.seconds(900)
}

extension MirrorSync {
    /// The result of one round of sending.
    struct SendTally {
        /// Writes in the name of the user whose changes were read.
        let link: MirrorLink
        var began: Date
        var outcome = SyncSchedule.SendOutcome()
        /// The error that ended the round.
        var error: CKError?
        /// Busy zones, to which nothing more is sent in this round.
        var heldZones: Set<ZoneID> = []
        /// The error of the first busy zone.
        var busy: CKError?
        var sent = 0
        var bytes = 0
        var refused: [Settlement.Refusal] = []
        /// The error of a change that found no space.
        var noSpace: CKError?
        var changedZones: Set<ZoneID> = []
        /// Whether something must be sent again in this round.
        var goesOn = false
        /// Whether changes must be fetched before anything is sent again.
        var looksFirst = false
        /// Whether the database's feed must be read for lost zones.
        var looksAtZones = false
        var details: [MirrorEvent.Detail] = []
        /// New objects whose share is unknown.
        var homeless: [String] = []
        /// Changes that failed when sent alone, by a failure of the relay or the network, since the relay last
        /// answered any request.
        var suspects: [(item: Outgoing, error: CKError)] = []

        /// Records a temporary error: a busy zone does not block the others; any other error ends the round.
        mutating func retryLater(_ error: CKError, in zone: ZoneID) {
            guard error.trouble.kind == .zoneBusy else { return self.error = self.error ?? error }
            heldZones.insert(zone)
            outcome.zoneTroubles[zone] = error.trouble
            busy = busy ?? error
        }
    }

    /// The maximum number of times that records found in a zone to be removed are moved in one round; the next round
    /// continues.
    private static let maxMoves = 6

    func sendOnSchedule(held: Set<ZoneID>) async {
        do {
            try await checkAccount()
        } catch {
            lastTrouble = error
            return tell(.sendFinished(.init(trouble: error.trouble)))
        }
        _ = try? await send(held: held)
    }

    /// Sends all unsent changes.
    ///
    /// With `objects`, only errors of these objects are thrown. The other changes are sent nevertheless.
    ///
    /// - Throws: The error that ended the round, the first refusal, or what a change waits for.
    func sendNow(concerning objects: [ObjectID]? = nil) async throws {
        try await checkAccount()
        // A caller's request also retries changes that wait for a zone or for something that may have arrived.
        _ = try? await file.pool.write { db in
            try OutboxRow.releaseZoneless(db)
            try OutboxRow.releaseWaiting(db)
        }
        let names = objects.map { Set($0.map(\.name.text)) }
        let refused = try await send(held: [])
        if let refusal = refused.first(where: { names?.contains($0.oid) ?? true }) { throw refusal.error }
        let waiting = try await file.pool.read { try OutboxRow.waiting($0) }
        if let first = waiting.first(where: { names?.contains($0.oid) ?? true }) { throw first.reasonToWait }
    }

    /// Sends changes except to the zones in `held`.
    ///
    /// Returns the refusals.
    private func send(held: Set<ZoneID>) async throws -> [Settlement.Refusal] {
        try await withSendLane {
            tell(.sendBegan)
            var tally = SendTally(link: isPublic ? link.ofNow() : link, began: conditions.wallClock())
            tally.heldZones = held
            for _ in 0..<Self.maxMoves {
                guard await moveAndSend(&tally), tally.error == nil else { break }
            }
            // Nothing has shown that the failure was not in the network.
            tally.error = tally.error ?? tally.suspects.first?.error ?? tally.noSpace
            await finish(&tally)
            if let error = tally.error ?? tally.busy { throw error }
            return tally.refused
        }
    }

    /// Moves and sends; returns `true` if a record was found that must move before its zone can be removed.
    private func moveAndSend(_ tally: inout SendTally) async -> Bool {
        do {
            try await askAgain(&tally)
            if link.isPrivate { try await joinStragglers() }
            if tally.error == nil { try await moveOnRelay() }
        } catch {
            tally.error = CKError(from: error)
        }
        // Conflicts are merged and sent again immediately, a limited number of times for each change.
        for _ in 0...SendVerdict.maxConflicts + 2 where tally.error == nil {
            tally.goesOn = false
            tally.suspects = []
            await sendAll(&tally)
            await lookFirst(&tally)
            guard tally.goesOn else { break }
        }
        guard tally.error == nil else { return false }
        do {
            try await sendUnknown(&tally)
            return try await !finishMoves()
        } catch {
            tally.error = CKError(from: error)
            return false
        }
    }

    /// Fetches changes if a record was not found in its zone, because it may have moved.
    private func lookFirst(_ tally: inout SendTally) async {
        guard tally.looksFirst, tally.error == nil else { return }
        tally.looksFirst = false
        tally.goesOn = true
        do {
            try await fetch(asksDatabase: true, held: [], prioritized: [])
        } catch {
            tally.error = CKError(from: error)
        }
    }

    private func finish(_ tally: inout SendTally) async {
        let failure = tally.error ?? tally.busy
        let homeless = Set(tally.homeless)
        if !homeless.isSubset(of: self.homeless) { tally.details.append(.shareMissing(homeless.sorted())) }
        self.homeless.formUnion(homeless)
        await note(sent: tally, failure)
        let hasSent = tally.sent > 0
        lastTrouble = failure
        let now = conditions.wallClock().timeIntervalSince1970
        let isDone = tally.error == nil && tally.heldZones.isEmpty
        try? await file.pool.write { db in
            if isDone {
                try State.set(db, .lastExport, now)
                try db.execute(sql: "UPDATE mirror_duplicate SET isExported = 1")
            }
            // Waiting changes may be sent now that something was saved.
            if hasSent { try OutboxRow.releaseWaiting(db) }
        }
        tally.outcome.madeProgress = hasSent
        tally.outcome.hadRefusals = !tally.refused.isEmpty
        tally.outcome.trouble = tally.error?.trouble
        tally.outcome.leavesHeldOnly = tally.error == nil && !tally.heldZones.isEmpty && tally.refused.isEmpty
        await outboxChanged()
        tell(.sendFinished(tally.outcome))
        await keepHold()
        if tally.looksAtZones { tell(.noticed(nil)) }
        if !tally.refused.isEmpty { await lookAtSchema() }
        await tellOthers(tally.changedZones)
    }

    /// Sends the outbox once, from its beginning to its end.
    private func sendAll(_ tally: inout SendTally) async {
        var place: Int64 = -1
        while tally.error == nil, !isStopped {
            guard !Task.isCancelled else {
                tally.error = CKError(.operationCancelled)
                return
            }
            let file = file
            let (from, limit, room) = (place, limits.operations, conditions.room)
            let now = conditions.wallClock().timeIntervalSince1970
            do {
                let batch = try await file.pool.write { db in
                    var isFull = try State.text(db, .quotaIsFull) != nil
                    // Space may have been freed elsewhere, so a full database is tried again every 15 minutes.
                    if let since = try State.number(db, .quotaIsFull), abs(now - since) > 900 {
                        try State.set(db, .quotaIsFull, nil)
                        isFull = false
                    }
                    return try Exporter(db, file).batch(after: from, limit: limit, room: room, isFull: isFull)
                }
                place = batch.upTo
                tally.homeless += batch.homeless
                if batch.hasMoves {
                    try await moveOnRelay()
                    continue
                }
                if !batch.items.isEmpty { try await send(batch.items, &tally) }
                if batch.isLast { return }
            } catch {
                tally.error = CKError(from: error)
            }
        }
    }

    /// Sends one batch: a request for each zone, or several if the limits require it.
    private func send(_ items: [Outgoing], _ tally: inout SendTally) async throws {
        try conditions.crashPoint(.beforeSend)
        var seen: Set<ZoneID> = []
        for zone in items.map(\.zone) where tally.error == nil && seen.insert(zone).inserted {
            guard !tally.heldZones.contains(zone) else { continue }
            let ours = items.filter { $0.zone == zone }
            guard try await makeZone(zone, for: ours, &tally) else { continue }
            var waiting = limits.cut(ours.parentsFirst(), size: \.size)[...]
            while let request = waiting.popFirst(), tally.error == nil, !tally.heldZones.contains(zone) {
                let rest = try await exchange(request, in: zone, &tally)
                guard !rest.isEmpty else { continue }
                waiting = limits.cut(rest + waiting.joined(), size: \.size)[...]
            }
        }
    }

    /// Creates a zone of this user before its first record is sent.
    ///
    /// Returns `false` if the zone cannot be created now. The changes for the zone are settled then, and others
    /// continue.
    func makeZone(_ zone: ZoneID, for items: [Outgoing], _ tally: inout SendTally) async throws -> Bool {
        guard link.isPrivate, !zone.isDefault else { return true }
        let isThere = try await file.pool.read { try KnownZone.find($0, zone)?.isThere ?? false }
        guard !isThere else { return true }
        let turnstile = exchange(zone)
        await turnstile.enter()
        defer { turnstile.leave() }
        do throws(CKError) {
            try await tally.link.make([zone])
        } catch {
            if error.trouble.isRetriedAutomatically || error.isOfWay {
                tally.retryLater(error, in: zone)
            } else if error.code == .quotaExceeded {
                try await hold(items, error, &tally)
            } else {
                _ = try await settle(items, items.map { _ in .failed(error, nil) }, zone, &tally)
            }
            return false
        }
        try await file.pool.write { db in
            let known = try KnownZone.make(db, zone)
            try db.execute(sql: "UPDATE mirror_zone SET isThere = 1 WHERE id = ?", arguments: [known.id])
        }
        feed.wrote(zone)
        return true
    }

    /// Holds changes for a zone that cannot be created because the user has too many zones, which does not affect the
    /// quota.
    private func hold(_ items: [Outgoing], _ error: CKError, _ tally: inout SendTally) async throws {
        let file = file
        try await file.pool.write { db in
            let exporter = try Exporter(db, file)
            for item in items { try exporter.hold(item.oid, error.errorDescription ?? "", as: "noZone") }
        }
        tally.noSpace = tally.noSpace ?? error
        lookForSpaceLater()
    }

    /// Sends one request and applies its result; returns the items to send again immediately.
    private func exchange(_ request: [Outgoing], in zone: ZoneID, _ tally: inout SendTally) async throws -> [Outgoing] {
        let turnstile = exchange(zone)
        await turnstile.enter()
        defer { turnstile.leave() }
        inFlight.formUnion(request.map(\.oid))
        defer { inFlight.subtract(request.map(\.oid)) }
        let (request, writes) = try await ready(request, in: zone, &tally)
        guard !request.isEmpty, tally.error == nil else { return [] }
        let isAtomic = !isPublic && !zone.isDefault
        let sent = try await file.pool.write { db -> SentRequest in
            let sent = try SentRequest(stillDue: request, writes, in: zone, atomically: isAtomic, db)
            if !sent.items.isEmpty { try sent.keep(db, in: zone) }
            return sent
        }
        if sent.items.count < request.count { tally.goesOn = true }
        return sent.items.isEmpty ? [] : try await exchange(sent, in: zone, &tally)
    }
}

/// Sending requests, and repeating those whose responses were lost.
extension MirrorSync {
    /// Sends a stored request and applies its result; returns the items to send again immediately.
    func exchange(_ sent: SentRequest, in zone: ZoneID, _ tally: inout SendTally) async throws -> [Outgoing] {
        let request = sent.items
        sends[zone, default: 0] += 1
        tally.bytes += request.reduce(0) { $0 + $1.size }
        var answers: [MirrorLink.Answer]
        do throws(CKError) {
            answers = try await tally.link.modify(sent.body, count: request.count, in: zone)
            limits.accepted()
            feed.wrote(zone)
        } catch {
            return try await failed(sent, error, in: zone, &tally)
        }
        try conditions.crashPoint(.afterSend)
        try await settleSuspects(&tally)
        try await open(&answers, to: sent.writes, in: zone)
        for index in answers.indices {
            guard case .failed(let error, let server) = answers[index] else { continue }
            if error.code == .invalidArguments { link.forgetFiles(of: sent.writes[index]) }
            guard var server = server.map({ [$0] }) else { continue }
            try await makeReadable(&server, in: zone)
            answers[index] = .failed(error, server.first)
        }
        return try await settle(request, answers, zone, &tally, answers: true)
    }

    /// Decrypts the saved records, which the relay returns completely, with fields that only a newer program knows.
    private func open(
        _ answers: inout [MirrorLink.Answer],
        to writes: [ClientRequest.Write],
        in zone: ZoneID
    ) async throws(CKError) {
        for (index, write) in zip(answers.indices, writes) {
            guard case .saved(let record) = answers[index], !record.encryptedFields.isSubset(of: write.encrypted)
            else { continue }
            var records = [record]
            try await link.open(&records, in: zone)
            answers[index] = .saved(records[0])
        }
    }

    /// Handles a failure of the request as a whole, without a result for each change.
    private func failed(
        _ sent: SentRequest,
        _ error: CKError,
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> [Outgoing] {
        let request = sent.items
        var kept = sent
        if kept.staysOpen(after: error) {
            try await file.pool.write { [kept] in try kept.keep($0, in: zone) }
            tally.retryLater(error, in: zone)
            return []
        }
        try await file.pool.write { try SentRequest.remove($0, in: zone) }
        if error.code == .limitExceeded, request.count > 1 {
            limits.exceeded(by: request.count)
            return request
        }
        if error.trouble.isRetriedAutomatically {
            tally.retryLater(error, in: zone)
            return []
        }
        if error.isOfWay {
            suspect(request, error, &tally)
            return []
        }
        // The request failed as a whole, so each of its changes gets the same error.
        return try await settle(request, request.map { _ in .failed(error, nil) }, zone, &tally)
    }

    /// Repeats requests that the relay may have executed without its response having arrived.
    ///
    /// Later changes build on them: they are sent only when the result is known.
    func askAgain(_ tally: inout SendTally) async throws {
        for zone in try await file.pool.read({ try SentRequest.zones($0) }) {
            guard tally.error == nil else { return }
            guard !tally.heldZones.contains(zone) else { continue }
            let turnstile = exchange(zone)
            await turnstile.enter()
            defer { turnstile.leave() }
            try await askAgain(in: zone, &tally)
        }
    }

    /// Repeats a zone's unanswered request before one of its pages is read, in which this device's own writes would
    /// look like those of others.
    ///
    /// Called with the zone's lock held.
    ///
    /// - Throws: An error while the result of the request is unknown; the page must wait then.
    func askAgain(beforeReading zone: ZoneID) async throws(CKError) {
        var tally = SendTally(link: isPublic ? link.ofNow() : link, began: conditions.wallClock())
        let isOpen: Bool
        do {
            try await askAgain(in: zone, &tally)
            isOpen = try await file.pool.read { try SentRequest.find($0, in: zone) != nil }
        } catch {
            throw CKError(from: error)
        }
        await note(sent: tally, nil)
        if isOpen, let error = tally.error ?? tally.busy { throw error }
    }

    /// Records the result of a round of sending as an event, if there is any.
    func note(sent tally: SendTally, _ failure: CKError?) async {
        var details = tally.details
        if !tally.refused.isEmpty { details.append(.refused(tally.refused.map(\.oid))) }
        guard !details.isEmpty || tally.sent > 0 || failure != nil else { return }
        await note(
            .export,
            began: tally.began,
            done: tally.sent,
            bytes: tally.bytes,
            error: failure ?? tally.refused.first?.error,
            details: details
        )
    }

    private func askAgain(in zone: ZoneID, _ tally: inout SendTally) async throws {
        let sent: SentRequest
        do {
            guard let open = try await file.pool.read({ try SentRequest.find($0, in: zone) }) else { return }
            sent = open
        } catch is JSONError {
            // Another version of this library may have stored it. Its changes are sent like any others.
            return try await file.pool.write { try SentRequest.remove($0, in: zone) }
        }
        let names = sent.items.map(\.oid)
        inFlight.formUnion(names)
        defer { inFlight.subtract(names) }
        _ = try await exchange(sent, in: zone, &tally)
    }
}

/// Preparing requests and applying their results.
extension MirrorSync {
    /// The number of consecutive failures of single changes after which the connection is considered broken.
    private static let maxSuspects = 3

    /// Handles a request without a response: its changes stay, and the next request is smaller.
    ///
    /// A change that was sent alone does not block the next one: if the relay answers that one, the failure is the
    /// change's own.
    func suspect(_ request: [Outgoing], _ error: CKError, _ tally: inout SendTally) {
        guard let item = request.first, request.count == 1 else {
            limits.exceeded(by: request.count)
            tally.error = error
            return
        }
        tally.suspects.append((item, error))
        if tally.suspects.count >= Self.maxSuspects { tally.error = error }
    }

    /// Settles the failed changes as refused by the relay, since a later response shows that the connection works.
    func settleSuspects(_ tally: inout SendTally) async throws {
        let suspects = tally.suspects
        tally.suspects = []
        for (item, error) in suspects {
            _ = try await settle([item], [.failed(error, nil)], item.zone, &tally)
        }
    }

    /// Encrypts and uploads what the changes need; those for which that fails are settled as failed.
    func ready(
        _ request: [Outgoing],
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> ([Outgoing], [ClientRequest.Write]) {
        var (good, writes, bad): ([Outgoing], [ClientRequest.Write], [(Outgoing, CKError)]) = ([], [], [])
        for item in request {
            do throws(CKError) {
                // A missing zone key is requested once, not for each change.
                if let noKey = bad.last?.1, noKey.awaitsZoneKey, !item.write.encrypted.isEmpty { throw noKey }
                writes.append(try await tally.link.readied(item, in: zone))
                good.append(item)
            } catch {
                // A full local disk is no reason to undo the change.
                guard !error.trouble.isRetriedAutomatically, !error.isOfStorage else {
                    tally.error = error
                    return ([], [])
                }
                bad.append((item, error))
            }
        }
        if good.contains(where: { !$0.large.isEmpty }) { try conditions.crashPoint(.afterUpload) }
        if !bad.isEmpty {
            _ = try await settle(bad.map(\.0), bad.map { .failed($0.1, nil) }, zone, &tally)
        }
        return (good, writes)
    }

    /// Applies the results of a request in one transaction.
    ///
    /// `answers` means that they come from the relay's response to the zone's stored request, which is complete then.
    func settle(
        _ request: [Outgoing],
        _ outcomes: [MirrorLink.Answer],
        _ zone: ZoneID,
        _ tally: inout SendTally,
        answers: Bool = false
    ) async throws -> [Outgoing] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let isOwnZone = link.isPrivate && !zone.isDefault
        let result = try await file.pool.write { db in
            var settlement = try Settlement(db, file, now: now, isOwnZone: isOwnZone)
            for (item, outcome) in zip(request, outcomes) { try settlement.take(item, outcome, in: zone) }
            if answers { try SentRequest.remove(db, in: zone) }
            try settlement.end()
            try crash(.insideConfirm)
            return settlement.result
        }
        try crash(.afterConfirm)
        tally.sent += result.sent
        if result.sent > 0 { tally.changedZones.insert(zone) }
        tally.refused += result.refused
        tally.goesOn = tally.goesOn || result.goesOn
        tally.looksFirst = tally.looksFirst || result.looksFirst
        tally.looksAtZones = tally.looksAtZones || result.looksAtZones
        tally.details += await withNumbers(result.details, needed: request.reduce(0) { $0 + $1.size })
        tally.noSpace = tally.noSpace ?? result.noSpace
        if let later = result.later { tally.retryLater(later, in: zone) }
        // Each change failed because of another one, but no other is left: sending them again would change nothing.
        if result.resend.count == request.count {
            tally.error =
                tally.error ?? CKError(.batchRequestFailed, "The relay did not report which change it refused.")
            return []
        }
        return result.resend
    }
}

/// Sending records and values that only a newer program knows.
///
/// See Sync.md, "Unknown records".
extension MirrorSync {
    /// Sends records of unknown types again after their zone was created again because its key was lost.
    func sendUnknown(_ tally: inout SendTally) async throws {
        guard link.isPrivate, try await file.pool.read({ try State.text($0, .hasUnsent) }) != nil else { return }
        for zone in try await file.pool.read({ try KnownZone.all($0) }) {
            let unsent = try await file.pool.read { try KnownRecord.unsent($0, in: zone) }
            guard !unsent.isEmpty, tally.error == nil, try await makeZone(zone.zone, for: [], &tally) else { continue }
            for start in stride(from: 0, to: unsent.count, by: limits.operations) where tally.error == nil {
                let part = unsent[start..<min(start + limits.operations, unsent.count)]
                try await sendUnknown(part, in: zone, &tally)
            }
        }
        guard tally.error == nil, tally.noSpace == nil, tally.heldZones.isEmpty else { return }
        try await file.pool.write { try State.set($0, .hasUnsent, nil) }
    }

    private func sendUnknown(
        _ part: ArraySlice<KnownRecord>,
        in zone: KnownZone,
        _ tally: inout SendTally
    ) async throws {
        let turnstile = exchange(zone.zone)
        await turnstile.enter()
        defer { turnstile.leave() }
        sends[zone.zone, default: 0] += 1
        var writes: [ClientRequest.Write] = []
        for known in part { writes.append(try await tally.link.sealed(known.copy(.create), in: zone.zone)) }
        var settled: [Int64] = []
        for (known, answer) in zip(part, try await tally.link.modify(writes, in: zone.zone, atomically: false)) {
            guard case .failed(let error, _) = answer, error.code != .serverRecordChanged else {
                settled.append(known.id)
                continue
            }
            // Records that the relay refuses permanently stay here for the program that knows them.
            if error.trouble.isRetriedAutomatically || error.isOfWay {
                tally.retryLater(error, in: zone.zone)
            } else if error.code == .quotaExceeded {
                tally.noSpace = tally.noSpace ?? error
            } else {
                settled.append(known.id)
                tally.error = tally.error ?? error
            }
        }
        tally.changedZones.insert(zone.zone)
        try await file.pool.write { [settled] db in
            for id in settled {
                try db.execute(
                    sql: "UPDATE mirror_record SET tag = ? WHERE id = ? AND tag IS NULL",
                    arguments: [KnownRecord.unseen, id]
                )
            }
        }
    }

    /// Encrypts unknown values again after the relay has moved them, because the new zone has another key.
    ///
    /// Known values are sent with the change that is created by the move.
    func sealUnknown(in departure: ShareMoves.Departure, _ names: [String]) async throws {
        guard link.database.hasEncryptionKey else { return }
        let (file, zone) = (file, departure.to.zone)
        let copies = try await file.pool.read { db in
            try names.compactMap { name -> ClientRequest.Write? in
                let target = try KnownRecord.find(db, zone: departure.to.id, name: name)
                guard let known = try target ?? KnownRecord.find(db, zone: departure.from.id, name: name) else {
                    return nil
                }
                let own = known.entity.flatMap { file.mapping.tables[$0] }.map { file.mapping.ownFields(of: $0) } ?? []
                var write = known.copy(.forceUpdate)
                write.fields = write.fields.filter { write.encrypted.contains($0.key) && !own.contains($0.key) }
                return write.fields.isEmpty ? nil : write
            }
        }
        for start in stride(from: 0, to: copies.count, by: BatchLimits.maxOperations) {
            var writes: [ClientRequest.Write] = []
            for copy in copies[start..<min(start + BatchLimits.maxOperations, copies.count)] {
                writes.append(try await link.sealed(copy, in: zone))
            }
            for case .failed(let error, _) in try await link.modify(writes, in: zone, atomically: false)
            where error.trouble.isRetriedAutomatically || error.isOfWay || error.code == .quotaExceeded { throw error }
        }
    }
}

extension KnownRecord {
    /// The records of a zone that the model does not know and the relay no longer has.
    fileprivate static func unsent(_ db: Database, in zone: KnownZone) throws -> [KnownRecord] {
        let sql = "SELECT name FROM mirror_record WHERE zone = ? AND oid IS NULL AND tag IS NULL ORDER BY id"
        return try String.fetchAll(db, sql: sql, arguments: [zone.id]).compactMap { name in
            try find(db, zone: zone.id, name: name)
        }
    }

    /// Returns a write of the record as known here, without assets.
    func copy(_ type: OperationType) -> ClientRequest.Write {
        let fields = serverFields().filter { !$0.value.type.isAsset }
        var write = ClientRequest.Write(type, name, recordType: self.type, fields: fields.mapValues { Optional($0) })
        write.encrypted = encryptedFields().intersection(fields.keys)
        return write
    }
}
