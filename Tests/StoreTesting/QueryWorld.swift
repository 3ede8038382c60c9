package import Records
package import RelayCore
import Wire

/// A store with records of all field types, and the same records in memory to compare results with.
package final class QueryWorld {
    /// Runs a read that pages through a query, and returns the number of examined records if the store counts them.
    package typealias CountedQuery = (
        (any StoreReader) throws(RelayError) -> QueryPage
    ) async throws -> (page: QueryPage, examined: Int)

    /// A page that has too many records, or too few although another one follows.
    package struct WrongPage: Error {
        package let query: Query
        package let count: Int
    }

    package let store: any Store
    package let user = UserID("_00000000000000000000000000000001")
    package private(set) var records: [RecordID: StoredRecord] = [:]
    package private(set) var zones: [ZoneID] = []
    /// The maximum size of a page.
    package var bytes = Int.max
    private let query: CountedQuery

    package static let type = RecordType(fields: [
        "title": .init(.scalar(.string)), "count": .init(.scalar(.int64)), "ratio": .init(.scalar(.double)),
        "due": .init(.scalar(.timestamp)), "blob": .init(.scalar(.bytes)), "owner": .init(.scalar(.reference)),
        "spot": .init(.scalar(.location)), "tags": .init(.list(.string)), "numbers": .init(.list(.int64)),
        "note": .init(.scalar(.string)), "spots": .init(.list(.location)), "words": .init(.scalar(.string)),
    ])

    /// Works on a store whose tuning is one of the constants below.
    package init(_ store: any Store, counting query: CountedQuery? = nil) {
        self.store = store
        self.query = query ?? { body in (try await store.query(body), 0) }
    }

    /// Takes over the records that another world has written to the same file.
    package func adopt(_ other: QueryWorld) {
        records = other.records
        zones = other.zones
    }

    package func makeZone(_ name: String) async throws {
        let id = ZoneID(name, owner: user)
        _ = try await store.write(touching: id.owner) { writer throws(RelayError) in
            if try writer.schema.types["Thing"] == nil {
                try writer.define(["Thing": Self.type, "Other": Self.type])
            }
            return try writer.makeZone(id, by: "phone")
        }
        zones.append(id)
    }

    /// Saves records, or deletes those without fields.
    package func put(_ changes: [(name: String, fields: [String: FieldValue]?)], in id: ZoneID, type: String = "Thing")
        async throws
    {
        let (user, now) = (user, Timestamp(milliseconds: Int64(records.count)))
        let written = try await store.write(touching: id.owner) { writer throws(RelayError) -> [StoredRecord] in
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let before = try writer.records(named: changes.map(\.name), in: zone)
            let stamp = StoredRecord.Stamp(at: now, by: user, device: DeviceFingerprint(bits: 1))
            let records = changes.map { change in
                StoredRecord(
                    name: change.name,
                    type: type,
                    change: writer.takeChangeNumber(),
                    created: before[change.name]?.created ?? stamp,
                    modified: stamp,
                    fields: FieldsJSON.encode((change.fields ?? [:]).map { .init(name: $0, value: $1) }),
                    isDeleted: change.fields == nil
                )
            }
            try writer.put(records, replacing: before, in: zone, by: "phone")
            return records
        }
        for record in written {
            records[RecordID(record.name, in: id)] = record.isDeleted || type != "Thing" ? nil : record
        }
    }

    /// Returns the results of all pages of a query, and the number of examined records.
    package func answer(_ query: Query, in ids: [ZoneID]? = nil, limit: Int = 7) async throws -> (
        names: [RecordID], examined: Int
    ) {
        var (names, examined): ([RecordID], Int) = ([], 0)
        var position: Query.Position?
        repeat {
            let (page, cost) = try await page(of: query, in: ids ?? zones, after: position, limit: limit)
            let isFull = page.records.count == limit || bytes < .max
            guard page.records.count <= limit, page.next == nil || isFull else {
                throw WrongPage(query: query, count: page.records.count)
            }
            names += page.records.map { RecordID($0.record.name, in: $0.zone) }
            examined += cost
            position = page.next
        } while position != nil
        return (names, examined)
    }

    /// Returns the first page of a query over all zones.
    package func firstPage(_ query: Query, limit: Int) async throws -> (names: [RecordID], examined: Int) {
        let (page, examined) = try await page(of: query, in: zones, after: nil, limit: limit)
        return (page.records.map { RecordID($0.record.name, in: $0.zone) }, examined)
    }

    private func page(
        of query: Query,
        in ids: [ZoneID],
        after position: Query.Position?,
        limit: Int
    ) async throws -> (page: QueryPage, examined: Int) {
        let bytes = bytes
        return try await self.query { reader throws(RelayError) in
            var found: [Zone] = []
            for id in ids { if let zone = try reader.zone(id) { found.append(zone) } }
            return try reader.page(of: query, in: found, after: position, limit: limit, bytes: bytes)
        }
    }

    /// Returns the expected result, by examining every record.
    package func expectation(_ query: Query, in ids: [ZoneID]? = nil) throws -> [RecordID] {
        let match = QueryMatch(query.filters, type: Self.type)
        let order = QueryOrder(query)
        var found: [Query.Position] = []
        for (id, record) in records where (ids ?? zones).contains(id.zone) {
            let values = try QueryValues(record, fields: Set(Self.type.fields.keys))
            guard match.matches(for: values) else { continue }
            found.append(.init(keys: order.keys(of: values), recordName: id.recordName, zone: id.zone))
        }
        return found.sorted { order.areInOrder($0, $1) }.map { RecordID($0.recordName, in: $0.zone) }
    }
}

/// A small reproducible random number generator.
package struct Dice: RandomNumberGenerator {
    private var state: UInt64

    package init(state: UInt64) { self.state = state }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    package mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
    package mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
    package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
}

extension QueryTuning {
    package static var indexesOnly: QueryTuning { patient(recordsWithoutIndex: 0) }

    package static var scansOnly: QueryTuning { patient(recordsWithoutIndex: .max) }

    /// Uses the strategies for large stores in a small one.
    package static var likeMany: QueryTuning {
        var tuning = indexesOnly
        tuning.fewEntries = 2
        tuning.manyEntries = 5
        return tuning
    }

    /// The speed of the machine must not matter.
    private static func patient(recordsWithoutIndex count: Int) -> QueryTuning {
        var tuning = QueryTuning()
        tuning.recordsWithoutIndex = count
        (tuning.longestRun, tuning.longestWait) = (.seconds(300), .seconds(300))
        return tuning
    }
}
