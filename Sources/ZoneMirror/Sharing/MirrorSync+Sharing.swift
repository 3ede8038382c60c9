import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

extension MirrorSync {
    /// Saves a share record, and keeps the answer; a version of another device's is taken over first.
    func save(_ share: MirroredShare) async throws -> MirroredShare {
        try await checkAccount()
        do {
            return try await send(share, tag: share.changeTag)
        } catch let error as CKError where error.code == .serverRecordChanged {
            guard let current = try await cachedAfterFetch(share.zone) else { throw error }
            return try await send(share, tag: current.changeTag)
        }
    }

    private func cachedAfterFetch(_ zone: ZoneID) async throws -> MirroredShare? {
        try await fetchNow()
        return try await file.pool.read { db in
            let sql = "SELECT share FROM mirror_zone WHERE name = ? AND owner = ?"
            let cached = try Data.fetchOne(db, sql: sql, arguments: [zone.zoneName, zone.owner.recordName])
            return cached.flatMap { MirroredShare(cached: [UInt8]($0), in: zone) }
        }
    }

    private func send(_ share: MirroredShare, tag: String?) async throws -> MirroredShare {
        let zone = share.zone
        let json = try await link.modifyShare(share.operation(tag: tag), in: zone)
        guard let saved = MirroredShare(cached: json, in: zone) else {
            throw CKError(.internalError, "The relay's answer holds no share.")
        }
        try await file.pool.write { try ShareCache.store($0, json, zone: zone) }
        await note(.share, details: [.share("saved", zone: zone.zoneName)])
        await tellOthers([zone])
        return saved
    }

    func leave(_ zone: ZoneID) async throws {
        try await checkAccount()
        let writes = [ClientRequest.Write(.forceDelete, MirroredShare.recordName)]
        for answer in try await link.modify(writes, in: zone, atomically: false) {
            if case .failed(let error, _) = answer, error.code != .zoneNotFound, error.code != .unknownItem {
                throw error
            }
        }
        try await forget(zone, "left")
    }

    func purge(_ zone: ZoneID) async throws {
        try await checkAccount()
        try await link.delete(zone)
        try await forget(zone, "purged")
        await tellOthers([zone])
    }

    private func forget(_ zone: ZoneID, _ why: String) async throws {
        let (file, now) = (file, conditions.wallClock())
        try await file.pool.write { db in
            guard let known = try KnownZone.find(db, zone) else { return }
            try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                _ = try Importer(db, file, transaction: transaction, now: now).lose(known, .purged)
            }
        }
        feed.lost(zone)
        await note(.share, details: [.share(why, zone: zone.zoneName)])
    }
}

/// The shares that a store knows of, zone by zone.
enum ShareCache {
    /// Keeps a share, and what this user may do by it.
    static func store(_ db: Database, _ json: [UInt8], zone: ZoneID) throws {
        let share = MirroredShare(cached: json, in: zone)
        let known = try KnownZone.make(db, zone)
        try db.execute(
            sql: "UPDATE mirror_zone SET share = ?, permission = ? WHERE id = ?",
            arguments: [Data(json), share?.currentUserPermission.rawValue, known.id]
        )
    }

    static func remove(_ db: Database, zone: Int64) throws {
        try db.execute(sql: "UPDATE mirror_zone SET share = NULL, permission = NULL WHERE id = ?", arguments: [zone])
    }
}
