import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Data in a shared zone counts against the quota of its owner.
///
/// See Errors.md, "Database scopes".
@Suite struct SharedQuotaTests {
    private func world() async throws -> ShareWorld {
        var limits = Limits()
        limits.quota = .unlimited
        limits.quota.privateBytes = 4_000
        let world = try ShareWorld(limits: limits)
        try await world.makeZone()
        try await world.shareZone(with: [ShareWorld.bob: "READ_WRITE"])
        return world
    }

    private func large(_ name: String) -> String {
        ShareWorld.save(name, title: String(repeating: "x", count: 2_000))
    }

    @Test func aParticipantsRecordsCountAgainstTheOwnersQuota() async throws {
        let world = try await world()
        try await world.one(large("one"), in: "shared", as: ShareWorld.bob)
        let refused = try await world.modify([large("two")], in: "shared", as: ShareWorld.bob, atomic: false)
        let record = try #require(try refused.items("records").first)
        #expect(record.text("serverErrorCode") == "QUOTA_EXCEEDED")
        #expect(record.text("reason")?.contains("owner of this zone") == true)
        #expect(record.text("reason")?.contains("kB") == false)
        // The owner sees which quota is exceeded.
        #expect(try await world.refusal(large("two")) == "QUOTA_EXCEEDED")
        // The participant's own database is not affected.
        try await world.world.makeZone("Own", as: ShareWorld.bob)
        let own = try await world.world.ask(
            "private/records/modify",
            as: ShareWorld.bob,
            #"{"zoneID":{"zoneName":"Own"},"operations":[\#(ShareWorld.save("a", title: "mine"))]}"#
        )
        #expect(try own.items("records").first?.text("serverErrorCode") == nil)
        // Freeing space helps, even if a participant does it.
        try await world.one(ShareWorld.delete("one"), in: "shared", as: ShareWorld.bob)
        try await world.one(large("two"), in: "shared", as: ShareWorld.bob)
    }

    /// A deletion frees no space if the record stays, because the owner keeps it or because the deletion is refused.
    @Test(arguments: [true, false]) func aRecordThatStaysFreesNoSpace(_ isKept: Bool) async throws {
        var limits = Limits()
        limits.quota = .unlimited
        limits.quota.privateBytes = 4_500
        let world = try ShareWorld(limits: limits)
        try await world.makeZone(notes: ["list", "other"])
        try await world.one(
            ShareWorld.save(
                "item",
                title: String(repeating: "x", count: 2_000),
                extra: #","parent":{"recordName":"list"}"#
            )
        )
        let list = isKept ? "other" : "list"
        try await world.one(
            #"{"operationType":"create","record":{"recordName":"holder","recordType":"Pointer","#
                + #""parent":{"recordName":"\#(list)"},"#
                + #""fields":{"to":{"value":{"recordName":"item","action":"VALIDATE"}}}}}"#
        )
        let people = [ShareWorld.participant(ShareWorld.bob, "READ_WRITE")]
        try await world.accept(
            try await world.one(ShareWorld.share(name: "s", root: "list", with: people)),
            as: ShareWorld.bob
        )
        let large = ShareWorld.save(
            "big",
            title: String(repeating: "y", count: 2_000),
            extra: #","parent":{"recordName":"list"}"#
        )
        let small = ShareWorld.save("small", title: "z", extra: #","parent":{"recordName":"list"}"#)
        let operations = [ShareWorld.delete("item"), large, small]
        let answer = try await world.modify(operations, in: "shared", as: ShareWorld.bob, atomic: false)
        let codes = try answer.items("records").map { $0.text("serverErrorCode") }
        #expect(codes == [isKept ? nil : "VALIDATING_REFERENCE_ERROR", "QUOTA_EXCEEDED", nil])
        // A deletion that succeeds frees space for the rest of its request.
        try await world.one(ShareWorld.delete("holder"))
        try await world.one(ShareWorld.delete("item"))
        try await world.one(
            ShareWorld.save(
                "item",
                title: String(repeating: "x", count: 2_000),
                extra: #","parent":{"recordName":"list"}"#
            )
        )
        let again = try await world.modify(operations, in: "shared", as: ShareWorld.bob)
        #expect(again.status == 200)
    }

    @Test func onlyParticipantsMayUploadForASharedZone() async throws {
        let world = try await world()
        let id = try await world.zoneID()
        let body = #"{"zoneID":\#(id),"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#
        #expect(try await world.world.ask("shared/assets/upload", as: ShareWorld.bob, body).status == 200)
        // Other users do not learn that the zone exists.
        let stranger = try await world.world.ask("shared/assets/upload", as: ShareWorld.carol, body)
        #expect(stranger.status == 404 && stranger.code == "ZONE_NOT_FOUND")
    }

    /// An invited person is not a user before they join.
    ///
    /// The public database's quota grows with the number of users.
    @Test func invitedPeopleDoNotCountAsUsers() async throws {
        let world = try ShareWorld()
        try await world.makeZone()
        let container = try #require(ContainerID(world.world.container))
        let store = try world.world.stores.store(of: ContainerEnvironment(container, .development))
        func users() async throws -> [Int] {
            let known = try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
                try writer.userCount
            }
            return [known, try store.read { reader throws(RelayError) in try reader.userCount }]
        }
        #expect(try await users() == [1, 1])
        let people = (1...30).map { ShareWorld.participant("somebody\($0)@example.org") }
        let share = try await world.one(ShareWorld.share(with: people))
        #expect(try share.required("participants").elements().count == 31)
        #expect(try await users() == [1, 1])
        _ = try await world.name(of: ShareWorld.bob)
        #expect(try await users() == [2, 2])
    }
}
