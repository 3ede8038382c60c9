import GRDB
import Records
import RelayCore
import SQLiteStore
import Testing

/// The rows that a store keeps of repeated and signed requests.
@Suite struct IdempotencyRecordTests {
    private let user = UserID("_00000000000000000000000000000001")

    private func store(keepingRecords count: Int = 65_536) throws -> SQLiteStore {
        try SQLiteStore(.memory, draw: { 7 }, idempotencyRecordLimit: count)
    }

    private func keep(_ ids: some Sequence<Int> & Sendable, in store: SQLiteStore) async throws {
        let user = user
        try await store.write(touching: user) { writer throws(RelayError) in
            for id in ids {
                try writer.keep(
                    IdempotencyRecord(fingerprint: UInt64(id), completedOperations: [1]),
                    as: "w\(id)",
                    by: user
                )
            }
        }
    }

    @Test func eachPlaceIsOneBit() {
        var done = IdempotencyRecord(fingerprint: 1)
        for place in [0, 7, 8, 199] { done.insert(place) }
        #expect((0..<256).filter { done.contains($0) } == [0, 7, 8, 199])
        #expect(done.completedOperations.count == 25)
    }

    @Test func theOldestOutcomesAreRemoved() async throws {
        let store = try store(keepingRecords: 50)
        for id in 1...400 { try await keep(id...id, in: store) }
        let rows = try await store.idempotencyRecordCount()
        #expect(rows <= 150, "two generations, and the rest of a third that is being removed")
    }

    @Test func expiredSignaturesAreRemoved() async throws {
        let store = try store()
        for number in Int64(0)..<400 {
            let signature = UsedSignature(
                fingerprint: UInt128(number),
                signed: Timestamp(milliseconds: number),
                oldest: Timestamp(milliseconds: number - 100)
            )
            #expect(try await store.write(touching: user) { writer throws(RelayError) in try writer.keep(signature) })
        }
        #expect(try await store.signedWriteCount() == 101)
    }
}
