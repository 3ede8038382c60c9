import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

extension MirrorSync {
    private enum Arrival: Sendable {
        case database(Result<DatabasePage, CKError>)
        case zone(ZoneID, since: SyncToken?, Result<MirrorPage, CKError>)
    }

    /// What one round of fetching has come to.
    private struct Tally {
        var began: Date
        var records = 0
        /// What went wrong, by zone; `nil` for the database.
        var errors: [ZoneID?: CKError] = [:]
        var details: [MirrorEvent.Detail] = []
    }

    func fetchOnSchedule(asksDatabase: Bool, held: Set<ZoneID>) async {
        do {
            try await checkAccount()
        } catch {
            var outcome = FetchRound.Outcome()
            outcome.trouble = error.trouble
            lastTrouble = error
            return tell(.fetchFinished(outcome))
        }
        try? await fetch(asksDatabase: asksDatabase, held: held, prioritized: [])
    }

    func fetchNow(prioritized: [ZoneID] = []) async throws {
        guard !isPublic else { return try await pollNow() }
        try await checkAccount()
        try await fetch(asksDatabase: true, held: [], prioritized: prioritized)
    }

    private func fetch(asksDatabase: Bool, held: Set<ZoneID>, prioritized: [ZoneID]) async throws {
        try await withFetchLane {
            tell(.fetchBegan)
            var tally = Tally(began: conditions.wallClock())
            let round = FetchRound(asksDatabase: asksDatabase, prioritized: prioritized, held: held)
            let outcome = await walk(round, &tally)
            let failure = Self.failure(outcome, tally.errors)
            lastTrouble = failure
            if failure == nil, outcome.sawDatabase { await noteImported() }
            if tally.records > 0 || failure != nil || !tally.details.isEmpty {
                await note(
                    .import,
                    began: tally.began,
                    done: tally.records,
                    error: failure,
                    details: tally.details
                )
            }
            tell(.fetchFinished(outcome))
            await keepHold()
            await outboxChanged()
            if let failure { throw failure }
        }
    }

    private func noteImported() async {
        let now = conditions.wallClock().timeIntervalSince1970
        try? await file.pool.write { db in
            try State.set(db, .hasImported, "1")
            try State.set(db, .lastImport, now)
            try Duplicates.removeSettled(db)
        }
    }

    private func walk(_ round: FetchRound, _ tally: inout Tally) async -> FetchRound.Outcome {
        var outcome = FetchRound.Outcome()
        self.round = round
        await withTaskGroup(of: Arrival.self) { group in
            var effects = advance(.began)
            while true {
                for effect in effects {
                    switch effect {
                    case .askDatabase(let token): group.addTask { .database(await self.askDatabase(token)) }
                    case .askZone(let zone, let token):
                        group.addTask { .zone(zone, since: token, await self.askZone(zone, token)) }
                    case .finished(let end): outcome = end
                    case .zoneBegins, .zoneEnded: break
                    }
                }
                guard let arrival = await group.next() else { break }
                effects = await take(arrival, &tally)
            }
        }
        self.round = nil
        return outcome
    }

    private func askDatabase(_ token: SyncToken?) async -> Result<DatabasePage, CKError> {
        do throws(CKError) {
            return .success(try await link.databaseChanges(since: token?.text))
        } catch {
            return .failure(error)
        }
    }

    /// Leaves the zone's turnstile to `take`, which lets the next one through when the page is applied.
    private func askZone(_ zone: ZoneID, _ token: SyncToken?) async -> Result<MirrorPage, CKError> {
        await exchange(zone).enter()
        do throws(CKError) {
            return .success(try await link.zoneChanges(in: zone, since: token?.text))
        } catch {
            return .failure(error)
        }
    }

    /// Adds what a listing of the database does not say, and lets answers about lost zones come first that are on their way.
    private func completed(_ arrival: Arrival) async -> Arrival {
        guard case .database(.success(var page)) = arrival else { return arrival }
        let missing = feed.missing(after: page.changed, moreComing: page.moreComing)
        page.deleted += missing.filter { !page.deleted.map(\.zone).contains($0) }.map { ($0, .deleted) }
        for (zone, _) in page.deleted {
            // What was sent before the zone went, and is answered after, would bring its records back.
            await exchange(zone).enter()
            exchange(zone).leave()
        }
        return .database(.success(page))
    }

    /// Writes what has come, and only then notes how far that is.
    private func take(_ arrival: Arrival, _ tally: inout Tally) async -> [FetchRound.Effect] {
        let arrival = await completed(arrival)
        defer {
            if case .zone(let zone, _, _) = arrival { exchange(zone).leave() }
        }
        switch arrival {
        case .database(.success(let page)):
            do {
                tally.details += try await write(page)
            } catch {
                tally.errors[nil] = CKError(from: error)
                return advance(.databaseFailed(Trouble(.refused)))
            }
            return advance(
                .databasePage(
                    changed: page.changed,
                    deleted: page.deleted.map(\.zone),
                    token: page.token,
                    moreComing: page.moreComing
                )
            )
        case .database(.failure(let error)):
            tally.errors[nil] = error
            return advance(.databaseFailed(error.trouble))
        case .zone(let zone, let since, .success(let page)):
            do {
                let (count, details) = try await write(page, of: zone, since: since)
                tally.records += count
                tally.details += details
            } catch {
                tally.errors[zone] = CKError(from: error)
                return advance(.zoneFailed(zone, Trouble(.refused)))
            }
            return advance(.zonePage(zone, token: page.records.token, moreComing: page.records.moreComing))
        case .zone(let zone, _, .failure(let error)):
            tally.errors[zone] = error
            return advance(.zoneFailed(zone, error.trouble))
        }
    }

    /// The zones of a page, and the token that covers them, in one transaction.
    private func write(_ page: DatabasePage) async throws -> [MirrorEvent.Detail] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        return try await file.pool.write { db in
            var details: [MirrorEvent.Detail] = []
            for zone in page.changed {
                let known = try KnownZone.make(db, zone)
                try db.execute(
                    sql: "UPDATE mirror_zone SET isThere = 1, isUnfetched = 1 WHERE id = ?",
                    arguments: [known.id]
                )
            }
            for (zone, loss) in page.deleted {
                guard let known = try KnownZone.find(db, zone) else { continue }
                details += try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                    try Importer(db, file, transaction: transaction, now: now).lose(known, loss)
                }
            }
            try State.set(db, .databaseToken, page.token.text)
            try crash(.insideDatabasePage)
            return details
        }
    }

    /// A page's records, and the token that covers them, in one transaction.
    private func write(
        _ found: MirrorPage,
        of zone: ZoneID,
        since: SyncToken?
    ) async throws -> (Int, [MirrorEvent.Detail]) {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        let page = found.records
        try crash(.beforeImport)
        let result = try await file.pool.write { db in
            var known = try KnownZone.make(db, zone)
            var details: [MirrorEvent.Detail] = []
            let isEmpty = page.changed.isEmpty && page.deleted.isEmpty
            var count = 0
            if !isEmpty || since == nil || known.sweep != 0 {
                count = try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                    if since == nil { try known.beginSweep(db, transaction) }
                    let importer = try Importer(db, file, transaction: transaction, now: now)
                    for record in page.changed { try importer.take(record, zone: known) }
                    for item in page.deleted { try importer.remove(item.id.recordName, zone: known) }
                    if known.sweep != 0, !page.moreComing {
                        details.append(.zoneResynced(zone: zone.description, reason: "listed from its beginning"))
                        try crash(.insideSweep)
                        try importer.sweep(known)
                    }
                    return importer.count
                }
            }
            for share in found.shares {
                try ShareCache.store(db, share, zone: zone)
                details.append(.share("changed", zone: zone.zoneName))
            }
            try db.execute(
                sql: "UPDATE mirror_zone SET token = ?, isThere = 1, isUnfetched = ?, fetchedAt = ? WHERE id = ?",
                arguments: [page.token.text, page.moreComing, now.timeIntervalSince1970, known.id]
            )
            try crash(.insideImport)
            return (count, details)
        }
        try crash(.afterImport)
        return result
    }

    private static func failure(_ outcome: FetchRound.Outcome, _ errors: [ZoneID?: CKError]) -> CKError? {
        // A zone that is gone is no failure: the database's feed has told of it.
        let failed = outcome.zoneTroubles.filter { $0.value.kind != .zoneGone }
        let unexplained = CKError(
            .internalError,
            "The relay's feed does not move on. Try again later; its log says more."
        )
        if outcome.trouble != nil {
            return errors[nil] ?? failed.keys.compactMap { errors[$0] }.first ?? unexplained
        }
        return failed.isEmpty ? nil : failed.keys.compactMap { errors[$0] }.first ?? unexplained
    }
}

extension KnownZone {
    /// A listing from the beginning starts: from now on records are marked as seen.
    ///
    /// Nothing to do for a zone of which nothing is known.
    mutating func beginSweep(_ db: Database, _ number: Int64) throws {
        let hasRecords = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM mirror_record WHERE zone = ? AND tag IS NOT NULL)",
            arguments: [id]
        )
        guard hasRecords == true else { return }
        sweep = number
        try db.execute(sql: "UPDATE mirror_zone SET sweep = ? WHERE id = ?", arguments: [number, id])
    }
}

extension Importer {
    /// A zone is gone.
    ///
    /// Deleted or purged: its objects go, and changes to them that were not sent; objects that the relay never had stay, and
    /// make the zone anew. After a reset of encrypted data everything is sent again.
    func lose(_ zone: KnownZone, _ loss: DatabasePage.Loss) throws -> [MirrorEvent.Detail] {
        let sql = "SELECT name FROM mirror_record WHERE zone = ?"
        let names = try String.fetchAll(db, sql: sql, arguments: [zone.id])
        let isShared = file.description.cloud?.scope == .shared
        var dropped: [String] = []
        for name in names {
            guard let known = try KnownRecord.find(db, zone: zone.id, name: name) else { continue }
            if loss == .encryptedDataReset {
                try KnownRecord.forgetVersion(db, id: known.id)
                if let oid = known.oid, let entity = known.entity { try OutboxRow.add(db, oid, entity: entity, .save) }
                continue
            }
            if known.tag == nil, !isShared, loss == .deleted { continue }
            if let home = file.homeZone, home != zone.zone, loss == .deleted, let oid = known.oid,
                try OutboxRow.find(db, oid)?.operation == .save
            {
                // A share of ours has ended while a change was under way: it goes home with its object.
                let target = try KnownZone.make(db, home)
                try db.execute(
                    sql: "UPDATE mirror_record SET zone = ?, tag = NULL WHERE id = ?",
                    arguments: [target.id, known.id]
                )
                continue
            }
            if let oid = known.oid, try OutboxRow.find(db, oid) != nil { dropped.append(oid) }
            try remove(known, keepingPending: false)
        }
        try db.execute(
            sql: """
                UPDATE mirror_zone SET token = NULL, isThere = 0, isUnfetched = 0, sweep = 0, share = NULL,
                    permission = NULL WHERE id = ?
                """,
            arguments: [zone.id]
        )
        if isShared { try db.execute(sql: "DELETE FROM mirror_zone WHERE id = ?", arguments: [zone.id]) }
        var details: [MirrorEvent.Detail] = [.zoneLost(zone: zone.zone.description, reason: "\(loss)")]
        if !dropped.isEmpty { details.append(.droppedChanges(dropped)) }
        return details
    }
}
