import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

extension MirrorSync {
    /// What one round of sending has come to.
    struct SendTally {
        var began: Date
        var outcome = SyncSchedule.SendOutcome()
        /// What ended the round.
        var error: CKError?
        var sent = 0
        var refused: [String] = []
        /// The first refusal's error, for those who wait for the round.
        var refusal: CKError?
        var changedZones: Set<ZoneID> = []
        /// Something is to be sent again in this round.
        var goesOn = false
        /// Zones of which the database's feed has to tell.
        var looksAtZones = false
        var details: [MirrorEvent.Detail] = []
    }

    func sendOnSchedule() async {
        do {
            try await checkAccount()
        } catch {
            lastTrouble = error
            return tell(.sendFinished(.init(trouble: error.trouble)))
        }
        try? await send()
    }

    /// Sends what waits.
    ///
    /// Throws what stopped the round, or the first refusal; the rest has been sent all the same.
    func sendNow() async throws {
        try await checkAccount()
        try await send()
    }

    private func send() async throws {
        try await withSendLane {
            tell(.sendBegan)
            var tally = SendTally(began: conditions.wallClock())
            do {
                try await moveOnRelay()
            } catch {
                tally.error = CKError(from: error)
            }
            // Conflicts are merged and sent again at once; each change only so often.
            for _ in 0...SendVerdict.maxConflicts + 2 where tally.error == nil {
                tally.goesOn = false
                await sendAll(&tally)
                guard tally.goesOn else { break }
            }
            if tally.error == nil {
                do {
                    try await finishMoves()
                } catch {
                    tally.error = CKError(from: error)
                }
            }
            await finish(&tally)
            if let error = tally.error ?? tally.refusal { throw error }
        }
    }

    private func finish(_ tally: inout SendTally) async {
        if tally.sent > 0 || tally.error != nil || !tally.refused.isEmpty {
            if !tally.refused.isEmpty { tally.details.append(.refused(tally.refused)) }
            await note(
                .export,
                began: tally.began,
                done: tally.sent,
                error: tally.error ?? tally.refusal,
                details: tally.details
            )
        }
        let hasSent = tally.sent > 0
        if tally.error == nil { lastTrouble = nil } else { lastTrouble = tally.error }
        let now = conditions.wallClock().timeIntervalSince1970
        let isDone = tally.error == nil
        try? await file.pool.write { db in
            if isDone {
                try State.set(db, .lastExport, now)
                try db.execute(sql: "UPDATE mirror_duplicate SET isExported = 1")
            }
            // What was held may go now that something has been saved.
            if hasSent {
                try db.execute(sql: "UPDATE mirror_outbox SET held = NULL WHERE held = 'waiting'")
            }
        }
        tally.outcome.madeProgress = hasSent
        tally.outcome.hadRefusals = !tally.refused.isEmpty
        tally.outcome.trouble = tally.error?.trouble
        await outboxChanged()
        tell(.sendFinished(tally.outcome))
        await keepHold()
        if tally.looksAtZones { tell(.noticed(nil)) }
        await tellOthers(tally.changedZones)
    }

    /// Walks the line once, from its beginning to its end.
    private func sendAll(_ tally: inout SendTally) async {
        var place: Int64 = -1
        while tally.error == nil, !Task.isCancelled, !isStopped {
            let file = file
            let (from, limit, now) = (place, limits.operations, conditions.wallClock().timeIntervalSince1970)
            do {
                let (items, upTo, isLast) = try await file.pool.write { db in
                    var isFull = try State.text(db, .quotaIsFull) != nil
                    // Space may have been made elsewhere: tried again every quarter of an hour.
                    if let since = try State.number(db, .quotaIsFull), now - since > 900 {
                        try State.set(db, .quotaIsFull, nil)
                        isFull = false
                    }
                    return try Exporter(db, file).batch(after: from, limit: limit, deletesOnly: isFull)
                }
                place = upTo
                if !items.isEmpty { try await send(items, &tally) }
                if isLast { return }
            } catch {
                tally.error = CKError(from: error)
            }
        }
    }

    /// One batch: a request for each zone, or several where the limits want it.
    private func send(_ items: [Outgoing], _ tally: inout SendTally) async throws {
        try conditions.crashPoint(.beforeSend)
        var seen: Set<ZoneID> = []
        for zone in items.map(\.zone) where seen.insert(zone).inserted {
            try await makeZone(zone, &tally)
            guard tally.error == nil else { return }
            var waiting = limits.cut(items.filter { $0.zone == zone }, size: \.size)[...]
            while let request = waiting.popFirst(), tally.error == nil {
                let rest = try await exchange(request, in: zone, &tally)
                guard !rest.isEmpty else { continue }
                waiting = limits.cut(rest + waiting.joined(), size: \.size)[...]
            }
        }
    }

    /// Makes a zone of this user's before the first record in it.
    private func makeZone(_ zone: ZoneID, _ tally: inout SendTally) async throws {
        guard link.isPrivate, !zone.isDefault else { return }
        let isThere = try await file.pool.read { try KnownZone.find($0, zone)?.isThere ?? false }
        guard !isThere else { return }
        do throws(CKError) {
            try await link.make([zone])
        } catch {
            tally.error = error
            return
        }
        try await file.pool.write { db in
            let known = try KnownZone.make(db, zone)
            try db.execute(sql: "UPDATE mirror_zone SET isThere = 1 WHERE id = ?", arguments: [known.id])
        }
    }

    /// Sends one request and writes down what became of it; returns what is to be sent again at once.
    private func exchange(_ request: [Outgoing], in zone: ZoneID, _ tally: inout SendTally) async throws -> [Outgoing] {
        let turnstile = exchange(zone)
        await turnstile.enter()
        defer { turnstile.leave() }
        sends[zone, default: 0] += 1
        inFlight.formUnion(request.map(\.oid))
        defer { inFlight.subtract(request.map(\.oid)) }
        let (request, writes) = try await ready(request, in: zone, &tally)
        guard !request.isEmpty, tally.error == nil else { return [] }
        let isAtomic = !isPublic && !zone.isDefault
        var answers: [MirrorLink.Answer]
        do throws(CKError) {
            answers = try await link.modify(writes, in: zone, atomically: isAtomic)
            limits.accepted()
        } catch {
            if error.code == .limitExceeded, request.count > 1 {
                limits.exceeded(by: request.count)
                return request
            }
            if error.trouble.isRetriedAutomatically {
                tally.error = error
                return []
            }
            // The request as a whole: each of its changes is told the same.
            return try await settle(request, request.map { _ in .failed(error, nil) }, zone, &tally)
        }
        try conditions.crashPoint(.afterSend)
        for index in answers.indices {
            guard case .failed(let error, let server) = answers[index] else { continue }
            if error.code == .invalidArguments { link.forgetFiles(of: writes[index]) }
            guard var server = server.map({ [$0] }) else { continue }
            try await makeReadable(&server, in: zone)
            answers[index] = .failed(error, server.first)
        }
        return try await settle(request, answers, zone, &tally)
    }

    /// Seals and uploads what some changes need; those for which that cannot be done are settled as failed.
    private func ready(
        _ request: [Outgoing],
        in zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> ([Outgoing], [ClientRequest.Write]) {
        var (good, writes, bad): ([Outgoing], [ClientRequest.Write], [(Outgoing, CKError)]) = ([], [], [])
        for item in request {
            do throws(CKError) {
                writes.append(try await link.readied(item, in: zone))
                good.append(item)
            } catch {
                guard !error.trouble.isRetriedAutomatically else {
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

    /// Writes down what became of a request, in one transaction.
    private func settle(
        _ request: [Outgoing],
        _ answers: [MirrorLink.Answer],
        _ zone: ZoneID,
        _ tally: inout SendTally
    ) async throws -> [Outgoing] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let isOwnZone = link.isPrivate && !zone.isDefault
        let result = try await file.pool.write { db in
            var settlement = try Settlement(db, file, now: now, isOwnZone: isOwnZone)
            for (item, answer) in zip(request, answers) { try settlement.take(item, answer, in: zone) }
            try settlement.end()
            try crash(.insideConfirm)
            return settlement.result
        }
        try crash(.afterConfirm)
        tally.sent += result.sent
        if result.sent > 0 { tally.changedZones.insert(zone) }
        tally.refused += result.refused
        tally.refusal = tally.refusal ?? result.refusal
        tally.goesOn = tally.goesOn || result.goesOn
        tally.looksAtZones = tally.looksAtZones || result.looksAtZones
        tally.details += result.details
        if let later = result.later { tally.error = tally.error ?? later }
        return result.resend
    }
}

/// What became of one request, written into the store as it is read.
struct Settlement {
    struct Result: Sendable {
        var sent = 0
        var refused: [String] = []
        var refusal: CKError?
        /// Sent again at once, as it is.
        var resend: [Outgoing] = []
        /// Read again from the line in this round.
        var goesOn = false
        var looksAtZones = false
        var later: CKError?
        var details: [MirrorEvent.Detail] = []
    }

    private let db: Database
    private let file: StoreFile
    private let exporter: Exporter
    private let now: Date
    private let isOwnZone: Bool
    private var merges: [(Outgoing, Record)] = []
    private var refusals: [(Outgoing, CKError)] = []
    private var deletions: [Outgoing] = []
    private(set) var result = Result()

    init(_ db: Database, _ file: StoreFile, now: Date, isOwnZone: Bool) throws {
        self.db = db
        self.file = file
        self.now = now
        self.isOwnZone = isOwnZone
        exporter = try Exporter(db, file)
    }

    mutating func take(_ item: Outgoing, _ answer: MirrorLink.Answer, in zone: ZoneID) throws {
        switch answer {
        case .saved(let record) where item.operation == .save:
            try exporter.saved(item, as: record)
            result.sent += 1
        case .deleted, .saved:
            try exporter.deleted(item)
            result.sent += 1
            // A deletion makes space.
            if try State.text(db, .quotaIsFull) != nil {
                try State.set(db, .quotaIsFull, nil)
                result.goesOn = true
                result.details.append(.quotaRecovered)
            }
        case .failed(let error, let server): try take(item, error, server, zone)
        }
    }

    private mutating func take(_ item: Outgoing, _ error: CKError, _ server: Record?, _ zone: ZoneID) throws {
        let cloud = file.description.cloud
        let verdict = SendVerdict.about(
            error.code,
            .init(
                operation: item.operation,
                tries: item.tries,
                policy: cloud?.mergePolicy ?? .mergeByPropertyObjectTrump,
                acceptsDeletions: cloud?.acceptsDeletions ?? false,
                isOwnZone: isOwnZone,
                hasFiles: !item.large.isEmpty
            )
        )
        switch verdict {
        case .sendFilesAgain:
            try exporter.failed(item, error.errorDescription ?? "")
            result.goesOn = true
        case .resend: result.resend.append(item)
        case .merge:
            try exporter.failed(item, error.errorDescription ?? "")
            if let server { merges.append((item, server)) }
            result.goesOn = true
        case .makeZone:
            try db.execute(
                sql: "UPDATE mirror_zone SET isThere = 0, token = NULL WHERE name = ? AND owner = ?",
                arguments: [zone.zoneName, zone.owner.recordName]
            )
            try exporter.failed(item, error.errorDescription ?? "")
            if let known = try KnownRecord.find(db, oid: item.oid) {
                try KnownRecord.forgetVersion(db, id: known.id)
            }
            result.goesOn = item.tries < 3
            if item.tries >= 3 { refusals.append((item, error)) }
        case .lookAtZones:
            result.looksAtZones = true
            try exporter.hold(item.oid, error.errorDescription ?? "")
        case .recreate:
            if let known = try KnownRecord.find(db, oid: item.oid) {
                try KnownRecord.forgetVersion(db, id: known.id)
            }
            result.goesOn = true
        case .acceptDeletion: deletions.append(item)
        case .done: try exporter.deleted(item)
        case .wait:
            try exporter.failed(item, error.errorDescription ?? "")
            try exporter.hold(item.oid, error.errorDescription ?? "")
        case .storeFull:
            if try State.text(db, .quotaIsFull) == nil {
                try State.set(db, .quotaIsFull, now.timeIntervalSince1970)
                result.details.append(.quotaExceeded)
            }
            result.later = result.later ?? error
        case .later:
            try exporter.failed(item, error.errorDescription ?? "")
            result.later = result.later ?? error
        case .refuse: refusals.append((item, error))
        }
    }

    /// Does what counts as the relay's hand: merges, deletions, and taking refused changes back.
    mutating func end() throws {
        guard !merges.isEmpty || !refusals.isEmpty || !deletions.isEmpty else { return }
        let (db, file, now) = (db, file, now)
        let (merges, refusals, deletions) = (merges, refusals, deletions)
        try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
            let importer = try Importer(db, file, transaction: transaction, now: now)
            for (item, record) in merges {
                try importer.take(record, zone: try KnownZone.make(db, item.zone))
            }
            for item in deletions {
                if let known = try KnownRecord.find(db, oid: item.oid) {
                    try importer.remove(known, keepingPending: false)
                }
            }
            for (item, error) in refusals { try importer.refuse(item, error) }
        }
        result.refused += refusals.map(\.0.oid)
        result.refusal = result.refusal ?? refusals.first?.1
    }
}

extension Importer {
    /// Takes a change back that the relay refused, and keeps it among the refusals.
    func refuse(_ item: Outgoing, _ error: CKError) throws {
        guard let table = mapping.tables[item.entity] else { return }
        let current = try table.row(db, item.oid)
        let mine = try current.map { mapping.fields(of: try names.toRelay($0, table, item.oid, db), in: table) } ?? [:]
        let cause = Refusals.Cause(code: error.errorCode, message: error.errorDescription ?? "The relay refused it.")
        try Refusals.add(
            db,
            oid: item.oid,
            entity: item.entity,
            operation: item.operation,
            mine: mine,
            error: cause,
            at: now,
            tries: item.tries + 1
        )
        if file.description.cloud?.keepsRefusedChanges == true { return }
        try revert(item.oid, table, current)
    }

    /// Puts an object back to what the relay had last; removes it where the relay has none.
    func revert(_ oid: String, _ table: TableForm, _ current: [DatabaseValue]?) throws {
        let known = try KnownRecord.find(db, oid: oid)
        guard let known, known.tag != nil else {
            if current != nil { try table.delete(db, oid) }
            if let known { try KnownRecord.remove(db, id: known.id) }
            return
        }
        let theirs = mapping.row(of: known.serverFields(), in: table)
        let row = try names.toLocal(theirs, table, zone: known.zone, db)
        if current == nil {
            try table.insert(db, oid, row.values)
        } else {
            try table.update(db, oid, row.values)
        }
        try noteReversal(table, oid, wasGone: current == nil)
    }
}
