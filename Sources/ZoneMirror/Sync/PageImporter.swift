import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// Imports what was fetched, each page in one transaction with its change token.
struct PageImporter: Sendable {
    /// The page does not follow the store's state of its zone.
    struct OutOfSequencePage: Error {}

    /// The result of importing a page.
    struct Result: Sendable {
        var count = 0
        var details: [MirrorEvent.Detail] = []
        /// Zones whose records have appeared in this one.
        var left: [ZoneID] = []
        /// Zones to which records have moved.
        var awaiting: [ZoneID] = []
    }

    let file: StoreFile
    let now: Date
    let crash: @Sendable (CrashPoint) throws -> Void

    // MARK: Zones

    /// Imports the zones of a page of the database's feed and its token.
    ///
    /// `ending` are zones whose objects may have moved to a zone that is not fetched yet.
    func write(
        _ page: DatabasePage,
        ending: [ZoneID],
        lost: [(ZoneID, ZoneDeletionReason)],
        _ reasons: [ZoneID: ShareChange.Loss]
    ) async throws -> [MirrorEvent.Detail] {
        try await file.pool.write { db -> [MirrorEvent.Detail] in
            var details: [MirrorEvent.Detail] = []
            for zone in page.changed { try KnownZone.make(db, zone).changed(db) }
            for zone in ending { try KnownZone.end(db, zone) }
            for (zone, reason) in lost {
                guard let known = try KnownZone.find(db, zone) else { continue }
                if let reason = reasons[zone] { details.append(.share(.accessLost(reason), zone: zone.zoneName)) }
                details += try Importer.run(db, file, at: now) { try $0.zoneLost(known, reason) }
            }
            try State.set(db, .databaseToken, page.token.text)
            try crash(.insideDatabasePage)
            return details
        }
    }

    /// Removes the objects of a zone that was deleted and created again.
    func zoneLost(_ zone: ZoneID, _ reason: ZoneDeletionReason) async throws -> [MirrorEvent.Detail] {
        try await file.pool.write { db -> [MirrorEvent.Detail] in
            guard let known = try KnownZone.find(db, zone) else { return [] }
            let details = try Importer.run(db, file, at: now) { try $0.zoneLost(known, reason) }
            try known.changed(db)
            return details
        }
    }

    /// Removes the objects that are still in ended zones.
    func endZones(
        _ zones: [KnownZone],
        _ reasons: [ZoneID: ShareChange.Loss]
    ) async throws -> [MirrorEvent.Detail] {
        try await file.pool.write { db -> [MirrorEvent.Detail] in
            var details: [MirrorEvent.Detail] = []
            for zone in zones {
                if file.scope == .shared {
                    let reason = reasons[zone.zone] ?? .unknown
                    details.append(.share(.accessLost(reason), zone: zone.zone.zoneName))
                }
                details += try Importer.run(db, file, at: now) { try $0.zoneLost(zone, .deleted) }
            }
            // Changes that waited to know their zone can be sent now.
            try RecordTable(db).release(.dependencyArrived)
            return details
        }
    }

    // MARK: Records

    /// Imports a page's records and its token.
    func write(_ found: MirrorPage, of zone: ZoneID, since: SyncToken?) async throws -> Result {
        try crash(.beforeImport)
        return try await file.pool.write { db -> Result in
            var known = try KnownZone.make(db, zone)
            if let since, known.token != since.text { throw OutOfSequencePage() }
            var written = Result()
            let page = found.records
            if !page.changed.isEmpty || !page.deleted.isEmpty || since == nil || known.sweep != 0 {
                let isFirst = since == nil && found.isFirstPart
                written = try importPage(found, in: &known, isFirst: isFirst, db)
            }
            if found.isLastPart { try known.read(db, to: page.token, moreComing: page.moreComing, at: now) }
            try crash(.insideImport)
            return written
        }
    }

    private func importPage(
        _ found: MirrorPage,
        in known: inout KnownZone,
        isFirst: Bool,
        _ db: Database
    ) throws -> Result {
        let (page, zone) = (found.records, known.zone)
        return try Importer.run(db, file, at: now) { importer -> Result in
            var written = Result()
            if isFirst { try known.beginSweep(db, importer.transaction) }
            try importer.importRecords(page.changed, found.prepared, zone: known)
            // A deletion elsewhere may have freed space.
            if !page.deleted.isEmpty { try State.set(db, .quotaIsFull, nil) }
            for item in page.deleted {
                let name = item.id.recordName
                try importer.remove(
                    name,
                    zone: known,
                    movedTo: found.moveTargets[name],
                    isInvisible: found.invisible.contains(name)
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

    /// Imports records that were fetched by name, and removes those that do not exist.
    func applyLookup(_ names: [String], _ found: [Record], in zone: ZoneID) async throws -> Int {
        try await file.pool.write { db -> Int in
            guard let home = try KnownZone.find(db, zone) else { return 0 }
            return try Importer.run(db, file, at: now) { importer in
                for record in found { try importer.importRecord(record, zone: home) }
                for name in Set(names).subtracting(found.map(\.id.recordName)).sorted() {
                    try importer.remove(name, zone: home)
                }
                return importer.count
            }
        }
    }

    /// Imports records again whose locked values can be read now.
    func unlocked(_ opened: [Record], in zone: ZoneID) async throws {
        try await file.pool.write { db in
            guard let home = try KnownZone.find(db, zone) else { return }
            try Importer.run(db, file, at: now) { importer in
                for record in opened {
                    // A newer version may have arrived meanwhile.
                    guard let known = try KnownRecord.find(db, zone: home.id, name: record.id.recordName),
                        known.tag == record.changeTag
                    else { continue }
                    try importer.importRecord(record, zone: home, again: true)
                }
            }
        }
    }
}
