import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Sending records and values that only a newer program knows.
///
/// See Sync.md, "Unknown records".
struct UnknownRecords: Sendable {
    let store: MirroredStore

    private var file: StoreFile { store.file }

    /// Sends records of unknown types again after their zone was created again because its key was lost.
    func send(_ progress: inout MirrorSync.SendProgress, _ sync: isolated MirrorSync) async throws {
        guard store.isPrivate, try await file.pool.read({ try State.text($0, .hasUnsent) }) != nil else { return }
        for zone in try await file.pool.read({ try KnownZone.all($0) }) {
            let unsent = try await file.pool.read { try KnownRecord.unsent($0, in: zone) }
            guard !unsent.isEmpty, progress.error == nil else { continue }
            let lock = sync.lock(of: zone.zone)
            await lock.enter()
            defer { lock.leave() }
            guard try await sync.createZone(zone.zone, for: [], &progress) else { continue }
            for start in stride(from: 0, to: unsent.count, by: sync.runner.limits.operations)
            where progress.error == nil {
                let part = unsent[start..<min(start + sync.runner.limits.operations, unsent.count)]
                try await send(part, in: zone, &progress, sync)
            }
        }
        guard progress.error == nil, progress.quotaError == nil, progress.busyZones.isEmpty else { return }
        try await file.pool.write { try State.set($0, .hasUnsent, nil) }
    }

    private func send(
        _ part: ArraySlice<KnownRecord>,
        in zone: KnownZone,
        _ progress: inout MirrorSync.SendProgress,
        _ sync: isolated MirrorSync
    ) async throws {
        sync.runner.changes[zone.zone, default: 0] += 1
        var writes: [ClientRequest.Write] = []
        for known in part { writes.append(try await store.values.sealed(known.copy(.create), in: zone.zone)) }
        var arrived: [KnownRecord] = []
        for (known, answer) in zip(part, try await progress.client.modify(writes, in: zone.zone, atomically: false)) {
            guard case .failed(let error, _) = answer, error.code != .serverRecordChanged else {
                arrived.append(known)
                continue
            }
            // Records that the relay refuses permanently stay here for the program that knows them.
            if error.syncFailure.isRetriedAutomatically || error.isServiceFailure {
                progress.retryLater(error, in: zone.zone)
            } else if error.code == .quotaExceeded {
                progress.quotaError = progress.quotaError ?? error
            } else {
                arrived.append(known)
                progress.error = progress.error ?? error
            }
        }
        progress.changedZones.insert(zone.zone)
        try await file.pool.write { [arrived, zone] db in
            for sent in arrived {
                guard let known = try KnownRecord.find(db, zone: zone.id, name: sent.name), !known.state.isInZone else {
                    continue
                }
                try RecordTable(db).superseded(known)
            }
        }
    }

    /// Encrypts unknown values again after the relay has moved them, because the new zone has another key.
    ///
    /// Known values are sent with the change that is created by the move.
    func reseal(in zoneMove: ShareMoves.ZoneMove, _ names: [String]) async throws {
        guard store.database.keys.isAvailable else { return }
        let (file, zone) = (file, zoneMove.to.zone)
        let copies = try await file.pool.read { db in
            try names.compactMap { name -> ClientRequest.Write? in
                let target = try KnownRecord.find(db, zone: zoneMove.to.id, name: name)
                guard let known = try target ?? KnownRecord.find(db, zone: zoneMove.from.id, name: name) else {
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
                writes.append(try await store.values.sealed(copy, in: zone))
            }
            for case .failed(let error, _) in try await store.client.modify(writes, in: zone, atomically: false)
            where error.syncFailure.isRetriedAutomatically || error.isServiceFailure || error.code == .quotaExceeded {
                throw error
            }
        }
    }
}

extension KnownRecord {
    /// The records of a zone that the model does not know and the relay no longer has.
    fileprivate static func unsent(_ db: Database, in zone: KnownZone) throws -> [KnownRecord] {
        let sql =
            "SELECT name FROM mirror_record WHERE zone = ? AND oid IS NULL AND state NOT IN \(RecordTable.inZone) ORDER BY id"
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
