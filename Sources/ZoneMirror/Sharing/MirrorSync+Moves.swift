import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

extension MirrorSync {
    /// As many records as one request moves.
    private static let moveLimit = 5_000

    /// Lets the relay move what is to stand in another zone.
    ///
    /// Quiet where it cannot: then copies are sent, and the originals deleted when those have arrived. Throws only what will
    /// be otherwise later.
    func moveOnRelay() async throws {
        guard link.isPrivate else { return }
        for isLast in [false, true] {
            var isRefused = false
            for departure in try await file.pool.read({ try ShareMoves.departures($0) }) {
                if conditions.relayMoves, try await move(departure) { continue }
                isRefused = true
                if isLast || !conditions.relayMoves { try await copyUnknown(departure) }
            }
            guard isRefused, conditions.relayMoves, !isLast else { return }
            // Something of it was deleted or moved elsewhere, or there is no such call.
            try await fetch(asksDatabase: true, held: [], prioritized: [])
        }
    }

    /// Moves some records; `false` where the relay refuses that for good.
    private func move(_ departure: ShareMoves.Departure) async throws -> Bool {
        let (from, to) = (departure.from.zone, departure.to.zone)
        for start in stride(from: 0, to: departure.names.count, by: Self.moveLimit) {
            let part = Array(departure.names[start..<min(start + Self.moveLimit, departure.names.count)])
            // No page that was read before is written after.
            for zone in [from, to] {
                await exchange(zone).enter()
                sends[zone, default: 0] += 1
            }
            defer { for zone in [from, to] { exchange(zone).leave() } }
            do throws(CKError) {
                try await link.move(part, from: from, to: to)
            } catch {
                guard !error.trouble.isRetriedAutomatically else { throw error }
                return false
            }
            try conditions.crashPoint(.afterRelayMove)
            try await noteMoved(departure, part)
        }
        await tellOthers([from, to])
        return true
    }

    private func noteMoved(_ departure: ShareMoves.Departure, _ names: [String]) async throws {
        let file = file
        try await file.pool.write { try ShareMoves.moved($0, departure, names, file: file) }
        feed.wrote(departure.to.zone)
    }

    /// Sends copies of records that the model does not know; all others go by the line.
    private func copyUnknown(_ departure: ShareMoves.Departure) async throws {
        let unknown = try await file.pool.read { db in
            try departure.names.compactMap { try KnownRecord.find(db, zone: departure.from.id, name: $0) }
                .filter { $0.oid == nil }
        }
        for start in stride(from: 0, to: unknown.count, by: BatchLimits.maxOperations) {
            let part = unknown[start..<min(start + BatchLimits.maxOperations, unknown.count)]
            let writes = part.map { known in
                let fields = known.allFields().filter { !$0.value.type.isAsset }.mapValues { Optional($0) }
                return ClientRequest.Write(.forceReplace, known.name, recordType: known.type, fields: fields)
            }
            let answers = try await link.modify(writes, in: departure.to.zone, atomically: false)
            let arrived = zip(part, answers).compactMap { known, answer in
                if case .saved = answer { known.name } else { nil }
            }
            try await noteMoved(departure, arrived)
        }
    }

    /// Deletes what has moved away, once its copies are there.
    func finishMoves() async throws {
        let (originals, zones) = try await file.pool.read { try ShareMoves.due($0) }
        if !originals.isEmpty { try conditions.crashPoint(.beforeOriginalsGo) }
        var hasNews = false
        for (zone, originals) in originals {
            for start in stride(from: 0, to: originals.count, by: 200) {
                let part = originals[start..<min(start + 200, originals.count)]
                let gone = try await delete(part, in: zone)
                hasNews = hasNews || gone.count < part.count
                try conditions.crashPoint(.afterOriginalsGo)
                try await file.pool.write { try ShareMoves.finished($0, originals: gone, in: zone) }
            }
            await tellOthers([zone])
        }
        // Somebody has written to an original since it was copied: with the next fetch its object gets that.
        if hasNews { tell(.noticed(nil)) }
        for zone in zones {
            try await link.delete(zone)
            try conditions.crashPoint(.afterZoneGone)
            try await file.pool.write { try ShareMoves.finished($0, zone: zone) }
            feed.lost(zone)
            await tellOthers([zone])
        }
    }

    /// Deletes originals as they were when they were copied; returns the names of those that are gone.
    private func delete(_ originals: ArraySlice<ShareMoves.Original>, in zone: ZoneID) async throws -> [String] {
        let writes = originals.map { original in
            ClientRequest.Write(original.tag == nil ? .forceDelete : .delete, original.name, changeTag: original.tag)
        }
        var gone: [String] = []
        for (write, answer) in zip(writes, try await link.modify(writes, in: zone, atomically: false)) {
            switch answer {
            case .failed(let error, _) where error.code == .serverRecordChanged: break
            case .failed(let error, _) where error.code != .unknownItem: throw error
            default: gone.append(write.recordName)
            }
        }
        return gone
    }

    /// Moves objects into another zone of this user, in the store alone; the next round sends it.
    func rebind(_ objects: [ObjectID], to zone: ZoneID, dropping old: ZoneID? = nil) async throws {
        let (file, crash) = (file, conditions.crashPoint)
        try await withSendLane {
            try await file.pool.write { db in
                let target = try KnownZone.make(db, zone)
                try ShareMoves.rebind(db, objects, to: target.id, file: file)
                if let old, let known = try KnownZone.find(db, old) {
                    try ShareMoves.drop(db, zone: known.id, to: target.id)
                }
                try crash(.insideMove)
            }
            try crash(.afterMove)
        }
    }
}
