import HTTPTypes
import Records
import RelayCore
import Testing
import Wire

/// A zone that is shared as a whole.
@Suite struct ZoneShareTests {
    typealias World = ShareWorld

    @Test func aShareHasTheDocumentedMembers() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.one(
            World.share(with: [World.participant(World.bob, "READ_WRITE")], title: "My notes")
        )
        #expect(share.text("recordType") == "cloudkit.share")
        #expect(share.text("recordName") == "cloudkit.zoneshare")
        #expect(share.text("publicPermission") == "NONE")
        #expect((share.text("shortGUID") ?? "").utf8.count >= 22)
        #expect(share.text("url")?.hasSuffix(share.text("shortGUID") ?? "?") == true)
        #expect(try share.field("cloudkit.title")?.string() == "My notes")
        let owner = try share.required("owner")
        #expect(owner.text("type") == "OWNER" && owner.text("acceptanceStatus") == "ACCEPTED")
        #expect(try share.required("currentUserParticipant").text("type") == "OWNER")
        let participants = try world.participants(of: share)
        #expect(participants.map { $0.text("type") } == ["OWNER", "USER"])
        #expect(participants[1].text("permission") == "READ_WRITE")
        #expect(participants[1].text("acceptanceStatus") == "INVITED")
        let info = try participants[1].required("userIdentity").required("lookupInfo")
        #expect(info.text("emailAddress") == World.bob)
        #expect(share.text("shortGUID") == (try await world.record(Share.zoneWideName)).text("shortGUID"))
    }

    @Test func aParticipantSeesTheZoneUnderItsOwnersName() async throws {
        let world = try World()
        try await world.makeZone()
        #expect(try await world.zones().names == [])
        let share = try await world.shareZone(accepting: false)
        let before = try await world.zones()
        #expect(before.names == [])
        let accepted = try await world.accept(share, as: World.bob)
        #expect(accepted.text("databaseScope") == "SHARED")
        #expect(try accepted.required("zoneID").text("ownerRecordName") == (try await world.name(of: "alice")))
        #expect(try await world.zones(since: before.token).names == ["Notes"])
        let listed = try await world.world.ask("shared/zones/list", as: World.bob, method: .get).items("zones")
        let alice = try await world.name(of: "alice")
        #expect(try listed.map { try $0.required("zoneID").text("ownerRecordName") } == [alice])
        #expect(try World.names(try await world.changes()) == ["a", "b", "cloudkit.zoneshare"])
        #expect(try await world.record("a", in: "shared", as: World.bob).field("title")?.string() == "a")
        let id = try await world.zoneID()
        let found = try await world.world.ask(
            "shared/records/query",
            as: World.bob,
            #"{"zoneID":\#(id),"query":{"recordType":"Note"}}"#
        )
        #expect(try found.items("records").count == 2)
        let everywhere = try await world.world.ask(
            "shared/records/query",
            as: World.bob,
            #"{"zoneWide":true,"query":{"recordType":"Note"}}"#
        )
        #expect(try everywhere.items("records").count == 2)
    }

    @Test func joiningTwiceChangesNothing() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone()
        let token = try await world.changes().text("syncToken")
        try await world.accept(share, as: World.bob)
        #expect(try World.names(try await world.changes(since: token)) == [])
        let owner = try await world.open(try #require(share.text("shortGUID")), as: "alice", by: "accept")
        #expect(owner.text("databaseScope") == "PRIVATE")
        #expect(owner.text("participantType") == "OWNER")
    }

    @Test func usersWithoutAccessFindNothing() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone()
        #expect(try await world.record("a", in: "shared", as: World.carol).text("serverErrorCode") == "ZONE_NOT_FOUND")
        #expect(try await world.changes(as: World.carol).text("serverErrorCode") == "ZONE_NOT_FOUND")
        #expect(try await world.refusal(World.save("a"), in: "shared", as: World.carol) == "ZONE_NOT_FOUND")
        #expect(try await world.refusal(World.save("a"), in: "private", as: World.carol) == "ZONE_NOT_FOUND")
        let link = try #require(share.text("shortGUID"))
        let refused = try await world.open(link, as: World.carol, by: "accept")
        #expect(refused.text("serverErrorCode") == "ACCESS_DENIED")
        #expect(refused["share"] == nil && refused["zoneID"] == nil)
        let unknown = try await world.open("AAAAAAAAAAAAAAAAAAAAAA", as: World.carol, by: "accept")
        #expect(unknown.text("serverErrorCode") == "NOT_FOUND")
        #expect(try await world.open(link, as: nil).text("serverErrorCode") == "AUTHENTICATION_REQUIRED")
        #expect(try await world.open("AAAA", as: nil).text("serverErrorCode") == "AUTHENTICATION_REQUIRED")
    }

    @Test func permissionsAreEnforced() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone(with: [World.bob: "READ_ONLY", World.carol: "READ_WRITE"])
        for operation in [World.save("a"), World.save("new", "create"), World.delete("a")] {
            #expect(try await world.refusal(operation, in: "shared", as: World.bob) == "ACCESS_DENIED")
        }
        let saved = try await world.one(World.save("c", title: "carol's"), in: "shared", as: World.carol)
        #expect(try saved.required("created").text("userRecordName") == (try await world.name(of: World.carol)))
        #expect(try saved.required("zoneID").text("ownerRecordName") == (try await world.name(of: "alice")))
        #expect(try await world.record("c").field("title")?.string() == "carol's")
        try await world.one(World.delete("a"), in: "shared", as: World.carol)
        #expect(try World.names(try await world.changes()).contains("c"))
        // Only the owner may do these.
        for operation in [
            World.share("forceUpdate", publicly: "READ_WRITE"), World.share(name: "s", root: "b"),
            World.save("d", extra: #","createShortGUID":true"#),
        ] {
            #expect(try await world.refusal(operation, in: "shared", as: World.carol) == "ACCESS_DENIED")
        }
        let made = try await world.world.ask(
            "shared/zones/modify",
            as: World.carol,
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"X"}}}]}"#
        )
        #expect(made.code == "ACCESS_DENIED")
    }

    /// `UNKNOWN` appears only in responses; as a permission it is undefined.
    @Test func anUnknownPublicPermissionIsRefused() async throws {
        let world = try World()
        try await world.makeZone()
        #expect(try await world.refusal(World.share(publicly: "UNKNOWN")) == "BAD_REQUEST")
        #expect(try await world.record(Share.zoneWideName).text("serverErrorCode") == "NOT_FOUND")
        try await world.one(World.share(publicly: "READ_ONLY"))
        #expect(try await world.refusal(World.share("forceUpdate", publicly: "UNKNOWN")) == "BAD_REQUEST")
        #expect(try await world.record(Share.zoneWideName).text("publicPermission") == "READ_ONLY")
    }

    @Test func aChangedPermissionTakesEffectAtOnce() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone()
        let token = try await world.changes().text("syncToken")
        let bob = try world.participants(of: share)[1].source.replacing("READ_ONLY", with: "READ_WRITE")
        let tag = share.text("recordChangeTag")
        let changed = try await world.one(World.share("update", tag: tag, with: [bob]))
        #expect(try world.participants(of: changed)[1].text("acceptanceStatus") == "ACCEPTED")
        try await world.one(World.save("a"), in: "shared", as: World.bob)
        let page = try await world.changes(since: token)
        let own = try page.required("records").elements().first { $0.text("recordName") == Share.zoneWideName }
        #expect(try own?.required("currentUserParticipant").text("permission") == "READ_WRITE")
        let back = bob.replacing("READ_WRITE", with: "READ_ONLY")
        try await world.one(World.share("update", tag: changed.text("recordChangeTag"), with: [back]))
        #expect(try await world.refusal(World.save("a"), in: "shared", as: World.bob) == "ACCESS_DENIED")
    }

    @Test(arguments: ["remove", "leave", "leave zone", "stop", "delete zone"]) func accessEnds(_ way: String)
        async throws
    {
        let world = try World()
        try await world.makeZone()
        let share = try await world.shareZone(with: [World.bob: "READ_ONLY", World.carol: "READ_WRITE"])
        let database = try await world.zones()
        let token = try await world.changes().text("syncToken")
        switch way {
        case "remove":
            let kept = try world.participants(of: share).filter {
                $0.text("type") == "OWNER" || $0.text("permission") == "READ_WRITE"
            }
            let tag = share.text("recordChangeTag")
            let changed = try await world.one(World.share("update", tag: tag, with: kept.map(\.source)))
            #expect(try world.participants(of: changed).count == 2)
            // A second change follows, based on the result of the first one.
            let again = changed.text("recordChangeTag")
            try await world.one(World.share("update", tag: again, title: "Ours"))
        case "leave":
            let gone = try await world.one(World.delete(Share.zoneWideName), in: "shared", as: World.bob)
            #expect(gone.flag("deleted") == true)
            #expect(try world.participants(of: try await world.record(Share.zoneWideName)).count == 2)
        case "leave zone":
            // Our client translates a deletion into leaving; the wire refuses it.
            #expect(try await world.leaveZone(as: World.bob, by: "delete").code == "ACCESS_DENIED")
            let left = try await world.leaveZone(as: World.bob)
            #expect(try left.items("zones").first?.flag("deleted") == true)
            #expect(try world.participants(of: try await world.record(Share.zoneWideName)).count == 2)
            let again = try await world.leaveZone(as: World.bob).items("zones")
            #expect(again[0].text("serverErrorCode") == "ZONE_NOT_FOUND")
        case "stop": try await world.one(World.delete(Share.zoneWideName))
        default:
            _ = try await world.world.ask(
                "private/zones/modify",
                #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
            )
        }
        #expect(try await world.zones(since: database.token).names == ["-Notes"])
        #expect(try await world.zones().names == [])
        #expect(try await world.changes(since: token).text("serverErrorCode") == "ZONE_NOT_FOUND")
        #expect(try await world.record("a", in: "shared", as: World.bob).text("serverErrorCode") == "ZONE_NOT_FOUND")
        let link = try #require(share.text("shortGUID"))
        let isOver = way == "stop" || way == "delete zone"
        let reopened = try await world.open(link, as: World.bob, by: "accept")
        #expect(reopened.text("serverErrorCode") == (isOver ? "NOT_FOUND" : "ACCESS_DENIED"))
        let other = try await world.record("a", in: "shared", as: World.carol).text("serverErrorCode")
        #expect(other == (isOver ? "ZONE_NOT_FOUND" : nil))
        if way == "stop" { #expect(try await world.record("a").field("title")?.string() == "a") }
    }

    @Test func aZoneNamesItsShareAndQueriesFindShares() async throws {
        let world = try World()
        try await world.makeZone()
        func zone() async throws -> JSONValue {
            try #require(
                try await world.world.ask("private/zones/lookup", #"{"zones":[{"zoneName":"Notes"}]}"#).items("zones")
                    .first
            )
        }
        #expect(try await zone()["share"] == nil)
        try await world.shareZone()
        #expect(try await zone()["share"]?.text("recordName") == Share.zoneWideName)
        for (database, user) in [("private", "alice"), ("shared", World.bob)] {
            let id = try await world.zoneID()
            let body = #"{"zoneID":\#(id),"query":{"recordType":"cloudkit.share"}}"#
            let found = try await world.world.ask("\(database)/records/query", as: user, body).items("records")
            #expect(found.map { $0.text("recordName") } == [Share.zoneWideName])
            #expect(found.first?["participants"] != nil)
        }
        let all = try await world.world.ask("shared/zones/list", as: World.bob, "{}").items("zones")
        #expect(all.first?["share"]?.text("recordName") == Share.zoneWideName)
    }

    @Test func aReturningParticipantStartsAnew() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone()
        let token = try await world.changes().text("syncToken")
        let database = try await world.zones()
        try await world.one(World.delete(Share.zoneWideName))
        let second = try await world.shareZone(accepting: false)
        try await world.accept(second, as: World.bob)
        #expect(try await world.changes(since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        #expect(try World.names(try await world.changes()).contains("a"))
        #expect(try await world.zones(since: database.token).names == ["Notes"])
    }

    /// A hundred, including the owner.
    @Test func theNumberOfParticipantsIsLimited() async throws {
        let world = try World()
        try await world.makeZone()
        let people = (0..<100).map { World.participant("p\($0)@example.org") }
        let answer = try await world.modify([World.share(with: people)], atomic: false)
        let refused = try #require(try answer.items("records").first)
        #expect(refused.text("serverErrorCode") == "BAD_REQUEST")
        #expect(refused.text("ckErrorCode") == "TOO_MANY_PARTICIPANTS")
        #expect(refused.text("reason")?.hasPrefix("A share has at most 100 participants") == true)
        let share = try await world.one(World.share(with: Array(people.dropLast())))
        #expect(try world.participants(of: share).count == 100)
        let more = try await world.modify([World.share("forceUpdate", with: people)], atomic: false)
        #expect(try more.items("records").first?.text("ckErrorCode") == "TOO_MANY_PARTICIPANTS")
        // Replacing a participant keeps the number.
        let swapped = people.dropLast(2) + [people[99]]
        let changed = try await world.one(World.share("forceUpdate", with: Array(swapped)))
        #expect(try world.participants(of: changed).count == 100)
    }

    /// Applies to invitations and links; existing participants stay.
    @Test func theLimitOfParticipantsIsConfigurable() async throws {
        var limits = Limits()
        limits.participants = 3
        let world = try World(limits: limits)
        try await world.makeZone()
        let people = (0..<3).map { World.participant("p\($0)@example.org") }
        let refused = try #require(
            try await world.modify([World.share(with: people)], atomic: false).items("records").first
        )
        #expect(refused.text("reason")?.hasPrefix("A share has at most 3 participants") == true)
        let share = try await world.one(World.share(publicly: "READ_ONLY"))
        for number in 0..<2 { try await world.accept(share, as: "p\(number)@example.org") }
        let link = try #require(share.text("shortGUID"))
        let late = try await world.open(link, as: "late@example.org", by: "accept")
        #expect(late.text("reason") == refused.text("reason"))
    }

    @Test func aPublicLinkAdmitsUsersUpToTheLimit() async throws {
        let world = try World()
        try await world.makeZone()
        let share = try await world.one(World.share(publicly: "READ_ONLY"))
        for number in 0..<99 { try await world.accept(share, as: "p\(number)@example.org") }
        let link = try #require(share.text("shortGUID"))
        let refused = try await world.open(link, as: "late@example.org", by: "accept")
        #expect(refused.text("ckErrorCode") == "TOO_MANY_PARTICIPANTS")
        #expect(refused.text("serverErrorCode") == "BAD_REQUEST" && refused.text("reason") != nil)
        #expect(try await world.zones(as: "late@example.org").names == [])
        // A participant can open the link again, and one who leaves makes room.
        try await world.accept(share, as: "p7@example.org")
        try await world.one(World.delete(Share.zoneWideName), in: "shared", as: "p7@example.org")
        try await world.accept(share, as: "late@example.org")
        #expect(try world.participants(of: await world.record(Share.zoneWideName)).count == 100)
    }

    @Test func aShareThatCannotBeCreatedIsRefused() async throws {
        let world = try World()
        try await world.makeZone()
        #expect(try await world.refusal(World.share(name: "odd")) == "NOT_FOUND")
        #expect(try await world.refusal(World.share(name: "s", root: "nobody")) == "NOT_FOUND")
        #expect(try await world.refusal(World.share(), zone: "_defaultZone") == "BAD_REQUEST")
        let inPublic = try await world.world.ask(
            "public/records/modify",
            #"{"operations":[\#(World.share())]}"#
        )
        #expect(try inPublic.items("records").first?.text("serverErrorCode") == "BAD_REQUEST")
        try await world.shareZone(with: [:])
        let second = try await world.modify([World.share(name: "s", root: "a")], atomic: false)
        #expect(try second.items("records").first?.text("ckErrorCode") == "ALREADY_SHARED")
        #expect(try await world.refusal(World.share()) == "CONFLICT")
    }
}
