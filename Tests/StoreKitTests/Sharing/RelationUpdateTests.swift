import Records
import RelayCore
import StoreKit
import Testing
import Wire

@Suite struct RelationUpdateTests {
    private let rows = MemorySharingRows()

    private func record(_ name: String, in parent: String? = nil, assets: [UInt8] = [], to target: String? = nil)
        throws -> StoredRecord
    {
        var fields: [FieldsJSON.Entry] = []
        for number in assets {
            let hash = try hash(number)
            let asset = Asset(fileChecksum: hash.checksum, size: Int64(number) * 10)
            fields.append(.init(name: "file\(number)", value: .asset(asset)))
        }
        if let target {
            fields.append(.init(name: "of", value: .reference(Reference(recordName: target, action: .deleteSelf))))
        }
        var record = rows.record(name, in: parent)
        record.fields = FieldsJSON.encode(fields)
        return record
    }

    private func hash(_ number: UInt8) throws -> AssetHash {
        try #require(AssetHash(Array(repeating: number, count: AssetHash.byteCount)))
    }

    /// Replaces records in one write; returns the growth of the zone's assets.
    private func put(_ records: [StoredRecord]) throws -> Int64 {
        rows.resetCalls()
        var update = RelationUpdate()
        for record in records {
            try update.add(record, replacing: rows.records[record.name], hasAssets: true)
            rows.records[record.name] = record
        }
        return try update.write(to: rows, zone: 1)
    }

    @Test("the references of all records are written together, and plain records cost nothing")
    func references() throws {
        #expect(try put([record("a"), record("b")]) == 0)
        #expect(rows.calls.isEmpty)
        _ = try put([record("c", in: "a"), record("d", in: "a", to: "b")])
        #expect(rows.references.count == 3 && rows.calls == ["insertReferences"])
        _ = try put([record("c", in: "b"), record("d", to: "b")])
        #expect(rows.calls == ["deleteReferences", "insertReferences"])
        #expect(
            rows.references == [.parent("b", of: "c"), StoredReference(.deleteSelf, to: "b", from: "d", field: "of")]
        )
    }

    @Test("an asset counts once in a zone, however many records use it")
    func assets() throws {
        #expect(try put([record("a", assets: [1, 2]), record("b", assets: [1])]) == 30)
        #expect(rows.calls == ["used", "insertUses"])
        #expect(try put([record("c", assets: [2])]) == 0)
        #expect(try put([record("a", assets: [3])]) == 30)
        #expect(try put([record("b"), record("c", assets: [2])]) == -10)
        #expect(rows.uses.count == 2)
    }

    @Test("an asset that goes from one record to another costs nothing, in either order", arguments: [false, true])
    func handedOver(_ isReversed: Bool) throws {
        _ = try put([record("a", assets: [1]), record("b")])
        let records = [try record("a"), try record("b", assets: [1])]
        #expect(try put(isReversed ? records.reversed() : records) == 0)
        #expect(rows.uses.map(\.name) == ["b"])
    }
}
