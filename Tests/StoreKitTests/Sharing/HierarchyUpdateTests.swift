import Records
import RelayCore
import StoreKit
import Testing

@Suite struct HierarchyUpdateTests {
    private let rows = MemorySharingRows()

    /// Shares a list with two levels below it, beside a record that is not shared; returns the share.
    private func list() throws -> Int64 {
        try rows.put([rows.record("list"), rows.record("item", in: "list"), rows.record("part", in: "item")])
        try rows.put([rows.record("other")])
        return try rows.share("list")
    }

    @Test("a new hierarchy gets the records below its root, at their own change numbers")
    func newHierarchy() throws {
        let share = try list()
        #expect(rows.names(in: share) == ["list", "item", "part"])
        #expect(rows.entries[share]?["part"]?.change == rows.records["part"]?.change)
        #expect(rows.entries[share]?["part"]?.record == nil)
        #expect(rows.shareRows[share]?.lastChange == rows.records["list"]?.change)
    }

    @Test("a save of any number of records reads the covers once and writes the entries once")
    func callsOfASave() throws {
        let share = try list()
        let records = (0..<50).map { rows.record("n\($0)", in: "part") }
        let update = try rows.put(records)
        #expect(rows.calls == ["covers", "writeEntries", "advance", "aliasesShowing"])
        #expect(update.latest == [share: records[49].change])
        #expect(update.changes[records[7].change] == HierarchyChange(before: nil, after: share))
        try rows.put(records.map { rows.record($0.name, in: "part") })
        #expect(rows.calls == ["covers", "writeEntries", "advance"])
        #expect(rows.names(in: share).count == 53)
    }

    @Test("a chain of new records is covered whatever the order in which they are put")
    func chain() throws {
        let share = try list()
        let records = [rows.record("c", in: "b"), rows.record("a", in: "part"), rows.record("b", in: "a")]
        try rows.put(records)
        #expect(rows.names(in: share).isSuperset(of: ["a", "b", "c"]))
    }

    @Test("records outside of hierarchies have no entries")
    func outside() throws {
        _ = try list()
        let update = try rows.put([rows.record("other"), rows.record("more", in: "other")])
        #expect(update.latest.isEmpty)
        #expect(rows.calls == ["covers"])
    }

    @Test("a branch enters with its top, each record at a position of its own; one call reads each level")
    func branchEnters() throws {
        let share = try list()
        try rows.put((0..<30).map { rows.record("b\($0)", in: "other") })
        try rows.put((0..<30).map { rows.record("c\($0)", in: "b\($0)") })
        let before = try #require(rows.records["c3"]?.change)
        let top = rows.record("other", in: "list")
        let update = try rows.put([top])
        #expect(rows.names(in: share).count == 64)
        #expect(rows.calls.count { $0 == "children" } == 3)
        let entry = try #require(rows.entries[share]?["c3"])
        #expect(entry.change > top.change && entry.record == before)
        let positions = rows.entries[share]?.values.map(\.change) ?? []
        #expect(Set(positions).count == positions.count)
        #expect(update.moved.count == 60)
        #expect(update.moved.allSatisfy { $0.change == HierarchyChange(before: nil, after: share) })
        #expect(update.latest[share] == positions.max())
    }

    @Test("a branch that the owner takes out is out of sight, at new positions and with its type")
    func branchLeaves() throws {
        let share = try list()
        let top = rows.record("item", in: nil)
        try rows.put([top])
        #expect(rows.names(in: share) == ["list"])
        let entry = try #require(rows.entries[share]?["part"])
        #expect(entry.state == .outOfSight && entry.type == "Note" && entry.record == nil && entry.change > top.change)
    }

    @Test("deleted records leave tombstones in the hierarchy")
    func deletions() throws {
        let share = try list()
        try rows.put([rows.tombstone("part"), rows.tombstone("item")])
        #expect(rows.entries[share]?["part"]?.state == .deleted && rows.entries[share]?["item"]?.state == .deleted)
    }

    @Test("a record that a participant deletes, and the owner keeps, looks deleted to those who saw it")
    func deletedInViewAlone() throws {
        let share = try list()
        try rows.put([rows.record("item", in: nil, by: UserID("_bob"))])
        #expect(rows.entries[share]?["item"]?.state == .deleted && rows.entries[share]?["part"]?.state == .deleted)
    }

    @Test("a record that moves to another zone is out of sight")
    func movedElsewhere() throws {
        let share = try list()
        var gone = rows.tombstone("part")
        gone.fields = Array(#"{"movedTo":{"value":"Archive","type":"STRING"}}"#.utf8)
        try #require(gone.movedTo == "Archive")
        try rows.put([gone])
        #expect(rows.entries[share]?["part"]?.state == .outOfSight)
    }

    @Test("a record that moves between hierarchies leaves one and enters the other, with everything below it")
    func betweenHierarchies() throws {
        let first = try list()
        let second = try rows.share("other")
        let update = try rows.put([rows.record("item", in: "other")])
        #expect(rows.names(in: first) == ["list"] && rows.names(in: second) == ["other", "item", "part"])
        #expect(rows.entries[first]?["part"]?.state == .outOfSight)
        #expect(rows.entries[first]?["part"]?.change == rows.entries[second]?["part"]?.change)
        #expect(Set(update.latest.keys) == [first, second])
    }

    @Test("the root of another share keeps what is below it")
    func rootBelow() throws {
        let first = try list()
        try rows.put([rows.record("top"), rows.record("middle", in: "top")])
        try rows.put([rows.record("root", in: "middle"), rows.record("leaf", in: "root")])
        let inner = try rows.share("root")
        try rows.put([rows.record("top", in: "list")])
        #expect(rows.names(in: first) == ["list", "item", "part", "top", "middle"])
        #expect(rows.names(in: inner) == ["root", "leaf"])
    }

    @Test("records that close a cycle are in no hierarchy")
    func cycle() throws {
        let share = try list()
        try rows.put([rows.record("item", in: "part")])
        #expect(rows.names(in: share) == ["list"])
    }

    @Test("a record saved with the branch that carries it enters once", arguments: [false, true])
    func savedWithItsBranch(_ topFirst: Bool) throws {
        let share = try list()
        try rows.put([rows.record("b", in: "other"), rows.record("c", in: "b")])
        let records = [rows.record("other", in: "list"), rows.record("c", in: "b")]
        let update = try rows.put(topFirst ? records : records.reversed())
        #expect(rows.names(in: share).isSuperset(of: ["other", "b", "c"]))
        #expect(rows.entries[share]?["c"]?.change == records[1].change)
        #expect(update.changes[records[1].change] == HierarchyChange(before: nil, after: share))
        #expect(update.moved.map(\.record.name) == ["b"])
    }

    @Test("a moved record whose name is an alias elsewhere expires the tokens of those who see both")
    func namesOfAliases() throws {
        let (bob, carol) = (UserID("_bob"), UserID("_carol"))
        try rows.put([rows.record("list"), rows.record("other"), rows.record("kept", in: "other")])
        _ = try rows.share("list", with: [bob])
        let second = try rows.share("other", with: [bob, carol])
        rows.aliasRows = [ShareAlias(share: second, shown: "milk", kept: "kept")]
        rows.accessRows = [:]
        let milk = rows.record("milk", in: "list")
        try rows.put([milk])
        #expect(rows.accessRows.keys.map(\.recordName) == ["_bob"])
        #expect(rows.accessRows[bob]?.change == milk.change && rows.accessRows[bob]?.hasEnded == false)
    }
}

@Suite struct ShareRootSearchTests {
    private let rows = MemorySharingRows()

    @Test("share roots are found at any depth, and each level is read once for all records")
    func roots() throws {
        try rows.put((0..<4).map { rows.record("top\($0)") })
        try rows.put((0..<4).map { rows.record("middle\($0)", in: "top\($0)") })
        try rows.put((0..<4).map { rows.record("low\($0)", in: "middle\($0)") })
        try rows.share("low2")
        rows.resetCalls()
        var search = try ShareRootSearch(in: rows.zone, rows: rows)
        let names = ["top0", "top1", "top2", "top3", "middle2", "low2"]
        #expect(try search.recordsAboveRoots(among: names, rows: rows) == ["top2", "middle2"])
        #expect(rows.calls == ["sharesOfZone", "childNames", "childNames", "childNames"])
        // What is known is not read again.
        #expect(try search.recordsAboveRoots(among: names + ["middle0"], rows: rows) == ["top2", "middle2"])
        #expect(rows.calls.count == 4)
    }

    @Test("all records of a cycle have the same result")
    func cycle() throws {
        try rows.put([
            rows.record("a"), rows.record("b", in: "a"), rows.record("c", in: "b"), rows.record("r", in: "b"),
        ])
        try rows.share("r")
        try rows.put([rows.record("a", in: "c")])
        var search = try ShareRootSearch(in: rows.zone, rows: rows)
        #expect(try search.recordsAboveRoots(among: ["c", "a"], rows: rows) == ["a", "c"])
    }

    @Test("without shares nothing is read")
    func noShares() throws {
        try rows.put([rows.record("a")])
        rows.resetCalls()
        var search = try ShareRootSearch(in: rows.zone, rows: rows)
        #expect(try search.recordsAboveRoots(among: ["a"], rows: rows).isEmpty)
        #expect(rows.calls == ["sharesOfZone"])
    }
}
