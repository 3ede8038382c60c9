import Records
import RelayCore
import RelayStore
import StoreKit
import Synchronization
import Testing
import Wire

/// A store with records of all field types, and the same records in memory to compare results with.
final class QueryWorld {
    let store: SQLiteStore
    let user = UserID("_00000000000000000000000000000001")
    private(set) var records: [RecordID: StoredRecord] = [:]
    private(set) var zones: [ZoneID] = []
    /// The maximum size of a page.
    var bytes = Int.max

    static let type = RecordType(fields: [
        "title": .init(.scalar(.string)), "count": .init(.scalar(.int64)), "ratio": .init(.scalar(.double)),
        "due": .init(.scalar(.timestamp)), "blob": .init(.scalar(.bytes)), "owner": .init(.scalar(.reference)),
        "spot": .init(.scalar(.location)), "tags": .init(.list(.string)), "numbers": .init(.list(.int64)),
        "note": .init(.scalar(.string)), "spots": .init(.list(.location)), "words": .init(.scalar(.string)),
    ])

    /// By default, every query uses indexes.
    init(_ place: SQLiteStore.Place = .memory, tuning: QueryTuning = .indexesOnly) throws {
        let drawn = Mutex(UInt64(7))
        var tuning = tuning
        // The speed of the machine must not matter.
        (tuning.longestRun, tuning.longestWait) = (.seconds(300), .seconds(300))
        store = try SQLiteStore(
            place,
            draw: {
                drawn.withLock {
                    $0 += 1; return $0
                }
            },
            tuning: tuning
        )
    }

    /// Takes over the records that another world has written to the same file.
    func adopt(_ other: QueryWorld) {
        records = other.records
        zones = other.zones
    }

    func makeZone(_ name: String) async throws {
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
    func put(_ changes: [(name: String, fields: [String: FieldValue]?)], in id: ZoneID, type: String = "Thing")
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
    func answer(_ query: Query, in ids: [ZoneID]? = nil, limit: Int = 7) async throws -> (
        names: [RecordID], examined: Int
    ) {
        var (names, examined): ([RecordID], Int) = ([], 0)
        var position: Query.Position?
        repeat {
            let (from, bytes) = (position, bytes)
            let (page, cost) = try await store.countedQuery { reader throws(RelayError) in
                var found: [Zone] = []
                for id in ids ?? zones { if let zone = try reader.zone(id) { found.append(zone) } }
                return try reader.page(of: query, in: found, after: from, limit: limit, bytes: bytes)
            }
            #expect(page.records.count <= limit)
            #expect(page.next == nil || page.records.count == limit || bytes < .max)
            names += page.records.map { RecordID($0.record.name, in: $0.zone) }
            examined += cost
            position = page.next
        } while position != nil
        return (names, examined)
    }

    /// Returns the first page of a query over all zones.
    func firstPage(_ query: Query, limit: Int) async throws -> (names: [RecordID], examined: Int) {
        let (ids, bytes) = (zones, bytes)
        let (page, examined) = try await store.countedQuery { reader throws(RelayError) in
            var found: [Zone] = []
            for id in ids { if let zone = try reader.zone(id) { found.append(zone) } }
            return try reader.page(of: query, in: found, after: nil, limit: limit, bytes: bytes)
        }
        return (page.records.map { RecordID($0.record.name, in: $0.zone) }, examined)
    }

    /// Returns the expected result, by examining every record.
    func expectation(_ query: Query, in ids: [ZoneID]? = nil) throws -> [RecordID] {
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
struct Dice: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
    mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
}

extension QueryTuning {
    static var indexesOnly: QueryTuning {
        var tuning = QueryTuning()
        tuning.recordsWithoutIndex = 0
        return tuning
    }

    static var scansOnly: QueryTuning {
        var tuning = QueryTuning()
        tuning.recordsWithoutIndex = .max
        return tuning
    }

    /// Uses the strategies for large stores in a small one.
    static var likeMany: QueryTuning {
        var tuning = indexesOnly
        tuning.fewEntries = 2
        tuning.manyEntries = 5
        return tuning
    }
}
