import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

extension MirrorSync {
    nonisolated var shareMover: ShareMover { ShareMover(store: store) }

    /// How often a share is merged with a newer version of the relay before the conflict is thrown.
    private static let shareRounds = 5

    /// Saves a share and stores the result; changes made by other devices are merged first.
    func save(_ share: CKShare) async throws -> CKShare {
        try await checkAccount()
        let zone = share.recordID.zoneID.zone
        try await sendShare(share, in: zone)
        try conditions.crashPoint(.afterShareSaved)
        guard let (record, details) = share.kept else {
            throw CKError(.internalError, "The relay's response contains no share.")
        }
        let news = try await file.pool.write { db in
            let home = try KnownZone.make(db, zone)
            try RecordTable(db).store(
                record,
                zone: home.id,
                oid: nil,
                entity: nil,
                fields: KnownRecord.encode(record.fields),
                seen: home.sweep
            )
            return try ShareCache.store(db, details, named: record.id.recordName, zone: home.id)
        }
        await store.note(.share, details: [.share(ShareChange(news) ?? .updated, zone: zone.zoneName)])
        await notifyOtherListeners([zone])
        return share
    }

    /// Runs with the zone's lock held: a page read before the save would restore the old version.
    private func sendShare(_ share: CKShare, in zone: ZoneID) async throws {
        let lock = lock(of: zone)
        await lock.enter()
        defer { lock.leave() }
        runner.changes[zone, default: 0] += 1
        for round in 1... {
            do {
                _ = try await database.save(share)
                return
            } catch let error as CKError where error.code == .serverRecordChanged && round < Self.shareRounds {
                guard let server = error.serverRecord as? CKShare else { throw error }
                share.rebase(onto: server)
            }
        }
    }

    /// Removes this user from a share, and its objects from the store.
    func leave(_ share: CKRecord.ID) async throws {
        try await checkAccount()
        let zone = share.zoneID.zone
        let lock = lock(of: zone)
        await lock.enter()
        defer { lock.leave() }
        try await delete(share)
        try await forget(zone, .accessLost(.left))
    }

    /// Ends a share of this user; its objects stay in their zone.
    func end(_ share: CKRecord.ID) async throws {
        try await checkAccount()
        try await close(share)
        try await fetchNow()
    }

    /// Deletes a share on the relay, after which only the zone's owner can write to the zone.
    func close(_ share: CKRecord.ID) async throws {
        let zone = share.zoneID.zone
        let lock = lock(of: zone)
        await lock.enter()
        defer { lock.leave() }
        try await delete(share)
        await notifyOtherListeners([zone])
    }

    /// Does not throw if the share or its zone is already gone.
    private func delete(_ share: CKRecord.ID) async throws(CKError) {
        let zone = share.zoneID.zone
        runner.changes[zone, default: 0] += 1
        let writes = [ClientRequest.Write(.forceDelete, share.recordName)]
        do throws(CKError) {
            let answers = try await client.modify(writes, in: zone, atomically: false)
            if case .failed(let error, _)? = answers.first { throw error }
        } catch {
            if ![.zoneNotFound, .userDeletedZone, .unknownItem].contains(error.code) { throw error }
        }
    }

    /// Deletes a zone; `reason` is the reason that other devices receive.
    func delete(_ zone: ZoneID, because reason: ZoneDeletionReason = .deleted) async throws(CKError) {
        try await client.delete(zone, because: reason)
        database.keys.forgetKey(of: CKRecordZone.ID(zone))
    }

    func purge(_ zone: ZoneID) async throws {
        try await checkAccount()
        let lock = lock(of: zone)
        await lock.enter()
        defer { lock.leave() }
        runner.changes[zone, default: 0] += 1
        try await delete(zone, because: .purged)
        try await forget(zone, .ended)
        await notifyOtherListeners([zone])
    }

    /// Deletes all zones of this user with their contents, here and on the relay.
    func erase() async throws {
        try await checkAccount()
        let zones = try await database.allRecordZones().map(\.zoneID.zone).filter { !$0.isDefault }
        for zone in zones { try await purge(zone.owner == .caller ? zone : ZoneID(zone.zoneName)) }
    }

    /// Creates all zones again with new keys, from the local objects.
    func resetKeys() async throws {
        // The changes of other devices go to the new zones too, because the local objects then count as the newest.
        try await fetchNow()
        let (file, now) = (file, conditions.wallClock())
        for zone in try await file.pool.read({ try KnownZone.all($0) }) where zone.isThere {
            try await delete(zone.zone, because: .encryptedDataReset)
            try await file.pool.write { db in
                _ = try Importer.run(db, file, at: now) { try $0.zoneLost(zone, .encryptedDataReset, isOurs: true) }
            }
            imports.feed.lost(zone.zone)
            database.keys.forgetKey(of: CKRecordZone.ID(zone.zone))
            await notifyOtherListeners([zone.zone])
        }
        await outboxChanged()
    }

    private func forget(_ zone: ZoneID, _ why: ShareChange) async throws {
        let (file, now) = (file, conditions.wallClock())
        var kept: [MirrorEvent.Detail] = []
        if let known = try await file.pool.read({ try KnownZone.find($0, zone) }) {
            kept = try store.keepCopy(of: known)
        }
        let details = try await file.pool.write { db -> [MirrorEvent.Detail] in
            guard let known = try KnownZone.find(db, zone) else { return [] }
            return try Importer.run(db, file, at: now) { try $0.zoneLost(known, .purged) }
        }
        imports.feed.lost(zone)
        database.keys.forgetKey(of: CKRecordZone.ID(zone))
        await store.note(.share, details: [.share(why, zone: zone.zoneName)] + kept + details)
    }

    /// Returns why a shared zone is gone, as far as its share link still shows it.
    func reasonOfLoss(_ zone: ZoneID) async -> ShareChange.Loss {
        let guid = try? await file.pool.read { db -> String? in
            guard let known = try KnownZone.find(db, zone) else { return nil }
            let sql = "SELECT details FROM mirror_share WHERE zone = ? LIMIT 1"
            let json = try Data.fetchOne(db, sql: sql, arguments: [known.id])
            return json.flatMap { ClientShare(json: [UInt8]($0))?.shortGUID }
        }
        guard let guid = guid ?? nil else { return .unknown }
        let container = store.container
        do {
            _ = try await container.shareMetadata(for: URL(filePath: "/\(guid)"))
            return .removed
        } catch {
            switch CKError(from: error).code {
            case .unknownItem, .zoneNotFound: return .stopped
            case .permissionFailure, .participantMayNeedVerification: return .removed
            default: return .unknown
            }
        }
    }
}

/// Assigning objects to zones in the store only; the next round sends the moves.
extension MirrorSync {
    /// Moves objects to another zone of this user in the store only; the next round sends the moves.
    func reassign(_ objects: [ObjectID], to zone: ZoneID) async throws {
        let file = file
        try await reassigning { db in
            try ShareMoves.reassign(db, objects, to: try KnownZone.make(db, zone).id, file: file)
        }
    }

    /// Moves everything from one zone to another in the store, after which the zone is removed.
    ///
    /// Returns the objects.
    func leaveZone(_ zone: ZoneID, for target: ZoneID) async throws -> [ObjectID] {
        let file = file
        // Another device may have shared these objects, and this one may not have fetched since.
        if try await file.pool.read({ try KnownZone.find($0, zone) }) == nil { try await fetchNow() }
        return try await reassigning { db in
            guard let known = try KnownZone.find(db, zone) else { return [] }
            try RecordTable(db).dropWhenEmpty(zone: known.id, movingTo: try KnownZone.make(db, target).id)
            return try ShareMoves.empty(db, zone: known.id, file: file).objects
        }
    }

    private func reassigning<Result: Sendable>(
        _ move: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        let (file, crash) = (file, conditions.crashPoint)
        return try await inLane(.sending) {
            let result = try await file.pool.write { db in
                let result = try move(db)
                try crash(.insideMove)
                return result
            }
            try crash(.afterMove)
            return result
        }
    }
}

extension ShareChange {
    /// Creates the event detail for a share's new version; `nil` if nothing has changed.
    init?(_ news: ShareCache.Change, isOwn: Bool = true) {
        switch news {
        case .created: self = isOwn ? .created : .accepted
        case .updated: self = .updated
        case .participantsChanged: self = .participantsChanged
        case .unchanged: return nil
        }
    }
}
