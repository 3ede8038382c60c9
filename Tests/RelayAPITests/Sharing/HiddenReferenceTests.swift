import HTTPTypes
import Records
import Testing
import Wire

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
