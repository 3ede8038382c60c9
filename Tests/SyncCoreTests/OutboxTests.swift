import Records
import SyncCore
import Testing

@Suite struct OutboxTests {
    @Test func theLastOperationPerRecordWins() {
        var outbox = Outbox()
        outbox.add(.save, record("a"))
        outbox.add(.delete, record("a"))
        #expect(outbox.pending.map(\.operation) == [.delete])
        outbox.add(.save, record("a"))
        #expect(outbox.pending.map(\.operation) == [.save])
    }

    @Test func aRecordEditedTwiceKeepsItsPlaceBeforeItsChild() {
        var outbox = Outbox()
        for name in ["parent", "child", "parent"] { outbox.add(.save, record(name)) }
        #expect(outbox.pending.map(\.id.recordName) == ["parent", "child"])
    }

    @Test func anotherOperationMovesARecordToTheEnd() {
        var outbox = Outbox()
        outbox.add(.save, record("a"))
        outbox.add(.save, record("b"))
        outbox.add(.delete, record("a"))
        #expect(outbox.pending.map(\.id.recordName) == ["b", "a"])
    }

    @Test func confirmationClearsOnlyTheVersionSent() {
        var outbox = Outbox()
        outbox.add(.save, record("a"))
        let sent = outbox.version
        outbox.add(.save, record("a"))
        outbox.confirmed(record("a"), version: sent)
        #expect(outbox.count == 1, "an edit made while the first is being sent must stay")
        outbox.confirmed(record("a"), version: outbox.version)
        #expect(outbox.isEmpty)
    }

    /// Compares random operations with a model.
    @Test func pendingOperationsKeepTheirOrder() {
        var (outbox, model, random) = (Outbox(), [(id: RecordID, operation: Outbox.Operation)](), SeededRandom(seed: 7))
        for _ in 0..<5_000 {
            let id = record("r\(Int.random(in: 0..<200, using: &random))")
            let operation: Outbox.Operation = Bool.random(using: &random) ? .save : .delete
            if Int.random(in: 0..<3, using: &random) == 0 {
                outbox.confirmed(id, version: outbox.version)
                model.removeAll { $0.id == id }
            } else if !model.contains(where: { $0.id == id && $0.operation == operation }) {
                outbox.add(operation, id)
                model.removeAll { $0.id == id }
                model.append((id, operation))
            }
        }
        #expect(outbox.pending.map(\.id) == model.map(\.id))
        #expect(outbox.pending.map(\.operation) == model.map(\.operation))
    }

    @Test func removingAffectsOnlyTheSameOperation() {
        var outbox = Outbox()
        outbox.add(.delete, record("a"))
        outbox.remove(.save, record("a"))
        #expect(outbox.count == 1)
        outbox.remove(.delete, record("a"))
        #expect(outbox.isEmpty)
    }
}

@Suite struct BatchLimitsTests {
    @Test(arguments: [
        (sizes: Array(repeating: 300, count: 444), split: [200, 200, 44]),
        (sizes: [1_500_000, 400_000, 200_000, 1], split: [2, 2]),
        (sizes: [3_000_000, 10], split: [1, 1]),
        (sizes: [], split: []),
    ])
    func batchesAreLimitedByOperationsAndBytes(_ row: (sizes: [Int], split: [Int])) {
        #expect(BatchLimits().split(row.sizes) { $0 }.map(\.count) == row.split)
    }

    @Test func limitsAreHalvedWhenExceededAndRecover() {
        var limits = BatchLimits()
        limits.exceeded(by: 120)
        #expect(limits.operations == 60)
        #expect(limits.bytes == 1_000_000)
        for _ in 0..<10 { limits.exceeded(by: limits.operations) }
        #expect(limits.operations == 1, "the minimum is one operation")
        for _ in 0..<20 { limits.accepted() }
        #expect(limits == BatchLimits())
    }
}

@Suite struct MergeTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var base: [String: Int]
        var mine: [String: Int]
        var theirs: [String: Int]
        var mineWins: [String: Int]
        var theirsWins: [String: Int]
        var lost: [String] = []
    }

    static let rows = [
        // The worked example of Sync.md, "Merging".
        Row(
            testDescription: "both changed b, each one other",
            base: ["a": 1, "b": 1, "c": 1],
            mine: ["a": 2, "b": 2, "c": 1],
            theirs: ["a": 1, "b": 3, "c": 3],
            mineWins: ["a": 2, "b": 2, "c": 3],
            theirsWins: ["a": 2, "b": 3, "c": 3],
            lost: ["b"]
        ),
        Row(
            testDescription: "the same new value is no conflict",
            base: ["a": 1],
            mine: ["a": 2],
            theirs: ["a": 2],
            mineWins: ["a": 2],
            theirsWins: ["a": 2]
        ),
        Row(
            testDescription: "cleared here, untouched there",
            base: ["a": 1, "b": 1],
            mine: ["b": 1],
            theirs: ["a": 1, "b": 1],
            mineWins: ["b": 1],
            theirsWins: ["b": 1]
        ),
        Row(
            testDescription: "cleared here, changed there",
            base: ["a": 1],
            mine: [:],
            theirs: ["a": 2],
            mineWins: [:],
            theirsWins: ["a": 2],
            lost: ["a"]
        ),
    ]

    @Test(arguments: rows) func recordsAreMergedByField(_ row: Row) {
        let mine = Merge.fields(base: row.base, mine: row.mine, theirs: row.theirs, preferring: .mine)
        let theirs = Merge.fields(base: row.base, mine: row.mine, theirs: row.theirs, preferring: .theirs)
        #expect(mine == Merge.Outcome(fields: row.mineWins, lost: row.lost))
        #expect(theirs == Merge.Outcome(fields: row.theirsWins, lost: row.lost))
    }
}

@Suite struct BackoffTests {
    @Test func ceilingsDoubleUpToTheMaximum() {
        var random = SeededRandom(seed: 1)
        var backoff = Backoff.requests
        var ceilings: [Duration] = []
        for _ in 0..<11 {
            ceilings.append(backoff.ceiling)
            let ceiling = backoff.ceiling
            let wait = backoff.failed(using: &random)
            #expect(wait >= .zero && wait <= ceiling)
        }
        #expect(ceilings == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map { .seconds($0) })
        backoff.succeeded()
        #expect(backoff.ceiling == .seconds(1))
    }

    @Test func aThousandFailuresDoNotOverflow() {
        var random = SeededRandom(seed: 2)
        var backoff = Backoff.socket
        for _ in 0..<1000 { _ = backoff.failed(using: &random) }
        #expect(backoff.ceiling == .seconds(60))
    }

    @Test func jitterCoversTheWholeRange() {
        var random = SeededRandom(seed: 3)
        let waits = (0..<200).map { _ in
            var backoff = Backoff.requests
            return backoff.failed(using: &random).inSeconds
        }
        #expect(waits.contains { $0 < 0.1 })
        #expect(waits.contains { $0 > 0.9 })
    }
}
