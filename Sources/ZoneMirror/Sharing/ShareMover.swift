import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Carries out a store's moves on the relay.
struct ShareMover: Sendable {
    let store: MirroredStore

    private var file: StoreFile { store.file }
    private var client: any RelayClient { store.client }

    /// The maximum number of records moved by one request.
    private static let moveLimit = 5_000
    /// The maximum number of records that the relay moves in one commit.
    private static let commitLimit = 10_000

    /// Moves records to their new zone on the relay.
    ///
    /// Does not throw if the relay cannot move them: then copies are sent, and the originals are deleted after the
    /// copies have arrived. Throws only temporary errors.
    func moveOnRelay(_ sync: isolated MirrorSync) async throws {
        guard store.isPrivate else { return }
        for isLast in [false, true] {
            var isRefused = false
            for zoneMove in try await file.pool.read({ try ShareMoves.pendingMoves($0) }) {
                if store.conditions.relayMoves, try await carryOut(zoneMove, isLast: isLast, sync) { continue }
                isRefused = true
                if isLast || !store.conditions.relayMoves { try await copyUnknown(zoneMove, sync) }
            }
            guard isRefused, store.conditions.relayMoves, !isLast else { return }
            // Some records were deleted or moved elsewhere, or the relay does not have this call.
            try await sync.fetch([])
            let file = file
            try await file.pool.write { try ShareMoves.emptyAll($0, file: file) }
        }
    }

    /// Moves records and ends the zone they leave, if it is to be removed; returns `false` if the relay refuses
    /// permanently.
    ///
    /// Participants lose the zone as a whole and never see its records removed one by one, which they could not
    /// distinguish from deletions. Usually this is one commit. If it cannot be, the share is ended first.
    private func carryOut(
        _ zoneMove: ShareMoves.ZoneMove,
        isLast: Bool,
        _ sync: isolated MirrorSync
    ) async throws -> Bool {
        guard zoneMove.endsZone else { return try await move(zoneMove, sync) }
        // Values encrypted with the zone's key must be encrypted again before the zone ends.
        let isOne = zoneMove.names.count <= Self.commitLimit && !store.database.keys.isAvailable
        if isOne, try await end(zoneMove, sync) { return true }
        // The zone has other records; after the next fetch, they may be moved too.
        guard isLast || !isOne else { return false }
        try await sync.close(
            CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: CKRecordZone.ID(zoneMove.from.zone))
        )
        return try await move(zoneMove, sync)
    }

    /// Moves all records out of a zone and ends it with its share in one commit; returns `false` if the relay refuses
    /// permanently.
    private func end(_ zoneMove: ShareMoves.ZoneMove, _ sync: isolated MirrorSync) async throws -> Bool {
        let (from, to) = (zoneMove.from.zone, zoneMove.to.zone)
        guard try await endInOneCommit(zoneMove, sync) else { return false }
        await sync.notifyOtherListeners([from, to])
        return true
    }

    private func endInOneCommit(_ zoneMove: ShareMoves.ZoneMove, _ sync: isolated MirrorSync) async throws -> Bool {
        let (from, to) = (zoneMove.from.zone, zoneMove.to.zone)
        // Pages that were read before the move must not be imported after it.
        for zone in [from, to] {
            await sync.lock(of: zone).enter()
            sync.runner.changes[zone, default: 0] += 1
        }
        defer { for zone in [from, to] { sync.lock(of: zone).leave() } }
        do throws(CKError) {
            try await client.moveRecords(zoneMove.names, from: from, to: to, deletesSource: true)
        } catch {
            guard !error.syncFailure.isRetriedAutomatically else { throw error }
            return false
        }
        try store.conditions.crashPoint(.afterRelayMove)
        try store.conditions.crashPoint(.afterZoneGone)
        let file = file
        try await file.pool.write { db in
            try ShareMoves.moved(db, zoneMove, zoneMove.names, file: file)
            try ShareMoves.finished(db, zone: from, file: file)
        }
        sync.imports.feed.wrote(to)
        sync.imports.feed.lost(from)
        return true
    }

    /// Moves some records; returns `false` if the relay refuses permanently.
    private func move(_ zoneMove: ShareMoves.ZoneMove, _ sync: isolated MirrorSync) async throws -> Bool {
        let (from, to) = (zoneMove.from.zone, zoneMove.to.zone)
        for start in stride(from: 0, to: zoneMove.names.count, by: Self.moveLimit) {
            let part = Array(zoneMove.names[start..<min(start + Self.moveLimit, zoneMove.names.count)])
            // Pages that were read before the move must not be imported after it.
            for zone in [from, to] {
                await sync.lock(of: zone).enter()
                sync.runner.changes[zone, default: 0] += 1
            }
            defer { for zone in [from, to] { sync.lock(of: zone).leave() } }
            do throws(CKError) {
                try await client.moveRecords(part, from: from, to: to)
            } catch {
                guard !error.syncFailure.isRetriedAutomatically else { throw error }
                return false
            }
            try store.conditions.crashPoint(.afterRelayMove)
            try await UnknownRecords(store: store).reseal(in: zoneMove, part)
            try await noteMoved(zoneMove, part, sync)
        }
        await sync.notifyOtherListeners([from, to])
        return true
    }

    private func noteMoved(
        _ zoneMove: ShareMoves.ZoneMove,
        _ names: [String],
        _ sync: isolated MirrorSync
    ) async throws {
        let file = file
        try await file.pool.write { try ShareMoves.moved($0, zoneMove, names, file: file) }
        sync.imports.feed.wrote(zoneMove.to.zone)
    }

    /// Sends copies of records that the model does not know; all others are sent from the outbox.
    private func copyUnknown(_ zoneMove: ShareMoves.ZoneMove, _ sync: isolated MirrorSync) async throws {
        let unknown = try await file.pool.read { db in
            try zoneMove.names.compactMap { try KnownRecord.find(db, zone: zoneMove.from.id, name: $0) }
                .filter { $0.oid == nil }
        }
        for start in stride(from: 0, to: unknown.count, by: BatchLimits.maxOperations) {
            let part = unknown[start..<min(start + BatchLimits.maxOperations, unknown.count)]
            var writes: [ClientRequest.Write] = []
            for known in part {
                writes.append(try await store.values.sealed(known.copy(.forceReplace), in: zoneMove.to.zone))
            }
            let answers = try await client.modify(writes, in: zoneMove.to.zone, atomically: false)
            let arrived = zip(part, answers).compactMap { known, answer in
                if case .saved = answer { known.name } else { nil }
            }
            try await noteMoved(zoneMove, arrived, sync)
        }
    }

    /// Deletes moved originals after their copies have arrived; returns `false` if something must be moved first.
    func finishMoves(_ sync: isolated MirrorSync) async throws -> Bool {
        let (originals, zones) = try await file.pool.read { try ShareMoves.removable($0) }
        if !originals.isEmpty { try store.conditions.crashPoint(.beforeOriginalsGo) }
        var hasNewChanges = false
        for (zone, originals) in originals {
            for start in stride(from: 0, to: originals.count, by: 200) {
                let part = originals[start..<min(start + 200, originals.count)]
                let deleted = try await delete(part, in: zone)
                hasNewChanges = hasNewChanges || deleted.count < part.count
                try store.conditions.crashPoint(.afterOriginalsGo)
                try await file.pool.write { try ShareMoves.finished($0, originals: deleted, in: zone) }
            }
            await sync.notifyOtherListeners([zone])
        }
        // Another user has changed an original since it was copied; the next fetch merges that into its object.
        if hasNewChanges { sync.handle(.noticed(nil)) }
        var isDone = true
        for zone in zones {
            try await sync.close(CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: CKRecordZone.ID(zone)))
            switch try await drop(zone, sync) {
            case .dropped: await sync.notifyOtherListeners([zone])
            case .hasNewChanges:
                sync.imports.feed.changed(zone)
                try await sync.fetch([zone])
                isDone = false
            case .hasRecords: isDone = false
            }
        }
        return isDone
    }

    /// The result of removing a zone.
    private enum ZoneRemoval {
        case dropped
        /// The zone has changes that were not fetched yet.
        case hasNewChanges
        /// The zone has records that were not moved yet.
        case hasRecords
    }

    /// Deletes a zone that this device has emptied, with what others have added to it.
    private func drop(_ zone: ZoneID, _ sync: isolated MirrorSync) async throws -> ZoneRemoval {
        let lock = sync.lock(of: zone)
        await lock.enter()
        defer { lock.leave() }
        let file = file
        let (count, token) = try await file.pool.write { db in
            guard let known = try KnownZone.find(db, zone) else { return (0, String?.none) }
            return (try ShareMoves.empty(db, zone: known.id, file: file).count, known.token)
        }
        guard count == 0 else { return .hasRecords }
        guard try await !hasNewChanges(zone, since: token) else { return .hasNewChanges }
        sync.runner.changes[zone, default: 0] += 1
        try await sync.delete(zone)
        try store.conditions.crashPoint(.afterZoneGone)
        try await file.pool.write { try ShareMoves.finished($0, zone: zone, file: file) }
        sync.imports.feed.lost(zone)
        return .dropped
    }

    private func hasNewChanges(_ zone: ZoneID, since token: String?) async throws -> Bool {
        do throws(CKError) {
            let page = try await client.mirrorPage(
                of: zone,
                since: token.map { SyncToken($0) },
                isPrivate: store.isPrivate
            )
            .records
            return page.moreComing || page.changed.contains { $0.type != Share.recordType }
        } catch {
            switch error.code {
            case .zoneNotFound, .userDeletedZone: return false
            case .changeTokenExpired: return true
            default: throw error
            }
        }
    }

    /// Deletes originals if they are unchanged since they were copied; returns the names of those that are gone.
    private func delete(_ originals: ArraySlice<RecordTable.Original>, in zone: ZoneID) async throws -> [String] {
        let writes = originals.map { original in
            ClientRequest.Write(original.tag == nil ? .forceDelete : .delete, original.name, changeTag: original.tag)
        }
        var deleted: [String] = []
        for (write, answer) in zip(writes, try await client.modify(writes, in: zone, atomically: false)) {
            switch answer {
            case .failed(let error, _) where error.code == .serverRecordChanged: break
            case .failed(let error, _) where error.code != .unknownItem: throw error
            default: deleted.append(write.recordName)
            }
        }
        return deleted
    }
}
