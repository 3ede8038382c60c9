import Records
import RelayCore
import StoreTesting
import Testing

/// Storage use, assets in use, and transfers, which quotas are computed from.
@Suite struct StorageTests {
    private let store: any Store

    init() async throws {
        store = try TestStore.current.makeHome().store()
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Photo": RecordType(fields: ["files": .init(.list(.asset))])])
        }
        try await store.makeZone()
    }

    private func hash(_ number: UInt8) -> AssetHash {
        guard let hash = AssetHash(Array(repeating: number, count: AssetHash.byteCount)) else {
            preconditionFailure("enough bytes")
        }
        return hash
    }

    /// A record with assets, each of 100 times its number in bytes.
    private func photo(_ name: String, _ assets: [UInt8]) -> Draft {
        var draft = Draft(name)
        draft.type = "Photo"
        let values = assets.map { FieldValue.asset(Asset(fileChecksum: hash($0).checksum, size: Int64($0) * 100)) }
        draft.fields["files"] = .list(.asset, values)
        return draft
    }

    private func use(of owner: UserID = .alice) async throws -> StorageUse {
        let read = try store.look { try $0.storageUse(of: owner) }
        let written = try await store.write(touching: owner) { writer throws(RelayError) in
            try writer.storageUse(of: owner)
        }
        #expect(read == written)
        return read
    }

    @Test("a record uses 100 bytes more than its name and fields, until it is deleted") func records() async throws {
        #expect(try await use() == StorageUse())
        let saved = try await store.put([Draft("\u{E9}", title: "milk"), Draft("b")])
        let bytes = saved.map { Int64(100 + $0.name.utf8.count + $0.fields.count) }
        #expect(try await use() == StorageUse(records: bytes[0] + bytes[1], assets: 0))
        try await store.put([.deleted("b")])
        #expect(try await use() == StorageUse(records: bytes[0], assets: 0))
        let longer = try await store.put([Draft("\u{E9}", title: "milk and bread")])[0]
        #expect(try await use().records == Int64(102 + longer.fields.count))
        let use = try await use()
        #expect(try store.zone()?.use == use)
    }

    @Test("an asset counts once in each zone, however many records use it") func assets() async throws {
        try await store.put([photo("a", [1, 2]), photo("b", [2, 3])])
        #expect(try await use().assets == 600)
        let other = ZoneID("Other", owner: .alice)
        try await store.makeZone(other)
        try await store.put([photo("a", [2])], in: other)
        #expect(try await use().assets == 800)
        try await store.put([.deleted("a")])
        #expect(try await use().assets == 700)
        try await store.deleteZone(other)
        #expect(try await use().assets == 500)
        try await store.deleteZone(.notes)
        #expect(try await use() == StorageUse())
    }

    @Test("owners' storage is counted apart") func owners() async throws {
        try await store.put([photo("a", [1])])
        try await store.put([photo("a", [2])], in: .common)
        try await store.makeZone(ZoneID("Notes", owner: .bob))
        #expect(try await use().assets == 100)
        #expect(try await use(of: Zone.publicOwner).assets == 200)
        for user in [UserID.bob, UserID("_nobody")] { #expect(try await use(of: user) == StorageUse()) }
    }

    @Test("a write that the store cannot carry out does not change the totals") func failedWrite() async throws {
        try await store.put([photo("a", [1])])
        let before = try await use()
        await #expect(throws: RelayError.self) {
            try await store.write(touching: .alice) { writer throws(RelayError) in
                guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
                try writer.put([Draft("b").record(writer.takeChangeNumber())], replacing: [:], in: zone, by: "")
                // A second zone of the name.
                _ = try writer.makeZone(zone.id, by: "")
            }
        }
        #expect(try await use() == before)
        #expect(try store.feed() == ["a"])
    }

    @Test("uses of an asset are counted up to two") func assetUses() async throws {
        try await store.put([photo("a", [1, 2]), photo("b", [2, 3]), photo("c", [2])])
        let zone = try #require(try store.zone())
        let uses = try store.look { try $0.assetUses(of: [hash(1), hash(2), hash(9)], in: zone) }
        #expect(uses[hash(1)] == 1 && uses[hash(2)] == 2 && uses[hash(9)] ?? 0 == 0)
        try await store.put([.deleted("b"), photo("c", [])])
        let later = try store.look { try $0.assetUses(of: [hash(2), hash(3)], in: zone) }
        #expect(later[hash(2)] == 1 && later[hash(3)] ?? 0 == 0)
    }

    @Test("the transfers of a month add up") func transfers() async throws {
        let month = CalendarMonth(number: 24_000)
        for bytes in [5, 7] as [Int64] {
            try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                try writer.addTransfer(bytes, in: month)
            }
        }
        #expect(try store.look { try $0.transfer(in: month) } == 12)
        #expect(try store.look { try $0.transfer(in: month.next) } == 0)
    }
}
