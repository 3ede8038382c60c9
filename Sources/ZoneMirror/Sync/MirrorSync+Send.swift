import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

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
