import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Moving records between zones.
@Suite struct MoveRecordsTests {
    typealias World = ShareWorld

    private func move(
        _ world: World,
        _ names: [String]?,
        from source: String = "Notes",
        to destination: String = "Shared",
        extra: String = "",
        in database: String = "private",
        as user: String = "alice"
    ) async throws -> Answer {
        let what =
            names.map { list in
                #""records":[\#(list.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ","))]"#
            } ?? #""allRecords":true"#
        return try await world.world.ask(
            "\(database)/records/move",
            as: user,
            #"{"zoneID":{"zoneName":"\#(source)"},"destinationZoneID":{"zoneName":"\#(destination)"},\#(what)\#(extra)}"#
        )
    }

    @Test func recordsMoveInOneCommitWithAllTheirProperties() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.one(HierarchyShareTests.child("kid", of: "a"))
        let zone = try await world.zoneID()
        try await world.one(
            #"{"operationType":"forceUpdate","record":{"recordName":"b","recordType":"Note","fields":{"#
                + #""up":{"value":{"recordName":"a","action":"DELETE_SELF","zoneID":\#(zone)}}}}}"#
        )
        let before = try await world.record("a")
        let token = try await world.changes(as: "alice", in: "private").text("syncToken")
        let answer = try await move(world, ["kid", "a", "b"], extra: #","createDestination":true"#)
        #expect(answer.status == 200)
        #expect(try answer.items("records").map { $0.text("recordName") } == ["kid", "a", "b"])
        let after = try await world.record("a", zone: "Shared")
        #expect(try after.field("title")?.string() == "a")
        #expect(try after.required("created").source == (try before.required("created").source))
        #expect(try after.required("modified").source == (try before.required("modified").source))
        #expect(after.text("recordChangeTag") == (try answer.items("records"))[1].text("recordChangeTag"))
        let reference = try #require(try await world.record("b", zone: "Shared").field("up"))
        #expect(try reference.required("zoneID").text("zoneName") == "Shared")
        #expect(try await world.record("kid", zone: "Shared").required("parent").text("recordName") == "a")
        let left = try await world.changes(as: "alice", since: token, in: "private")
        #expect(try World.names(left).sorted() == ["-a", "-b", "-kid"])
        let there = try await world.changes(as: "alice", zone: "Shared", in: "private")
        #expect(try World.names(there).sorted() == ["a", "b", "kid"])
        // The share that the reference leads to came along.
        try await world.modify([World.delete("kid"), World.delete("a")], zone: "Shared").checked()
        #expect(try await world.record("b", zone: "Shared").text("serverErrorCode") == "NOT_FOUND")
    }

    /// The owner's tombstone says where the record went; participants see only that it left.
    ///
    /// A deletion says nothing.
    @Test func tombstonesSayWhereRecordsMoved() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b"])
        try await world.shareZone()
        let mine = try await world.changes(as: "alice", in: "private").text("syncToken")
        let theirs = try await world.changes().text("syncToken")
        #expect(try await move(world, ["a"], extra: #","createDestination":true"#).status == 200)
        try await world.modify([World.delete("b")]).checked()
        let left = try await world.changes(as: "alice", since: mine, in: "private").required("records").elements()
        #expect(left.map { $0.text("recordName") } == ["a", "b"])
        #expect(left.map { $0.text("movedTo") } == ["Shared", nil])
        let seen = try await world.changes(since: theirs).required("records").elements()
        #expect(seen.map { $0.text("recordName") } == ["a", "b"])
        #expect(seen.allSatisfy { $0["movedTo"] == nil })
        // Participants can still tell a move out of their sight from a deletion.
        #expect(try seen.map { try $0["outOfSight"]?.bool() } == [true, nil])
        #expect(left.allSatisfy { $0["outOfSight"] == nil })
    }

    @Test func aMoveIsAtomic() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b"])
        try await world.makeZone("Shared", notes: ["b"])
        let answer = try await move(world, ["a", "b", "nobody"])
        #expect(answer.status == 400 && answer.code == "ATOMIC_ERROR" && answer.response.errorCode == .atomicError)
        let records = try answer.items("records")
        #expect(records.map { $0.text("recordName") } == ["b", "nobody"])
        #expect(records.map { $0.text("serverErrorCode") } == ["EXISTS", "NOT_FOUND"])
        #expect(try await world.record("a").text("serverErrorCode") == nil)
        #expect(try await world.record("a", zone: "Shared").text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func referencingRecordsMoveTogetherOrNotAtAll() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a"])
        try await world.one(HierarchyShareTests.child("kid", of: "a"))
        for name in ["a", "kid"] {
            let answer = try await move(world, [name], extra: #","createDestination":true"#)
            #expect(try answer.items("records").first?.text("serverErrorCode") == "VALIDATING_REFERENCE_ERROR")
        }
        #expect(try await move(world, ["a", "kid"], extra: #","createDestination":true"#).status == 200)
    }

    @Test func repeatingAMoveSucceeds() async throws {
        let world = try World()
        try await world.makeZone()
        for _ in 0..<2 {
            let answer = try await move(world, ["a", "b"], extra: #","createDestination":true"#)
            #expect(answer.status == 200)
            #expect(try answer.items("records").count == 2)
        }
        for _ in 0..<2 {
            let back = try await move(world, nil, from: "Shared", to: "Notes", extra: #","deleteSource":true"#)
            #expect(back.status == 200)
        }
        #expect(try World.names(try await world.changes(as: "alice", in: "private")).sorted() == ["a", "b"])
    }

    /// The first response was lost; before the repeat, others changed the records.
    @Test func aRepeatWithItsOperationIDMovesNothingAgain() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.makeZone("Shared", notes: [])
        let named = #","operationID":"m1""#
        _ = try await move(world, ["a", "b"], extra: named)
        let back = try await move(world, ["a"], from: "Shared", to: "Notes")
        #expect(back.status == 200)
        let again = try await move(world, ["a", "b"], extra: named)
        #expect(again.status == 200)
        let records = try again.items("records")
        #expect(records.map { $0.text("recordName") } == ["a", "b"])
        #expect(records[0].flag("deleted") == true && records[1].text("recordChangeTag") != nil)
        #expect(try await world.record("a").text("serverErrorCode") == nil)
        #expect(try await move(world, ["b"], extra: named).code == "BAD_REQUEST")
        // Without an operation ID, the change tag keeps a late repeat from doing harm.
        let tag = try await world.record("a").text("recordChangeTag") ?? ""
        let tagged =
            #"{"zoneID":{"zoneName":"Notes"},"destinationZoneID":{"zoneName":"Shared"},"records":[{"recordName":"a","recordChangeTag":"\#(tag)"}]}"#
        #expect(try await world.world.ask("private/records/move", tagged).status == 200)
        #expect(try await world.world.ask("private/records/move", tagged).status == 200)
        _ = try await move(world, ["a"], from: "Shared", to: "Notes")
        let late = try await world.world.ask("private/records/move", tagged)
        #expect(try late.items("records").first?.text("serverErrorCode") == "CONFLICT")
    }

    @Test func aRepeatedMoveOfAZoneLeavesRecordsCreatedSince() async throws {
        let world = try World()
        try await world.makeZone()
        let named = #","operationID":"m2","createDestination":true"#
        #expect(try await move(world, nil, extra: named).items("records").count == 2)
        try await world.one(World.save("since"))
        let again = try await move(world, nil, extra: named)
        #expect(again.status == 200)
        #expect(try await world.record("since").text("serverErrorCode") == nil)
        // A zone that is gone since is reported as missing.
        _ = try await world.world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneName":"Shared"}}]}"#
        )
        let third = try await move(world, nil, extra: named)
        #expect(try third.json.required("destination").flag("deleted") == true)
    }

    /// A refused move was not made, and may be repeated under its operation ID.
    @Test func aRefusedMoveMayBeRepeated() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.makeZone("Shared", notes: ["a"])
        let named = #","operationID":"m3""#
        #expect(try await move(world, ["a"], extra: named).status == 400)
        try await world.modify([World.delete("a")], zone: "Shared").checked()
        #expect(try await move(world, ["a"], extra: named).status == 200)
    }

    @Test func staleTagsAndForeignZonesAreRefused() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.makeZone("Shared", notes: [])
        let stale = try await world.world.ask(
            "private/records/move",
            #"{"zoneID":{"zoneName":"Notes"},"destinationZoneID":{"zoneName":"Shared"},"#
                + #""records":[{"recordName":"a","recordChangeTag":"1"}]}"#
        )
        #expect(try stale.items("records").first?.text("serverErrorCode") == "CONFLICT")
        #expect(try stale.items("records").first?["serverRecord"] != nil)
        #expect(try await move(world, ["a"], to: "Nowhere").code == "ZONE_NOT_FOUND")
        #expect(try await move(world, ["a"], to: "Notes").code == "BAD_REQUEST")
        #expect(try await move(world, ["a"], in: "public").code == "BAD_REQUEST")
        #expect(try await move(world, ["a", "a"]).code == "BAD_REQUEST")
        #expect(try await move(world, ["a"], as: World.bob).code == "ZONE_NOT_FOUND")
        let id = try await world.zoneID()
        let shared = try await world.world.ask(
            "shared/records/move",
            as: World.bob,
            #"{"zoneID":\#(id),"destinationZoneID":\#(id),"records":[]}"#
        )
        #expect(shared.code == "ACCESS_DENIED")
        let rest = try await move(world, ["a"], extra: #","deleteSource":true"#)
        #expect(rest.code == "BAD_REQUEST")
        #expect(try await world.record("b").text("serverErrorCode") == nil)
    }

    /// Sharing existing records, and stopping: the owner always has all records, participants have them from the one
    /// moment to the other.
    @Test func recordsMoveIntoASharedZoneAndBack() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.world.makeZone("share.1")
        let share = try await world.shareZone("share.1")
        try await world.accept(share, as: World.bob)
        let start = try await world.changes(zone: "share.1").text("syncToken")
        #expect(try await move(world, ["a", "b"], to: "share.1").status == 200)
        #expect(try World.names(try await world.changes(since: start, zone: "share.1")) == ["a", "b"])
        // A participant writes; the owner stops sharing.
        try await world.one(
            World.share("forceUpdate", with: [World.participant(World.bob, "READ_WRITE")]),
            zone: "share.1"
        )
        try await world.one(World.save("bobs"), in: "shared", zone: "share.1", as: World.bob)
        let database = try await world.zones()
        let back = try await move(world, nil, from: "share.1", to: "Notes", extra: #","deleteSource":true"#)
        #expect(back.status == 200)
        #expect(try back.json.required("source").flag("deleted") == true)
        #expect(try await world.zones(since: database.token).names == ["-share.1"])
        let all = try World.names(try await world.changes(as: "alice", in: "private"))
        #expect(all.sorted() == ["a", "b", "bobs", "c"])
        #expect(try await world.record("share.1").text("serverErrorCode") == "NOT_FOUND")
        let link = try #require(share.text("shortGUID"))
        #expect(try await world.open(link, as: World.bob).text("serverErrorCode") == "NOT_FOUND")
    }

    /// Existing records of the destination count as well, even if they only appear in the response.
    @Test func theBytesOfDestinationRecordsAreLimitedToo() async throws {
        var limits = Limits()
        limits.bytesPerMove = 2_000
        let world = try World(limits: limits)
        try await world.makeZone(notes: ["a", "b"])
        try await world.makeZone("Shared", notes: [])
        let long = String(repeating: "x", count: 1_500)
        for name in ["a", "b"] { try await world.one(World.save(name, "create", title: long), zone: "Shared") }
        let refused = try await move(world, ["a", "b"])
        #expect(refused.code == "BAD_REQUEST" && refused.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        let one = try await move(world, ["a"])
        #expect(try one.items("records").first?.text("serverErrorCode") == "EXISTS")
    }

    /// Conflicting records are part of the response, and there may be ten thousand of them.
    @Test func theResponseToARefusedMoveIsLimited() async throws {
        var limits = Limits()
        (limits.answerBytes, limits.recordBytes) = (20_000, 10_000)
        let world = try World(limits: limits)
        let names = ["a", "b", "c"]
        for zone in ["Notes", "Shared"] {
            try await world.makeZone(zone, notes: [])
            for name in names {
                try await world.one(World.save(name, title: String(repeating: "x", count: 9_000)), zone: zone)
            }
        }
        let few = try await move(world, Array(names.prefix(2)))
        #expect(few.code == "ATOMIC_ERROR" && few.response.body.count > 18_000)
        let many = try await move(world, names)
        #expect(many.json.text("ckErrorCode") == "LIMIT_EXCEEDED" && many.response.body.count < 1_000)
    }
}
