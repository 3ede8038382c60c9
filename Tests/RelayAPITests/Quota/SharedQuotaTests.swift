import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// What is put into a shared zone counts to its owner.
///
/// Errors reference 4.
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

    @Test func aParticipantsRecordsCountToTheOwner() async throws {
        let world = try await world()
        try await world.one(large("one"), in: "shared", as: ShareWorld.bob)
        let refused = try await world.modify([large("two")], in: "shared", as: ShareWorld.bob, atomic: false)
        let record = try #require(try refused.items("records").first)
        #expect(record.text("serverErrorCode") == "QUOTA_EXCEEDED")
        #expect(record.text("reason")?.contains("owner of this zone") == true)
        #expect(record.text("reason")?.contains("kB") == false)
        // The owner is told what it is about.
        #expect(try await world.refusal(large("two")) == "QUOTA_EXCEEDED")
        // The participant's own is another matter.
        try await world.world.makeZone("Own", as: ShareWorld.bob)
        let own = try await world.world.ask(
            "private/records/modify",
            as: ShareWorld.bob,
            #"{"zoneID":{"zoneName":"Own"},"operations":[\#(ShareWorld.save("a", title: "mine"))]}"#
        )
        #expect(try own.items("records").first?.text("serverErrorCode") == nil)
        // Making room helps, by whomever.
        try await world.one(ShareWorld.delete("one"), in: "shared", as: ShareWorld.bob)
        try await world.one(large("two"), in: "shared", as: ShareWorld.bob)
    }

    @Test func uploadsForASharedZoneAreForThoseWhoHaveIt() async throws {
        let world = try await world()
        let id = try await world.zoneID()
        let body = #"{"zoneID":\#(id),"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#
        #expect(try await world.world.ask("shared/assets/upload", as: ShareWorld.bob, body).status == 200)
        // Nobody else learns that it is there.
        let stranger = try await world.world.ask("shared/assets/upload", as: ShareWorld.carol, body)
        #expect(stranger.status == 404 && stranger.code == "ZONE_NOT_FOUND")
    }
}
