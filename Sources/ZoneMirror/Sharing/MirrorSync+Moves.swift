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
        guard conditions.relayMoves else {
            for departure in try await file.pool.read({ try ShareMoves.departures($0) }) {
                try await copyUnknown(departure)
            }
            return
        }
        for departure in try await file.pool.read({ try ShareMoves.departures($0) }) {
            for start in stride(from: 0, to: departure.names.count, by: Self.moveLimit) {
                var part = departure
                part.names = Array(departure.names[start..<min(start + Self.moveLimit, departure.names.count)])
                do throws(CKError) {
                    try await link.move(part.names, from: part.from.zone, to: part.to.zone)
                } catch {
                    guard !error.trouble.isRetriedAutomatically else { throw error }
                    try await copyUnknown(part)
                    continue
                }
                try conditions.crashPoint(.afterRelayMove)
                try await noteMoved(part, part.names)
            }
            await tellOthers([departure.from.zone, departure.to.zone])
        }
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
        for (zone, names) in originals {
            for start in stride(from: 0, to: names.count, by: 200) {
                let part = Array(names[start..<min(start + 200, names.count)])
                for answer in try await link.modify(part.map { .init(.forceDelete, $0) }, in: zone, atomically: false) {
                    if case .failed(let error, _) = answer, error.code != .unknownItem { throw error }
                }
                try conditions.crashPoint(.afterOriginalsGo)
                try await file.pool.write { try ShareMoves.finished($0, originals: part, in: zone) }
            }
            await tellOthers([zone])
        }
        for zone in zones {
            try await link.delete(zone)
            try conditions.crashPoint(.afterZoneGone)
            try await file.pool.write { try ShareMoves.finished($0, zone: zone) }
            feed.lost(zone)
            await tellOthers([zone])
        }
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
