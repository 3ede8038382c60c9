import HTTPTypes
import Records
import Testing
import Wire

/// What somebody who sees a hierarchy can learn of the records beside it by guessing their names: nothing.
///
/// Each try is made twice, with a name that is there out of sight and with one that is nowhere; all that comes back has to
/// be the same but for the name.
@Suite struct HiddenNamesTests {
    typealias World = ShareWorld

    static let hidden = "secret"
    static let absent = "nobody"

    /// A list with items that bob may change, and another list that he is not to know of.
    private func lists() async throws -> World {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("item", of: "list"),
            World.save("other"), HierarchyShareTests.child(Self.hidden, of: "other"),
        ]).checked()
        let list = [World.participant(World.bob, "READ_WRITE"), World.participant(World.carol, "READ_ONLY")]
        let share = try await world.one(World.share(name: "share", root: "list", with: list, title: "List"))
        try await world.accept(share, as: World.bob)
        try await world.accept(share, as: World.carol)
        return world
    }

    /// All that an answer says, with what is different for every request taken out of it.
    private static func text(_ answer: Answer, _ name: String) -> String {
        answer.json.source
            .replacing(name, with: "NAME")
            .replacing(/"(uuid|recordChangeTag|syncToken)":"[^"]*"/, with: "")
            .replacing(/"timestamp":\d+/, with: "")
            .replacing(/_[0-9a-f]{32}/, with: "USER")
    }

    /// Every way of naming a record in a write.
    static let writes: [@Sendable (String) -> String] = [
        { HierarchyShareTests.child($0, of: "list", "create") },
        { HierarchyShareTests.child($0, of: "list", "forceUpdate") },
        { HierarchyShareTests.child($0, of: "item", "forceReplace") },
        { World.save($0, "update", extra: #","recordChangeTag":"1""#) },
        { World.save($0, "replace", extra: #","recordChangeTag":"1""#) },
        { World.save($0, "create") },
        { World.save($0) },
        { #"{"operationType":"forceUpdate","record":{"recordName":"\#($0)","fields":{}}}"# },
        { World.delete($0) },
        { #"{"operationType":"delete","record":{"recordName":"\#($0)","recordChangeTag":"1"}}"# },
        { HierarchyShareTests.child("new", of: $0, "create") },
        { reference(to: $0, "NONE") }, { reference(to: $0, "DELETE_SELF") }, { reference(to: $0, "VALIDATE") },
    ]

    static func reference(to name: String, _ action: String, from source: String = "pointer") -> String {
        #"""
        {"operationType":"forceUpdate","record":{"recordName":"\#(source)","recordType":"Pointer","parent":
        {"recordName":"list"},"fields":{"to":{"value":{"recordName":"\#(name)","action":"\#(action)"}}}}}
        """#
    }

    @Test(arguments: writes.indices, [false, true])
    func writesSayTheSame(_ index: Int, _ isAtomic: Bool) async throws {
        var said: [String] = []
        for name in [Self.hidden, Self.absent] {
            let world = try await lists()
            let write = Self.writes[index](name)
            let operations = isAtomic ? [write, HierarchyShareTests.child("third", of: "item", "create")] : [write]
            let first = try await world.modify(operations, in: "shared", as: World.bob, atomic: isAtomic)
            let second = try await world.modify(operations, in: "shared", as: World.bob, atomic: isAtomic)
            said.append(Self.text(first, name) + Self.text(second, name))
            // The owner's record is as it was.
            #expect(try await world.record(Self.hidden).required("parent").text("recordName") == "other")
        }
        #expect(said[0] == said[1])
    }

    @Test func aChosenNameIsShownToAllWhoSeeTheHierarchy() async throws {
        let world = try await lists()
        let token = try await world.changes(as: World.carol).text("syncToken")
        let saved = try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        #expect(saved.text("recordName") == Self.hidden)
        try await world.one(
            HierarchyShareTests.child("below", of: Self.hidden, "create"),
            in: "shared",
            as: World.bob
        )
        try await world.one(Self.reference(to: Self.hidden, "VALIDATE"), in: "shared", as: World.bob)
        for user in [World.bob, World.carol] {
            let found = try await world.record(Self.hidden, in: "shared", as: user)
            #expect(try found.required("fields").required("title").text("value") == "bob's")
            let below = try await world.record("below", in: "shared", as: user)
            #expect(try below.required("parent").text("recordName") == Self.hidden)
            let pointer = try await world.record("pointer", in: "shared", as: user).required("fields").required("to")
            #expect(try pointer.required("value").text("recordName") == Self.hidden)
        }
        #expect(
            try World.names(try await world.changes(as: World.carol, since: token))
                == [Self.hidden, "below", "pointer"]
        )
        let query = #"""
            {"zoneID":\#(try await world.zoneID()),"query":{"recordType":"Note","filterBy":[{"fieldName":"___recordID",
            "comparator":"EQUALS","fieldValue":{"value":{"recordName":"\#(Self.hidden)"},"type":"REFERENCE"}}]}}
            """#
        let matches = try await world.world.ask("shared/records/query", as: World.bob, query).items("records")
        #expect(matches.map { $0.text("recordName") } == [Self.hidden])
        // The owner has both records: the new one under a name of the relay's.
        #expect(try await world.record(Self.hidden).required("parent").text("recordName") == "other")
        let kept = try #require(try await world.record("below").required("parent").text("recordName"))
        #expect(kept != Self.hidden)
        #expect(try await world.record(kept).required("fields").required("title").text("value") == "bob's")
        #expect(try await world.record(kept, in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func theRecordThatHadTheNameComesIntoSightUnderAnother() async throws {
        let world = try await lists()
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        let token = try await world.changes().text("syncToken")
        try await world.one(HierarchyShareTests.child(Self.hidden, of: "list", title: "the owner's"))
        let page = try await world.changes(since: token)
        let name = try #require(try World.names(page).first)
        #expect(name != Self.hidden)
        let mine = try await world.record(Self.hidden, in: "shared", as: World.bob)
        #expect(try mine.required("fields").required("title").text("value") == "bob's")
        let theirs = try await world.record(name, in: "shared", as: World.bob)
        #expect(try theirs.required("fields").required("title").text("value") == "the owner's")
        // Both can be changed and deleted by the names that are shown.
        try await world.one(World.save(name, title: "changed"), in: "shared", as: World.bob)
        #expect(try await world.record(Self.hidden).required("fields").required("title").text("value") == "changed")
        try await world.one(World.delete(Self.hidden), in: "shared", as: World.bob)
        #expect(try await world.record(Self.hidden).text("serverErrorCode") == nil)
        #expect(try await world.record(Self.hidden, in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func whoeverSeesBothSeesBothApart() async throws {
        let world = try await lists()
        let share = try await world.one(
            World.share(name: "second", root: "other", with: [World.participant(World.carol, "READ_WRITE")])
        )
        try await world.accept(share, as: World.carol)
        let token = try await world.changes(as: World.carol).text("syncToken")
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        // Which of the two a name means has changed for her.
        #expect(try await world.changes(as: World.carol, since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        let names = try World.names(try await world.changes(as: World.carol))
        #expect(Set(names).count == 7 && names.count == 7, "\(names)")
    }

    @Test func aNameChosenAgainAfterItsRecordLeftMeansTheNewOne() async throws {
        let world = try await lists()
        for title in ["first", "second"] {
            let saved = try await world.one(
                HierarchyShareTests.child(Self.hidden, of: "list", "create", title: title),
                in: "shared",
                as: World.bob
            )
            #expect(saved.text("recordName") == Self.hidden)
            for user in [World.bob, World.carol] {
                let found = try await world.record(Self.hidden, in: "shared", as: user)
                #expect(try found.required("fields").required("title").text("value") == title)
            }
            guard title == "first" else { continue }
            let feed = try await world.changes(as: "alice", in: "private")
            let newest = try feed.required("records").elements().last { $0.text("recordName") != Self.hidden }
            let kept = try #require(newest?.text("recordName"))
            try await world.one(HierarchyShareTests.child(kept, of: "other"))
            let gone = try await world.record(Self.hidden, in: "shared", as: World.bob)
            #expect(gone.text("serverErrorCode") == "NOT_FOUND")
        }
        #expect(try World.names(try await world.changes(as: World.carol)).filter { $0 == Self.hidden }.count == 1)
    }

    @Test func aDeletionOutOfSightTakesNothingAlong() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"), in: "shared", as: World.bob)
        try await world.one(World.delete(Self.hidden))
        #expect(try await world.record("pointer", in: "shared", as: World.bob).text("serverErrorCode") == nil)
    }

    @Test func whatARecordReferredToItGoesOnReferringTo() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"))
        // Sent back whole by somebody who cannot see where it leads.
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"), in: "shared", as: World.bob)
        let pointer = try await world.record("pointer").required("fields").required("to").required("value")
        #expect(pointer.text("recordName") == Self.hidden)
    }

    @Test func aReferenceCanBeValidatedByWhatIsInSight() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: "item", "VALIDATE"), in: "shared", as: World.bob)
    }
}
