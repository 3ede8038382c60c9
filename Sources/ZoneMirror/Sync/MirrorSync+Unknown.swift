import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// Sending records and values that only a newer program knows.
///
/// See Sync.md, "Unknown records".
extension MirrorSync {
    /// Sends records of unknown types again after their zone was created again because its key was lost.
    func sendUnknown(_ tally: inout SendTally) async throws {
        guard link.isPrivate, try await file.pool.read({ try State.text($0, .hasUnsent) }) != nil else { return }
        for zone in try await file.pool.read({ try KnownZone.all($0) }) {
            let unsent = try await file.pool.read { try KnownRecord.unsent($0, in: zone) }
            guard !unsent.isEmpty, tally.error == nil, try await makeZone(zone.zone, for: [], &tally) else { continue }
            for start in stride(from: 0, to: unsent.count, by: limits.operations) where tally.error == nil {
                let part = unsent[start..<min(start + limits.operations, unsent.count)]
                try await sendUnknown(part, in: zone, &tally)
            }
        }
        guard tally.error == nil, tally.noSpace == nil, tally.heldZones.isEmpty else { return }
        try await file.pool.write { try State.set($0, .hasUnsent, nil) }
    }

    private func sendUnknown(
        _ part: ArraySlice<KnownRecord>,
        in zone: KnownZone,
        _ tally: inout SendTally
    ) async throws {
        let turnstile = exchange(zone.zone)
        await turnstile.enter()
        defer { turnstile.leave() }
        sends[zone.zone, default: 0] += 1
        var writes: [ClientRequest.Write] = []
        for known in part { writes.append(try await tally.link.sealed(known.copy(.create), in: zone.zone)) }
        var settled: [Int64] = []
        for (known, answer) in zip(part, try await tally.link.modify(writes, in: zone.zone, atomically: false)) {
            guard case .failed(let error, _) = answer, error.code != .serverRecordChanged else {
                settled.append(known.id)
                continue
            }
            // Records that the relay refuses permanently stay here for the program that knows them.
            if error.trouble.isRetriedAutomatically || error.isOfWay {
                tally.retryLater(error, in: zone.zone)
            } else if error.code == .quotaExceeded {
                tally.noSpace = tally.noSpace ?? error
            } else {
                settled.append(known.id)
                tally.error = tally.error ?? error
            }
        }
        tally.changedZones.insert(zone.zone)
        try await file.pool.write { [settled] db in
            for id in settled {
                try db.execute(
                    sql: "UPDATE mirror_record SET tag = ? WHERE id = ? AND tag IS NULL",
                    arguments: [KnownRecord.unseen, id]
                )
            }
        }
    }

    /// Encrypts unknown values again after the relay has moved them, because the new zone has another key.
    ///
    /// Known values are sent with the change that is created by the move.
    func sealUnknown(in departure: ShareMoves.Departure, _ names: [String]) async throws {
        guard link.database.hasEncryptionKey else { return }
        let (file, zone) = (file, departure.to.zone)
        let copies = try await file.pool.read { db in
            try names.compactMap { name -> ClientRequest.Write? in
                let target = try KnownRecord.find(db, zone: departure.to.id, name: name)
                guard let known = try target ?? KnownRecord.find(db, zone: departure.from.id, name: name) else {
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
                writes.append(try await link.sealed(copy, in: zone))
            }
            for case .failed(let error, _) in try await link.modify(writes, in: zone, atomically: false)
            where error.trouble.isRetriedAutomatically || error.isOfWay || error.code == .quotaExceeded { throw error }
        }
    }
}

extension KnownRecord {
    /// The records of a zone that the model does not know and the relay no longer has.
    fileprivate static func unsent(_ db: Database, in zone: KnownZone) throws -> [KnownRecord] {
        let sql = "SELECT name FROM mirror_record WHERE zone = ? AND oid IS NULL AND tag IS NULL ORDER BY id"
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
