import HTTPTypes
import Records
import Testing
import Wire

/// A participant of a hierarchy learns nothing about the records outside it by guessing their names.
///
/// Each attempt is made twice, with the name of a record out of sight and with an unused name. The responses must be
/// equal except for the name.
@Suite struct HiddenNamesTests {
    typealias World = ShareWorld

    static let hidden = "secret"
    static let absent = "nobody"

    /// Creates a list with items that bob may change, and another list that he must not know of.
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

    /// Returns the response's text without the parts that differ between any two requests.
    private static func text(_ answer: Answer, _ name: String) -> String {
        answer.json.source
            .replacing(name, with: "NAME")
            .replacing(/"(uuid|recordChangeTag|syncToken)":"[^"]*"/, with: "")
            .replacing(/"timestamp":\d+/, with: "")
            .replacing(/_[0-9a-f]{32}/, with: "USER")
    }

    /// Every way to name a record in a write.
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
    func writesGetTheSameResponse(_ index: Int, _ isAtomic: Bool) async throws {
        var said: [String] = []
        for name in [Self.hidden, Self.absent] {
            let world = try await lists()
            let write = Self.writes[index](name)
            let operations = isAtomic ? [write, HierarchyShareTests.child("third", of: "item", "create")] : [write]
            let first = try await world.modify(operations, in: "shared", as: World.bob, atomic: isAtomic)
            let second = try await world.modify(operations, in: "shared", as: World.bob, atomic: isAtomic)
            said.append(Self.text(first, name) + Self.text(second, name))
            // The owner's record is unchanged.
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
        // The owner has both records, the new one under a name that the relay assigned.
        #expect(try await world.record(Self.hidden).required("parent").text("recordName") == "other")
        let kept = try #require(try await world.record("below").required("parent").text("recordName"))
        #expect(kept != Self.hidden)
        #expect(try await world.record(kept).required("fields").required("title").text("value") == "bob's")
        #expect(try await world.record(kept, in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
    }

    private func title(_ name: String, _ world: World, in database: String = "shared", as user: String) async throws
        -> String?
    {
        try await world.record(name, in: database, as: user)["fields"]?.required("title").text("value")
    }

    @Test func aVisibleRecordKeepsItsNameOverAChosenOne() async throws {
        let world = try await lists()
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        let token = try await world.changes().text("syncToken")
        try await world.one(HierarchyShareTests.child(Self.hidden, of: "list", title: "the owner's"))
        // The name now means another record for bob.
        #expect(try await world.changes(since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        let names = try World.names(try await world.changes())
        let kept = try #require(names.first { ![Self.hidden, "list", "item", "share"].contains($0) })
        #expect(names.count == 5)
        #expect(try await title(kept, world, as: World.bob) == "bob's")
        #expect(try await title(Self.hidden, world, as: World.bob) == "the owner's")
        // Both can be changed and deleted by the names that are shown.
        try await world.one(World.save(Self.hidden, title: "changed"), in: "shared", as: World.bob)
        #expect(try await title(Self.hidden, world, in: "private", as: "alice") == "changed")
        let later = try await world.changes().text("syncToken")
        try await world.one(World.delete(Self.hidden), in: "shared", as: World.bob)
        // Then the chosen name means bob's record again.
        #expect(try await world.changes(since: later).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        #expect(try await title(Self.hidden, world, as: World.bob) == "bob's")
        #expect(try await world.record(kept, in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
    }

    /// Lets carol change the other list, which bob does not know of.
    private func shareOther(_ world: World) async throws {
        let share = try await world.one(
            World.share(name: "second", root: "other", with: [World.participant(World.carol, "READ_WRITE")])
        )
        try await world.accept(share, as: World.carol)
    }

    @Test func aChosenNameDoesNotRedirectANameThatOthersKnow() async throws {
        let world = try await lists()
        try await shareOther(world)
        let tag = try await world.record(Self.hidden, in: "shared", as: World.carol).text("recordChangeTag")
        let token = try await world.changes(as: World.carol).text("syncToken")
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        #expect(
            try await world.record(Self.hidden, in: "shared", as: World.carol).text("recordChangeTag") == tag
        )
        try await world.one(World.save(Self.hidden, title: "for the other list"), in: "shared", as: World.carol)
        #expect(try await title(Self.hidden, world, as: World.bob) == "bob's")
        #expect(try await title(Self.hidden, world, in: "private", as: "alice") == "for the other list")
        // Carol and the owner see bob's record under the assigned name.
        let news = try World.names(try await world.changes(as: World.carol, since: token))
        #expect(news.count == 2 && news.last == Self.hidden, "\(news)")
        #expect(try await title(news[0], world, as: World.carol) == "bob's")
    }

    @Test func aParticipantOfBothHierarchiesSeesBothRecords() async throws {
        let world = try await lists()
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        try await shareOther(world)
        let names = try World.names(try await world.changes(as: World.carol))
        #expect(Set(names).count == 7 && names.count == 7, "\(names)")
        #expect(try await title(Self.hidden, world, as: World.carol) == "t")
    }

    /// If participants of two hierarchies choose the same name, a participant of both sees neither record under it.
    @Test func aNameChosenTwiceIsAmbiguousForAParticipantOfBoth() async throws {
        let world = try await lists()
        try await world.modify([World.save("third")]).checked()
        let people = [World.participant(World.carol), World.participant("dave@example.org", "READ_WRITE")]
        let share = try await world.one(World.share(name: "third-share", root: "third", with: people))
        for user in [World.carol, "dave@example.org"] { try await world.accept(share, as: user) }
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "list", "create", title: "bob's"),
            in: "shared",
            as: World.bob
        )
        #expect(try await title(Self.hidden, world, as: World.carol) == "bob's")
        let token = try await world.changes(as: World.carol).text("syncToken")
        try await world.one(
            HierarchyShareTests.child(Self.hidden, of: "third", "create", title: "dave's"),
            in: "shared",
            as: "dave@example.org"
        )
        #expect(try await world.changes(as: World.carol, since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        #expect(try await title(Self.hidden, world, as: World.bob) == "bob's")
        #expect(try await title(Self.hidden, world, as: "dave@example.org") == "dave's")
        #expect(try await title(Self.hidden, world, as: World.carol) == nil)
    }

    @Test func aNameChosenAgainMeansTheNewRecord() async throws {
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

    @Test func aDeletionOutOfSightDoesNotCascadeIntoTheHierarchy() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"), in: "shared", as: World.bob)
        try await world.one(World.delete(Self.hidden))
        #expect(try await world.record("pointer", in: "shared", as: World.bob).text("serverErrorCode") == nil)
    }

    @Test func aParticipantsSaveKeepsAReferenceOutOfSight() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"))
        // A participant who cannot see the target saves the whole record.
        try await world.one(Self.reference(to: Self.hidden, "DELETE_SELF"), in: "shared", as: World.bob)
        let pointer = try await world.record("pointer").required("fields").required("to").required("value")
        #expect(pointer.text("recordName") == Self.hidden)
    }

    @Test func aReferenceToAVisibleRecordIsValidated() async throws {
        let world = try await lists()
        try await world.one(Self.reference(to: "item", "VALIDATE"), in: "shared", as: World.bob)
    }

    /// Each reference may lead to a record out of sight, and is then renamed, which takes time on the writer.
    @Test func theReferencesInAParticipantsSaveAreLimited() async throws {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.one(World.save("list"))
        let share = try await world.one(
            World.share(name: "share", root: "list", with: [World.participant(World.bob, "READ_WRITE")])
        )
        try await world.accept(share, as: World.bob)
        func save(_ count: Int, in database: String, as user: String) async throws -> String? {
            let list = (0..<count).map { #"{"recordName":"n\#($0)","action":"DELETE_SELF"}"# }.joined(separator: ",")
            let operation =
                #"{"operationType":"forceUpdate","record":{"recordName":"\#(user)","recordType":"Note","#
                + #""desiredKeys":[],"parent":{"recordName":"list"},"#
                + #""fields":{"all":{"value":[\#(list)],"type":"REFERENCE_LIST"}}}}"#
            let answer = try await world.modify([operation], in: database, as: user, atomic: false)
            return try answer.items("records").first?.text("ckErrorCode")
        }
        #expect(try await save(2_000, in: "shared", as: World.bob) == nil)
        #expect(try await save(2_001, in: "shared", as: World.bob) == "LIMIT_EXCEEDED")
        #expect(try await save(2_001, in: "private", as: "alice") == nil)
    }
}

/// Records outside a shared hierarchy may reference records in it and block their deletion.
///
/// For participants the deletion succeeds, so that they learn nothing; the owner keeps the records.
@Suite struct HiddenReferenceTests {
    typealias World = ShareWorld

    /// Creates a list with an item that bob may change; the `blockers` are records of another list that block its
    /// deletion.
    private func lists(blockers: [String] = []) async throws -> World {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("item", of: "list"),
            HierarchyShareTests.child("third", of: "list"), World.save("other"),
        ]).checked()
        let list = [World.participant(World.bob, "READ_WRITE"), World.participant(World.carol, "READ_ONLY")]
        let share = try await world.one(World.share(name: "share", root: "list", with: list, title: "List"))
        try await world.accept(share, as: World.bob)
        try await world.accept(share, as: World.carol)
        if !blockers.isEmpty { try await world.modify(blockers).checked() }
        return world
    }

    private static func pointer(
        _ name: String,
        to target: String,
        _ action: String,
        in list: String = "other"
    ) -> String {
        #"""
        {"operationType":"forceUpdate","record":{"recordName":"\#(name)","recordType":"Pointer","parent":
        {"recordName":"\#(list)"},"fields":{"to":{"value":{"recordName":"\#(target)","action":"\#(action)"}}}}}
        """#
    }

    /// Ways in which records out of sight block the item's deletion.
    static let blockingRecords: [[String]] = [
        [pointer("holder", to: "item", "VALIDATE")],
        // A record that would be deleted with the item is blocked in turn, by a reference or as a parent.
        [pointer("chained", to: "item", "DELETE_SELF"), pointer("holder", to: "chained", "VALIDATE")],
        [pointer("chained", to: "item", "DELETE_SELF"), HierarchyShareTests.child("holder", of: "chained")],
    ]

    private static func text(_ answer: Answer) -> String {
        answer.json.source
            .replacing(/"(uuid|recordChangeTag|syncToken|shortGUID|url|participantId)":"[^"]*"/, with: "")
            .replacing(/"(routingKey|shortTokenHash)":"[^"]*"/, with: "")
            .replacing(/"(timestamp|dateAdded)":\d+/, with: "")
            .replacing(/_[0-9a-f]{32}/, with: "USER")
    }

    /// Returns all responses that bob and carol get around a deletion.
    private func responses(_ world: World, atomically: Bool) async throws -> [String] {
        var said: [String] = []
        let id = try await world.zoneID()
        let token = try #require(try await world.changes(as: World.carol).text("syncToken"))
        func note(_ answer: Answer) { said.append(Self.text(answer)) }
        note(
            try await world.modify(
                [World.delete("item"), HierarchyShareTests.child("new", of: "third", "create")],
                in: "shared",
                as: World.bob,
                atomic: atomically
            )
        )
        for user in [World.bob, World.carol] {
            let body = #"{"zones":[{"zoneID":\#(id),"syncToken":"\#(token)","countRemaining":true}]}"#
            note(try await world.world.ask("shared/changes/zone", as: user, user == World.carol ? body : "{}"))
            note(try await world.world.ask("shared/changes/zone", as: user, #"{"zones":[{"zoneID":\#(id)}]}"#))
            note(
                try await world.world.ask(
                    "shared/records/lookup",
                    as: user,
                    #"{"zoneID":\#(id),"records":[{"recordName":"item"},{"recordName":"list"}]}"#
                )
            )
        }
        for operation in [
            World.delete("item"), World.save("item", "update", extra: #","recordChangeTag":"1""#),
            HierarchyShareTests.child("below", of: "item", "create"),
            Self.pointer("bound", to: "item", "VALIDATE", in: "third"),
            Self.pointer("free", to: "item", "DELETE_SELF", in: "third"),
            HierarchyShareTests.child("item", of: "list", "create", title: "again"), World.delete("item"),
        ] {
            note(try await world.modify([operation], in: "shared", as: World.bob, atomic: atomically))
        }
        return said
    }

    @Test(arguments: blockingRecords.indices, [false, true])
    func aBlockedDeletionLooksLikeAnyOtherToParticipants(_ index: Int, _ isAtomic: Bool) async throws {
        let plain = try await responses(try await lists(), atomically: isAtomic)
        let held = try await responses(try await lists(blockers: Self.blockingRecords[index]), atomically: isAtomic)
        #expect(plain.count == held.count)
        for (plain, held) in zip(plain, held) { #expect(plain == held) }
        #expect(plain[0].contains(#""deleted":true"#), "\(plain[0])")
    }

    @Test(arguments: blockingRecords.indices)
    func theOwnerKeepsABlockedRecord(_ index: Int) async throws {
        let world = try await lists(blockers: Self.blockingRecords[index])
        try await world.one(World.delete("item"), in: "shared", as: World.bob)
        let item = try await world.record("item")
        #expect(item.text("serverErrorCode") == nil && item["parent"] == nil)
        #expect(try item.required("fields").required("title").text("value") == "t")
        #expect(try await world.record("holder").text("serverErrorCode") == nil)
        // The item is still blocked, and can be deleted when nothing references it any more.
        #expect(try await world.refusal(World.delete("item")) == "VALIDATING_REFERENCE_ERROR")
        try await world.one(World.delete("holder"))
        try await world.one(World.delete("item"))
        #expect(try await world.record("item").text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func cascadedRecordsDisappearForParticipantsToo() async throws {
        let world = try await lists(blockers: [
            Self.pointer("follower", to: "item", "DELETE_SELF", in: "third"),
            Self.pointer("holder", to: "follower", "VALIDATE"),
        ])
        // Nothing blocks the item itself; a record that is deleted with it is blocked.
        try await world.modify([World.delete("item"), World.delete("third")], in: "shared", as: World.bob).checked()
        for name in ["item", "follower", "third"] {
            let found = try await world.record(name, in: "shared", as: World.bob)
            #expect(found.text("serverErrorCode") == "NOT_FOUND", "\(name)")
        }
        #expect(try await world.record("item").text("serverErrorCode") == nil)
        #expect(try await world.record("follower")["parent"] == nil)
        #expect(try await world.record("third").text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func aKeptRecordBlocksOthersInTurn() async throws {
        let world = try await lists(blockers: [
            Self.pointer("item2", to: "third", "VALIDATE", in: "list"), Self.pointer("holder", to: "item2", "VALIDATE"),
        ])
        try await world.modify([World.delete("third"), World.delete("item2")], in: "shared", as: World.bob).checked()
        for name in ["third", "item2"] {
            #expect(try await world.record(name, in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
            #expect(try await world.record(name).text("serverErrorCode") == nil)
        }
    }

    @Test func aVisibleReferenceBlocksTheDeletion() async throws {
        let world = try await lists(blockers: [
            Self.pointer("holder", to: "item", "VALIDATE"), Self.pointer("seen", to: "item", "VALIDATE", in: "list"),
        ])
        let answer = try await world.modify([World.delete("item")], in: "shared", as: World.bob, atomic: false)
        let refused = try #require(try answer.items("records").first)
        #expect(refused.text("serverErrorCode") == "VALIDATING_REFERENCE_ERROR")
        #expect(!answer.json.source.contains("holder"))
        try await world.one(World.delete("seen"), in: "shared", as: World.bob)
        try await world.one(World.delete("item"), in: "shared", as: World.bob)
    }

    @Test func aDeletionByAParticipantOfTheWholeZoneIsRefused() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone(with: [World.bob: "READ_WRITE"])
        let pointer = #"""
            {"operationType":"create","record":{"recordName":"holder","recordType":"Pointer",
            "fields":{"to":{"value":{"recordName":"a","action":"VALIDATE"}}}}}
            """#
        try await world.one(pointer)
        #expect(
            try await world.refusal(World.delete("a"), in: "shared", as: World.bob) == "VALIDATING_REFERENCE_ERROR"
        )
    }
}
