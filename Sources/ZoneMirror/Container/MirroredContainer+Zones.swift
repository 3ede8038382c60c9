import Foundation
import GRDB
import Records
import SyncCore
import ZoneKit

/// One zone as stored, for programs that show the progress of a mirror, such as the demo.
package struct MirroredZone: Sendable {
    package var name: String
    package var ownerName: String
    /// The relay's change token; `nil` before the first fetch.
    package var token: String?
    /// The names of the objects with a record in the zone; objects that were never sent are in no zone yet.
    package var objects: Set<String>
}

extension MirroredContainer {
    /// Returns the zones that a store knows to be on the relay, with their objects, without a request.
    package func zones(in store: StoreID) async throws(MirrorError) -> [MirroredZone] {
        try await reading(store) { db in
            var objects: [Int64: Set<String>] = [:]
            let records = try Row.fetchCursor(db, sql: "SELECT zone, oid FROM mirror_record WHERE oid IS NOT NULL")
            while let row = try records.next() { objects[row[0], default: []].insert(row[1]) }
            return try KnownZone.all(db).filter(\.isThere).map { known in
                MirroredZone(
                    name: known.zone.zoneName,
                    ownerName: known.zone.owner.recordName,
                    token: known.token,
                    objects: objects[known.id] ?? []
                )
            }
        }
    }

    /// Returns the time until a public store's next poll; `nil` during a poll and for other stores.
    package func untilNextPoll(of store: StoreID) async -> Duration? {
        guard let next = await sync(store)?.poll.nextPoll else { return nil }
        return max(.zero, next - conditions.time.now())
    }

    /// Returns the values that automatic merges have dropped since decision number `last`, oldest first, with their
    /// numbers.
    package func mergeDecisions(
        in store: StoreID,
        after last: Int64
    ) async throws(MirrorError) -> [(number: Int64, object: String, property: String)] {
        try await reading(store) { db in
            let sql = "SELECT id, oid, property FROM mirror_decision WHERE id > ? ORDER BY id"
            return try Row.fetchAll(db, sql: sql, arguments: [last]).map { ($0[0], $0[1], $0[2]) }
        }
    }
}
