import Records
import RelayCore
import StoreTesting
import Testing

/// References that affect deletions, found by their target.
@Suite struct ReferenceTests {
    private let store: any Store

    init() async throws {
        store = try TestStore.current.makeHome().store()
        try await store.makeZone()
    }

    private func draft(_ name: String, _ references: [String: Reference], parent: String? = nil) -> Draft {
        var draft = Draft(name, parent: parent)
        for (field, reference) in references { draft.fields[field] = .reference(reference) }
        return draft
    }

    private func found(
        _ targets: [String],
        _ next: (StoredReference) -> ReferenceVisit = { _ in .next }
    ) throws -> [StoredReference] {
        let zone = try #require(try store.zone())
        return try store.look { reader throws in
            var found: [StoredReference] = []
            try reader.visitReferences(to: targets, in: zone) {
                found.append($0)
                return next($0)
            }
            return found
        }
    }

    @Test("a record's parent and its references with an action are entered, and no others") func entries() async throws
    {
        var record = draft(
            "a",
            [
                "plain": Reference(recordName: "b"), "owner": Reference(recordName: "b", action: .deleteSelf),
                "check": Reference(recordName: "b", action: .validate),
            ],
            parent: "b"
        )
        record.fields["title"] = .string(#"not a reference: "action":"DELETE_SELF""#)
        try await store.put([record])
        let all = try found(["b"])
        #expect(all.first == StoredReference(.deleteSelf, to: "b", from: "a", field: "owner"))
        #expect(
            Set(all) == [all[0], .parent("b", of: "a"), StoredReference(.validate, to: "b", from: "a", field: "check")]
        )
        #expect(all.count == 3)
    }

    @Test("references are visited target by target, and the rest of a target or of all can be skipped")
    func visits() async throws {
        try await store.put(
            ["b", "c", "d"].flatMap { target in
                (0..<3).map { draft("\(target)\($0)", ["of": Reference(recordName: target, action: .deleteSelf)]) }
            }
        )
        let visited = try found(["c", "none", "b", "d"]) {
            $0.target == "c" ? .nextTarget : $0.source == "b1" ? .stop : .next
        }
        #expect(visited.map(\.source) == ["c0", "b0", "b1"])
        let zone = try #require(try store.zone())
        let counts = try store.look { try $0.countDeleteSelf(to: ["b", "none", "d"], in: zone, atMost: 2) }
        #expect(counts["b"] == 2 && counts["d"] == 2 && counts["none"] ?? 0 == 0)
    }

    @Test("each target's DELETE_SELF references come first") func order() async throws {
        try await store.put([
            draft("a", ["x": Reference(recordName: "t", action: .validate)]), draft("b", [:], parent: "t"),
            draft("c", ["x": Reference(recordName: "t", action: .deleteSelf)]),
        ])
        #expect(try found(["t"]).map(\.kind).first == .deleteSelf)
        #expect(try Set(found(["t"]).map(\.source)) == ["a", "b", "c"])
        let zone = try #require(try store.zone())
        #expect(try store.look { try $0.countDeleteSelf(to: ["t"], in: zone, atMost: 9) } == ["t": 1])
    }

    @Test("a change or a deletion of the source removes its former references") func changes() async throws {
        let old = draft("a", ["x": Reference(recordName: "t", action: .deleteSelf)], parent: "t")
        try await store.put([old, draft("b", [:], parent: "t")])
        try await store.put([draft("a", ["x": Reference(recordName: "u", action: .deleteSelf)])])
        #expect(try found(["t"]) == [.parent("t", of: "b")])
        #expect(try found(["u"]).map(\.source) == ["a"])
        try await store.put([.deleted("a"), .deleted("b")])
        #expect(try found(["t", "u"]).isEmpty)
    }

    @Test("a list's references are entered one by one, and those of another zone are not found") func lists()
        async throws
    {
        var record = Draft("a")
        record.fields["all"] = .list(
            .reference,
            ["t", "u"].map { .reference(Reference(recordName: $0, action: .validate)) }
        )
        try await store.put([record])
        let other = ZoneID("Other", owner: .alice)
        try await store.makeZone(other)
        try await store.put([draft("b", [:], parent: "t")], in: other)
        #expect(try found(["t"]).map(\.source) == ["a"] && found(["u"]).map(\.source) == ["a"])
    }

    @Test("hundreds of references to one target are all visited and counted")
    func many() async throws {
        let names = (0..<300).map { "n\(1_000 + $0)" }
        try await store.put(
            names.shuffled().map { draft($0, ["of": Reference(recordName: "t", action: .deleteSelf)]) }
        )
        #expect(try found(["t"]).map(\.source).sorted() == names)
        let zone = try #require(try store.zone())
        #expect(try store.look { try $0.countDeleteSelf(to: ["t"], in: zone, atMost: 750) } == ["t": 300])
    }
}
