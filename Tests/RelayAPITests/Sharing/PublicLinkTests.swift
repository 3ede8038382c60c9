import Records
import Testing
import Wire

/// Public links, and how they and named participants exclude each other.
@Suite struct PublicLinkTests {
    typealias World = ShareWorld

    @Test(arguments: ["READ_ONLY", "READ_WRITE"]) func anySignedInUserMayJoin(_ permission: String) async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.one(World.share(publicly: permission))
        let link = try #require(share.text("shortGUID"))
        let anonymous = try await world.open(link, as: nil)
        #expect(anonymous.text("participantType") == "PUBLIC_USER")
        #expect(anonymous["rootRecord"] == nil)
        let looked = try await world.open(link, as: World.bob)
        #expect(looked.text("participantStatus") == "INVITED")
        #expect(try await world.zones().names == [])
        let joined = try await world.accept(share, as: World.bob)
        #expect(joined.text("participantType") == "PUBLIC_USER")
        #expect(joined.text("participantPermission") == permission)
        #expect(try World.names(try await world.changes()).contains("a"))
        let refusal = try await world.refusal(World.save("a"), in: "shared", as: World.bob)
        #expect(refusal == (permission == "READ_ONLY" ? "ACCESS_DENIED" : nil))
        let current = try await world.record(Share.zoneWideName)
        #expect(try world.participants(of: current).map { $0.text("type") } == ["OWNER", "PUBLIC_USER"])
    }

    /// JavaScript numbers cannot represent every INT64; a client that requests text gets it in the records of a link,
    /// too.
    @Test(arguments: ["resolve", "accept"]) func numbersAreReturnedAsStringsOnRequest(_ way: String) async throws {
        let world = try World()
        try await world.makeZone()
        let big = "9007199254740993"
        let fields = #""fields":{"big":{"value":\#(big),"type":"INT64"},"other":{"value":1}}"#
        _ = try await world.world.ask(
            "private/records/modify",
            #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":"#
                + #"{"recordName":"top","recordType":"Note",\#(fields)}}]}"#
        )
        let made = try await world.world.ask(
            "private/records/modify",
            #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":"#
                + #"{"recordName":"s","recordType":"cloudkit.share","forRecord":{"recordName":"top"},"#
                + #""publicPermission":"READ_ONLY",\#(fields)}}]}"#
        )
        let link = try #require(try made.items("records").first?.text("shortGUID"))
        let answer = try await world.world.ask(
            "public/records/\(way)",
            as: World.bob,
            #"{"numbersAsStrings":true,"shortGUIDs":[{"value":"\#(link)","shouldFetchRootRecord":true,"#
                + #""rootRecordDesiredKeys":["big"]}]}"#
        )
        let found = try #require(try answer.items("results").first)
        #expect(try found["rootRecord"]?.field("big")?.string() == big)
        #expect(try found["rootRecord"]?.field("other") == nil)
        #expect(try found["share"]?.field("big")?.string() == big)
    }

    @Test func openingTheLinkEndsInvitationsAndKeepsParticipants() async throws {
        let world = try World()
        try await world.makeZone()
        let list = [World.participant(World.bob, "READ_WRITE"), World.participant(World.carol)]
        let share = try await world.one(World.share(with: list))
        try await world.accept(share, as: World.bob)
        let open = try await world.one(World.share("forceUpdate", publicly: "READ_ONLY"))
        let participants = try world.participants(of: open)
        #expect(participants.map { $0.text("type") } == ["OWNER", "PUBLIC_USER"])
        #expect(participants[1].text("permission") == "READ_ONLY")
        #expect(try await world.refusal(World.save("a"), in: "shared", as: World.bob) == "ACCESS_DENIED")
        // Carol's invitation has ended; she can join by the link like anybody.
        #expect(try await world.accept(share, as: World.carol).text("participantType") == "PUBLIC_USER")
        let wide = try await world.one(World.share("forceUpdate", publicly: "READ_WRITE"))
        #expect(
            try world.participants(of: wide).dropFirst().map { $0.text("permission") } == ["READ_WRITE", "READ_WRITE"]
        )
        try await world.one(World.save("a"), in: "shared", as: World.carol)
    }

    /// The owner withdraws an invitation and opens the link in one save.
    @Test func openingTheLinkMayOmitPendingInvitees() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.one(
            World.share(with: [World.participant(World.bob), World.participant(World.carol)])
        )
        try await world.accept(share, as: World.bob)
        let current = try world.participants(of: try await world.record(Share.zoneWideName)).map(\.source)
        let withoutBob = World.share("forceUpdate", publicly: "READ_ONLY", with: [current[0], current[2]])
        #expect(try await world.refusal(withoutBob) == "BAD_REQUEST")
        let open = try await world.one(
            World.share("forceUpdate", publicly: "READ_ONLY", with: Array(current.prefix(2)))
        )
        #expect(try world.participants(of: open).map { $0.text("type") } == ["OWNER", "PUBLIC_USER"])
    }

    @Test func closingTheLinkRemovesThoseWhoJoinedByIt() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.one(World.share(publicly: "READ_WRITE"))
        try await world.accept(share, as: World.bob)
        let database = try await world.zones()
        let current = try await world.record(Share.zoneWideName)
        // The owner closes the link and invites somebody in one save. The client still sends those who joined by the
        // link.
        let list = try world.participants(of: current).map(\.source) + [World.participant(World.carol)]
        let tag = current.text("recordChangeTag")
        let closed = try await world.one(World.share("update", tag: tag, publicly: "NONE", with: list))
        #expect(try world.participants(of: closed).map { $0.text("type") } == ["OWNER", "USER"])
        #expect(try await world.zones(since: database.token).names == ["-Notes"])
        let link = try #require(share.text("shortGUID"))
        #expect(try await world.open(link, as: World.bob, by: "accept").text("serverErrorCode") == "ACCESS_DENIED")
        try await world.accept(share, as: World.carol)
    }

    @Test func participantsCannotBeAddedWhileTheLinkIsOpen() async throws {
        let world = try World()
        try await world.makeZone()
        let both = World.share(publicly: "READ_ONLY", with: [World.participant(World.bob)])
        #expect(try await world.refusal(both) == "BAD_REQUEST")
        let share = try await world.one(World.share(publicly: "READ_ONLY"))
        try await world.accept(share, as: World.bob)
        let current = try world.participants(of: try await world.record(Share.zoneWideName)).map(\.source)
        let added = World.share("forceUpdate", with: current + [World.participant(World.carol)])
        #expect(try await world.refusal(added) == "BAD_REQUEST")
        #expect(try await world.refusal(World.share("forceUpdate", with: [])) == "BAD_REQUEST")
        try await world.one(World.share("forceUpdate", with: current, title: "Same people"))
    }

    @Test func theEffectsOfChangingThePublicPermissionAreReported() {
        let share = Share(
            root: nil,
            shortGUID: "g",
            participants: [
                .init(id: "1", permission: .readWrite, hasAccepted: true, user: UserID("_a")),
                .init(id: "2", permission: .readOnly, contact: .email("b@example.org")),
            ]
        )
        let (open, effects) = share.changingPublicPermission(to: .readOnly)
        #expect(effects.endedInvitations.map(\.id) == ["2"] && effects.turnedPublic.map(\.id) == ["1"])
        #expect(effects.removed.isEmpty && open.participants.map(\.permission) == [.readOnly])
        let (closed, losses) = open.changingPublicPermission(to: .none)
        #expect(losses.removed.map(\.id) == ["1"] && closed.participants.isEmpty)
        #expect(share.changingPublicPermission(to: .none).effects == .init())
    }
}
