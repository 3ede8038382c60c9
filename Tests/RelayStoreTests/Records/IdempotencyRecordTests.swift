import GRDB
import Records
import RelayCore
import RelayStore
import Testing

/// The store's memory of writes that may be repeated.
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

    private func isKnown(_ id: Int, in store: SQLiteStore) async throws -> Bool {
        let user = user
        return try await store.write(touching: user) { writer throws(RelayError) in
            try writer.idempotencyRecord("w\(id)", by: user)?.fingerprint == UInt64(id)
        }
    }

    @Test func eachPlaceIsOneBit() {
        var done = IdempotencyRecord(fingerprint: 1)
        for place in [0, 7, 8, 199] { done.insert(place) }
        #expect((0..<256).filter { done.contains($0) } == [0, 7, 8, 199])
        #expect(done.completedOperations.count == 25)
    }

    @Test func anOutcomeIsFoundByUserAndOperationID() async throws {
        let store = try store()
        try await keep(1...3, in: store)
        #expect(try await isKnown(2, in: store))
        #expect(try await !isKnown(4, in: store))
        let other = UserID("_00000000000000000000000000000002")
        let theirs = try await store.write(touching: other) { writer throws(RelayError) in
            try writer.idempotencyRecord("w2", by: other)
        }
        #expect(theirs == nil)
    }

    @Test func theOldestOutcomesAreForgottenAndRemoved() async throws {
        let store = try store(keepingRecords: 50)
        for id in 1...400 {
            try await keep(id...id, in: store)
            let oldest = max(1, id - 49)
            #expect(try await isKnown(oldest, in: store), "\(oldest) after \(id)")
        }
        #expect(try await !isKnown(1, in: store))
        let rows = try await store.idempotencyRecordCount()
        #expect(rows <= 150, "two generations, and the rest of a third that is being removed")
    }

    @Test func aLaterOutcomeReplacesAnEarlierOne() async throws {
        let store = try store()
        try await keep(1...1, in: store)
        let user = user
        let found = try await store.write(touching: user) { writer throws(RelayError) in
            try writer.keep(IdempotencyRecord(fingerprint: 1, completedOperations: [3]), as: "w1", by: user)
            return try writer.idempotencyRecord("w1", by: user)
        }
        #expect(found == IdempotencyRecord(fingerprint: 1, completedOperations: [3]))
    }
}
