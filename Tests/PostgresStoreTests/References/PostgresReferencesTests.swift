#if Postgres
    import PostgresStore
    import Records
    import RelayCore
    import StoreKit
    import Testing

    /// References and hierarchies as rows, where the conformance suite has too few of them.
    @Suite(needsPostgres)
    struct PostgresReferencesTests {
        private let connection: PostgresConnection
        private let rows: PostgresSharingRows
        private let zone: Int64 = 7

        init() throws {
            connection = try PostgresConnection(to: emptyDatabase())
            try PostgresLayout(cluster: "test").prepare(connection)
            let home = try HomeRow.ensure(.forTests, draw: { 1 }, connection)
            _ = try connection.begin(PostgresPipeline())
            rows = PostgresSharingRows(PostgresTransaction(on: connection, of: home))
        }

        private func name(_ number: Int) -> String { String(String(10_000 + number).suffix(4)) }

        private func visited(
            _ targets: [String],
            _ next: (StoredReference) -> ReferenceVisit = { _ in .next }
        ) throws -> [String] {
            var found: [String] = []
            try rows.visitReferences(to: targets, in: zone) {
                found.append("\($0.target) \($0.kind.rawValue) \($0.source)")
                return next($0)
            }
            return found
        }

        @Test("references to many targets come target by target, however many there are") func many() throws {
            let targets = ["t2", "t1", "none", "t3"]
            try rows.insert(
                (0..<2_300).map { StoredReference(.validate, to: "t1", from: name($0), field: "f") }
                    + (0..<5).map { StoredReference(.deleteSelf, to: "t2", from: name($0), field: "f") }
                    + [.parent("t3", of: "x"), StoredReference(.deleteSelf, to: "t1", from: "zz", field: "f")],
                in: zone
            )
            let all = try visited(targets)
            #expect(all.count == 2_307)
            #expect(all.prefix(6) == ["t2 1 0000", "t2 1 0001", "t2 1 0002", "t2 1 0003", "t2 1 0004", "t1 1 zz"])
            #expect(
                Array(all.dropFirst(6).dropLast()) == (0..<2_300).map { "t1 2 \(name($0))" } && all.last == "t3 3 x"
            )
            #expect(try visited(targets) { _ in .nextTarget } == ["t2 1 0000", "t1 1 zz", "t3 3 x"])
            let late = try visited(targets) { $0.source == name(1_700) ? .nextTarget : .next }
            #expect(late.count == 5 + 1 + 1_701 + 1 && late.last == "t3 3 x")
            #expect(try visited(targets) { $0.source == name(1_500) ? .stop : .next }.count == 5 + 1 + 1_501)
            #expect(
                try rows.countDeleteSelf(to: targets, in: zone, atMost: 3) == ["t1": 1, "t2": 3, "t3": 0, "none": 0]
            )
        }

        @Test("more targets than are read together are all visited") func manyTargets() throws {
            let targets = (0..<2_500).map { name($0) }
            try rows.insert(targets.map { StoredReference(.deleteSelf, to: $0, from: "s\($0)", field: "") }, in: zone)
            #expect(try visited(targets) == targets.map { "\($0) 1 s\($0)" })
        }

        @Test("a reference is removed by all of its parts") func removal() throws {
            let (kept, gone) = (
                StoredReference(.validate, to: "t", from: "s", field: "a"),
                StoredReference(.validate, to: "t", from: "s", field: "b")
            )
            try rows.insert([kept, gone, gone], in: zone)
            try rows.delete([gone], in: zone)
            #expect(try visited(["t"]) == ["t 2 s"])
        }

        @Test("parents that form a cycle end") func cycle() throws {
            let transaction = rows.transaction
            for (name, parent) in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")] {
                transaction.later(
                    """
                    INSERT INTO record (zone, name, change, type, deleted, created_at, created_by, created_device,
                        modified_at, modified_by, modified_device, parent, fields)
                    VALUES ($1, $2, 1, 1, false, 0, 0, 0, 0, 0, 0, $3, '{}')
                    """,
                    .int(zone),
                    .text(name),
                    .text(parent)
                )
            }
            let links = try rows.ancestors(of: ["d"], in: zone)
            #expect(Set(links.map(\.name)) == ["a", "b", "c", "d"] && links.count == 4)
        }

        @Test("rows that are written twice in a call keep the last") func repeated() throws {
            try rows.write(
                [
                    HierarchyEntry(share: 1, name: "a", change: 1, state: .present),
                    HierarchyEntry(share: 1, name: "a", change: 2, state: .deleted),
                    HierarchyEntry(share: 2, name: "a", change: 2, state: .present),
                ],
                in: zone
            )
            #expect(try rows.covers(of: ["a"], in: zone) == ["a": 2])
            try rows.write([
                ZoneAccess(user: UserID("_x"), zone: zone, identity: 1, change: 1),
                ZoneAccess(user: UserID("_x"), zone: zone, identity: 2, change: 2),
            ])
            #expect(try rows.access(to: [zone]).map(\.identity) == [2])
        }
    }
#endif
