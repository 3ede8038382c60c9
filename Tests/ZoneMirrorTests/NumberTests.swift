import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

private struct Gauge: SyncedRecord {
    var id = RecordName()
    var least = Double.infinity
    var most: Double?
    var count: UInt64 = 0
    var lowest: UInt64 = .max
    var former: UInt64?
    var width: CGFloat = 1
    var read = Date(timeIntervalSince1970: 0)
}

/// Numbers stored in records, and numbers that records cannot hold.
@Suite(.timeLimit(.minutes(15))) struct NumberTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func gauges(_ name: String) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), model: MirrorModel(Gauge.self))
    }

    @Test func allKindsOfNumbersAreSynced() async throws {
        let (phone, laptop) = (try await gauges("phone"), try await gauges("laptop"))
        let read = Date(timeIntervalSince1970: 1_700_000_000)
        let gauge = Gauge(id: "g", least: 0.5, most: 7, count: UInt64(Int64.max), width: 2.5, read: read)
        try save(gauge, phone)
        try await phone.sync()
        try await laptop.sync()
        let found = try #require(try laptop.context().object(Gauge.self, "g"))
        #expect(found.least == 0.5 && found.most == 7 && found.count == UInt64(Int64.max))
        #expect(found.width == 2.5 && found.read == read)
        // A default that no field can hold is sent as a missing field.
        let context = laptop.context()
        try context.edit(Gauge.self, "g") { $0.least = .infinity }
        try context.save()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try phone.context().object(Gauge.self, "g")?.least == .infinity)
    }

    @Test func aNumberThatNoRecordCanHoldIsRejected() async throws {
        let phone = try await gauges("phone")
        let wrong: [(Gauge, String)] = [
            (Gauge(id: "g", most: .infinity), "its property most is inf"),
            (Gauge(id: "g", least: .nan), "its property least is nan"),
            (Gauge(id: "g", count: .max), "its property count is 18446744073709551615"),
            (Gauge(id: "g", count: UInt64(Int64.max) + 1), "its property count is 9223372036854775808"),
            (Gauge(id: "g", former: .max), "its property former is 18446744073709551615"),
            (Gauge(id: "g", lowest: .max - 1), "its property lowest is 18446744073709551614"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: 1e17)), "its property read is a date beyond all times"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: -1e300)), "its property read is a date beyond all times"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: .nan)), "its property read is a date beyond all times"),
        ]
        for (gauge, words) in wrong {
            let error = #expect(throws: MirrorError.self) { try save(gauge, phone) }
            #expect(error?.explanation.contains(words) == true, "\(error?.explanation ?? "no error")")
        }
        #expect(try phone.context().object(Gauge.self, "g") == nil)
    }

    @Test("a default that no record can hold is read unchanged and omitted from records")
    func aDefaultThatNoRecordCanHoldIsKept() async throws {
        let (phone, laptop) = (try await gauges("phone"), try await gauges("laptop"))
        try save(Gauge(id: "g", most: 7), phone)
        for mirror in [phone, laptop] { try await mirror.sync() }
        let context = laptop.context()
        try context.edit(Gauge.self, "g") { $0.count = 3 }
        try context.save()
        for mirror in [laptop, phone] {
            try await mirror.sync()
            let found = try #require(try mirror.context().object(Gauge.self, "g"))
            #expect(found.lowest == .max && found.most == 7 && found.count == 3 && found.least == .infinity)
            let words = try await mirror.container.explain(.init(store: mirror.store, entity: "Gauge", name: "g"))
            #expect(!words.reason.contains("cannot read"))
        }
        try context.edit(Gauge.self, "g") { $0.lowest = UInt64(Int64.max) }
        try context.save()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try phone.context().object(Gauge.self, "g")?.lowest == UInt64(Int64.max))
    }

    @Test("a condition compares with numbers that no column can hold")
    func conditionsCompareWithHugeNumbers() async throws {
        let phone = try await gauges("phone")
        try save(Gauge(id: "g", count: UInt64(Int64.max)), phone)
        let context = phone.context()
        #expect(try context.fetch(Gauge.self, \.count == UInt64.max).isEmpty)
        #expect(try context.fetch(Gauge.self, \.count == UInt64(Int64.max) + 1).isEmpty)
        #expect(try context.fetch(Gauge.self, \.count == UInt64(Int64.max)).count == 1)
        #expect(try context.fetch(Gauge.self, \.count < UInt64(Int64.max) + 1).count == 1)
        #expect(try context.fetch(Gauge.self, \.count >= UInt64.max).isEmpty)
    }

    private func save(_ gauge: Gauge, _ mirror: Mirrored) throws {
        let context = mirror.context()
        try context.insert(gauge)
        try context.save()
    }
}
