import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// The end of a fetch round: records that left a zone without appearing in another, and zones that ended.
extension MirrorSync {
    /// Notes that records are expected in a zone, whose own feed may have nothing else to report.
    func expectsRecords(in zone: ZoneID) {
        awaitsRecords = true
        feed.changed(zone)
    }

    /// Called after all changes were fetched.
    func settleMoves(_ tally: inout Tally) async throws {
        if awaitsRecords { try await lookForAwaited(&tally) }
        if !endings.isEmpty { try await endZones(&tally) }
        try await settleDepartures(&tally)
        if link.isPrivate { try await lookForStragglers() }
    }

    // MARK: Expected records

    /// Fetches expected records by name that their new zone's feed did not contain, because it was read before the old
    /// zone's.
    private func lookForAwaited(_ tally: inout Tally) async throws {
        let awaited = try await file.pool.read { db -> [ZoneID: [String]] in
            var found: [ZoneID: [String]] = [:]
            let sql = "SELECT zone, name FROM mirror_record WHERE tag = ? ORDER BY id"
            for row in try Row.fetchAll(db, sql: sql, arguments: [KnownRecord.awaited]) {
                let (id, name): (Int64, String) = (row[0], row[1])
                if let zone = try KnownZone.find(db, id: id)?.zone { found[zone, default: []].append(name) }
            }
            return found
        }
        for (zone, names) in awaited {
            let turnstile = exchange(zone)
            await turnstile.enter()
            defer { turnstile.leave() }
            for start in stride(from: 0, to: names.count, by: BatchLimits.maxOperations) {
                let part = Array(names[start..<min(start + BatchLimits.maxOperations, names.count)])
                let found = try await records(part, in: zone)
                for range in found.parts(room: conditions.room) {
                    var some = Array(found[range])
                    try await makeReadable(&some, in: zone)
                    tally.records += try await settle(some.map(\.id.recordName), some, in: zone)
                }
                let there = Set(found.map(\.id.recordName))
                tally.records += try await settle(part.filter { !there.contains($0) }, [], in: zone)
            }
        }
        try await file.pool.write { try State.set($0, .awaitsRecords, nil) }
        awaitsRecords = false
    }

    private func records(_ names: [String], in zone: ZoneID) async throws(CKError) -> [Record] {
        do {
            return try await link.lookup(names, in: zone)
        } catch {
            if error.code == .zoneNotFound { return [] }
            guard error.code == .limitExceeded, names.count > 1 else { throw error }
            // The records exceed the maximum size of a response.
            let half = names.count / 2
            return try await records(Array(names[..<half]), in: zone) + records(Array(names[half...]), in: zone)
        }
    }

    private func settle(_ names: [String], _ found: [Record], in zone: ZoneID) async throws -> Int {
        let (file, now) = (file, conditions.wallClock())
        return try await file.pool.write { db -> Int in
            guard let home = try KnownZone.find(db, zone) else { return 0 }
            return try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                let importer = try Importer(db, file, transaction: transaction, now: now)
                for record in found { try importer.take(record, zone: home) }
                for name in Set(names).subtracting(found.map(\.id.recordName)).sorted() {
                    try importer.remove(name, zone: home)
                }
                return importer.count
            }
        }
    }

    // MARK: Ended zones

    /// Removes the objects that are still in an ended zone.
    private func endZones(_ tally: inout Tally) async throws {
        let (file, now, reasons) = (file, conditions.wallClock(), endings)
        let zones = try await file.pool.read { try KnownZone.all($0).filter(\.isEnding) }
        for zone in zones where file.scope == .shared { tally.details += try keepCopy(of: zone) }
        tally.details += try await file.pool.write { db -> [MirrorEvent.Detail] in
            var details: [MirrorEvent.Detail] = []
            for zone in zones {
                if file.scope == .shared {
                    let reason = reasons[zone.zone] ?? .unknown
                    details.append(.share(.accessLost(reason), zone: zone.zone.zoneName))
                }
                details += try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                    try Importer(db, file, transaction: transaction, now: now).lose(zone, .deleted)
                }
            }
            // Changes that waited to know their zone can be sent now.
            try OutboxRow.releaseWaiting(db)
            return details
        }
        endings = [:]
    }
}
