import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Importing pages, each in one transaction with its change token.
extension MirrorSync {
    /// The page does not follow the store's state of its zone.
    struct Misfit: Error {}

    /// Imports the zones of a page of the database's feed and its token in one transaction.
    func write(
        _ page: DatabasePage,
        _ reasons: [ZoneID: ShareChange.Loss]
    ) async throws -> [MirrorEvent.Detail] {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        // Records of an ended zone may have moved to a changed one, so the zone is kept until those are fetched.
        let waits = page.moreComing || !page.changed.isEmpty || !feed.unfetched.isEmpty
        var ending: [ZoneID] = []
        var lost: [(ZoneID, DatabasePage.Loss)] = []
        for (zone, loss) in page.deleted {
            guard waits, loss == .deleted, zone != file.homeZone else {
                lost.append((zone, loss))
                continue
            }
            ending.append(zone)
            endings[zone] = reasons[zone] ?? .unknown
        }
        var kept: [MirrorEvent.Detail] = []
        for (zone, _) in lost where file.scope == .shared {
            if let known = try await file.pool.read({ try KnownZone.find($0, zone) }) {
                kept += try keepCopy(of: known)
            }
        }
        return try await file.pool.write { [kept, ending, lost] db -> [MirrorEvent.Detail] in
            var details = kept
            for zone in page.changed {
                let known = try KnownZone.make(db, zone)
                try db.execute(
                    sql: "UPDATE mirror_zone SET isThere = 1, isUnfetched = 1, isEnding = 0 WHERE id = ?",
                    arguments: [known.id]
                )
            }
            for zone in ending { try KnownZone.end(db, zone) }
            for (zone, loss) in lost {
                guard let known = try KnownZone.find(db, zone) else { continue }
                if let reason = reasons[zone] { details.append(.share(.accessLost(reason), zone: zone.zoneName)) }
                details += try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                    try Importer(db, file, transaction: transaction, now: now).lose(known, loss)
                }
            }
            try State.set(db, .databaseToken, page.token.text)
            try crash(.insideDatabasePage)
            return details
        }
    }

    /// Handles a zone that was deleted and created again: the store's objects belong to the old one.
    func lose(_ zone: ZoneID, _ loss: ZoneLoss) async throws -> [MirrorEvent.Detail] {
        let (file, now) = (file, conditions.wallClock())
        var kept: [MirrorEvent.Detail] = []
        if let known = try await file.pool.read({ try KnownZone.find($0, zone) }) { kept = try keepCopy(of: known) }
        return try await file.pool.write { [kept] db -> [MirrorEvent.Detail] in
            guard let known = try KnownZone.find(db, zone) else { return kept }
            let details = try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                try Importer(db, file, transaction: transaction, now: now).lose(known, loss)
            }
            try db.execute(
                sql: "UPDATE mirror_zone SET isThere = 1, isUnfetched = 1 WHERE id = ?",
                arguments: [known.id]
            )
            return kept + details
        }
    }

    /// The result of importing a page.
    private struct Written: Sendable {
        var count = 0
        var details: [MirrorEvent.Detail] = []
        /// Zones whose records have appeared in this one.
        var left: [ZoneID] = []
        /// Zones to which records have moved.
        var awaiting: [ZoneID] = []
    }

    /// Imports a page's records and its token in one transaction.
    func write(
        _ found: MirrorPage,
        of zone: ZoneID,
        since: SyncToken?
    ) async throws -> (Int, [MirrorEvent.Detail]) {
        let (file, now, crash) = (file, conditions.wallClock(), conditions.crashPoint)
        try crash(.beforeImport)
        let written = try await file.pool.write { db -> Written in
            var known = try KnownZone.make(db, zone)
            if let since, known.token != since.text { throw Misfit() }
            var written = Written()
            let page = found.records
            if !page.changed.isEmpty || !page.deleted.isEmpty || since == nil || known.sweep != 0 {
                let isFirst = since == nil && found.isFirstPart
                written = try Self.enter(found, in: &known, isFirst: isFirst, db, file, now, crash)
            }
            if found.isLastPart { try Self.note(page.token, page.moreComing, of: known, at: now, db) }
            try crash(.insideImport)
            return written
        }
        for zone in written.left { sends[zone, default: 0] += 1 }
        for zone in written.awaiting { expectsRecords(in: zone) }
        try crash(.afterImport)
        return (written.count, written.details)
    }

    /// Stores how far the zone has been read.
    private static func note(
        _ token: SyncToken,
        _ moreComing: Bool,
        of zone: KnownZone,
        at now: Date,
        _ db: Database
    ) throws {
        try db.execute(
            sql: """
                UPDATE mirror_zone SET token = ?, isThere = 1, isUnfetched = ?, isEnding = 0, fetchedAt = ? WHERE id = ?
                """,
            arguments: [token.text, moreComing, now.timeIntervalSince1970, zone.id]
        )
    }

    private static func enter(
        _ found: MirrorPage,
        in known: inout KnownZone,
        isFirst: Bool,
        _ db: Database,
        _ file: StoreFile,
        _ now: Date,
        _ crash: (CrashPoint) throws -> Void
    ) throws -> Written {
        let (page, zone) = (found.records, known.zone)
        return try StoreFile.importing(db, author: Importer.author, at: now) { transaction -> Written in
            var written = Written()
            if isFirst { try known.beginSweep(db, transaction) }
            let importer = try Importer(db, file, transaction: transaction, now: now)
            try importer.take(page.changed, found.readied, zone: known)
            // A deletion elsewhere may have freed space.
            if !page.deleted.isEmpty { try State.set(db, .quotaIsFull, nil) }
            for item in page.deleted {
                let name = item.id.recordName
                try importer.remove(
                    name,
                    zone: known,
                    movedTo: found.goals[name],
                    isOutOfSight: found.outOfSight.contains(name)
                )
            }
            if known.sweep != 0, !page.moreComing {
                written.details.append(.zoneResynced(zone: zone.description, reason: "listed from its beginning"))
                try crash(.insideSweep)
                try importer.sweep(known)
            }
            for (name, share) in found.shares {
                let news = try ShareCache.store(db, share, named: name, zone: known.id)
                guard let change = ShareChange(news, isOwn: zone.owner == .caller) else { continue }
                written.details.append(.share(change, zone: zone.zoneName))
                try importer.noteShare(in: known, news == .created ? .insert : .update)
            }
            if !importer.conflicts.isEmpty { written.details.append(.refused(importer.conflicts)) }
            if !importer.dropped.isEmpty { written.details.append(.droppedChanges(importer.dropped)) }
            written.count = importer.count
            for id in importer.leftZones {
                if let zone = try KnownZone.find(db, id: id)?.zone { written.left.append(zone) }
            }
            for id in importer.awaitingZones {
                if let zone = try KnownZone.find(db, id: id)?.zone { written.awaiting.append(zone) }
            }
            return written
        }
    }
}
