import HTTPTypes
import Records
import Testing
import Wire

/// A root record, shared with all its descendants through `parent`.
@Suite struct HierarchyShareTests {
    typealias World = ShareWorld

    static func child(_ name: String, of parent: String?, _ kind: String = "forceUpdate", title: String = "t") -> String
    {
        let above = parent.map { #"{"recordName":"\#($0)"}"# } ?? "null"
        return World.save(name, kind, title: title, extra: #","parent":\#(above)"#)
    }

    /// Creates a list with items, one of them with a part, and another list that is not shared.
    private func lists() async throws -> World {
        let world = try World()
        try await world.makeZone(notes: [])
        let answer = try await world.modify([
            World.save("list"), Self.child("item", of: "list"), Self.child("part", of: "item"),
            World.save("other"), Self.child("secret", of: "other"),
        ])
        #expect(answer.status == 200, "\(answer.json.text("reason") ?? "")")
        return world
    }

    @discardableResult
    private func shareList(
        _ world: World,
        _ people: [String: String] = [World.bob: "READ_WRITE"],
        root: String = "list",
        name: String = "share"
    ) async throws -> JSONValue {
        let list = people.sorted { $0.key < $1.key }.map { World.participant($0.key, $0.value) }
        let share = try await world.one(World.share(name: name, root: root, with: list, title: "List"))
        for user in people.keys { try await world.accept(share, as: user) }
        return share
    }

    @Test func aRootAndItsShareAreSavedInOneRequest() async throws {
        let world = try World()
        try await world.makeZone(notes: [])
        // The share comes before its root, as some clients order them.
        let answer = try await world.modify([
            World.share(name: "share", root: "list", with: []),
            World.save("list", "create", extra: #","createShortGUID":true"#), Self.child("item", of: "list", "create"),
        ])
        let records = try answer.items("records")
        #expect(records.map { $0.text("recordName") } == ["share", "list", "item"])
        #expect(records[0].text("shortGUID") == records[1].text("shortGUID"))
        #expect(try records[1].required("share").text("recordName") == "share")
        #expect(try records[0].required("rootRecord").text("recordName") == "list")
        let fetched = try await world.record("list")
        #expect(fetched.text("shortGUID") == records[0].text("shortGUID"))
        #expect(fetched["stableUrl"] != nil)
    }

    @Test func aShareWhoseRootIsRefusedFailsToo() async throws {
        let world = try await lists()
        let stale = try await world.modify([
            World.save("new", "update", extra: #","recordChangeTag":"1""#), World.share(name: "share", root: "new"),
        ])
        #expect(stale.code == "ATOMIC_ERROR")
        let loose = try await world.modify(
            [World.save("new", "update", extra: #","recordChangeTag":"1""#), World.share(name: "share", root: "new")],
            atomic: false
        )
        #expect(try loose.items("records").map { $0.text("serverErrorCode") } == ["NOT_FOUND", "NOT_FOUND"])
        #expect(try await world.record("share").text("serverErrorCode") == "NOT_FOUND")
    }

    @Test func participantsSeeOnlyTheHierarchy() async throws {
        let world = try await lists()
        try await shareList(world)
        #expect(try World.names(try await world.changes()).sorted() == ["item", "list", "part", "share"])
        for name in ["other", "secret", "nothing"] {
            let shared = try await world.record(name, in: "shared", as: World.bob)
            #expect(shared.text("serverErrorCode") == "NOT_FOUND" && shared.text("reason") == "Record not found")
            #expect(try shared.members().count == 4, "name, reason, code and the request's uuid")
        }
        let id = try await world.zoneID()
        for zone in [#""zoneID":\#(id)"#, #""zoneWide":true"#] {
            let found = try await world.world.ask(
                "shared/records/query",
                as: World.bob,
                #"{\#(zone),"query":{"recordType":"Note","sortBy":[{"fieldName":"___modTime"}]}}"#
            )
            #expect(try Set(found.items("records").compactMap { $0.text("recordName") }) == ["list", "item", "part"])
        }
    }

    @Test func changesOutsideTheHierarchyAreNotInTheFeed() async throws {
        let world = try await lists()
        try await shareList(world)
        let token = try #require(try await world.changes().text("syncToken"))
        let database = try await world.zones()
        try await world.one(World.save("other", title: "changed"))
        try await world.one(Self.child("secret2", of: "other"))
        #expect(try await world.zones(since: database.token).names == [])
        let page = try await world.changes(since: token)
        #expect(try World.names(page) == [])
        #expect(page.text("syncToken") == token)
        try await world.one(Self.child("item", of: "list", title: "changed"))
        #expect(try await world.zones(since: database.token).names == ["Notes"])
        #expect(try World.names(try await world.changes(since: token)) == ["item"])
    }

    @Test func writesOutsideTheHierarchyAreRefused() async throws {
        let world = try await lists()
        try await shareList(world)
        func refused(_ operation: String) async throws -> String? {
            try await world.refusal(operation, in: "shared", as: World.bob)
        }
        // A record out of sight and a missing one look alike.
        for name in ["secret", "nothing"] {
            let update = World.save(name, "update", extra: #","recordChangeTag":"1""#)
            #expect(try await refused(update) == "NOT_FOUND")
            #expect(try await refused(World.delete(name)) == nil)
            #expect(try await refused(World.save(name)) == "ACCESS_DENIED")
        }
        #expect(try await world.record("secret").text("serverErrorCode") == nil)
        #expect(try await refused(World.save("loose", "create")) == "ACCESS_DENIED")
        for parent in ["other", "nothing"] {
            #expect(try await refused(Self.child("new", of: parent, "create")) == "VALIDATING_REFERENCE_ERROR")
        }
        #expect(try await refused(Self.child("item", of: nil)) == "ACCESS_DENIED")
        #expect(try await refused(World.delete("list")) == "ACCESS_DENIED")
        try await world.one(Self.child("new", of: "item", "create"), in: "shared", as: World.bob)
        try await world.one(World.save("list", "forceReplace", title: "bob's"), in: "shared", as: World.bob)
        #expect(try await world.record("new").text("recordName") == "new")
        #expect(try await world.record("list", in: "shared", as: World.bob)["share"] != nil)
        try await world.one(World.delete("new"), in: "shared", as: World.bob)
        // A name that was in use before can be used again.
        try await world.one(Self.child("new", of: "item", "create"), in: "shared", as: World.bob)
    }

    @Test func recordsMoveIntoAndOutOfTheHierarchy() async throws {
        let world = try await lists()
        try await shareList(world)
        var token = try await world.changes().text("syncToken")
        // A whole branch leaves, and a whole branch enters.
        try await world.one(Self.child("item", of: "other"))
        var page = try await world.changes(since: token)
        #expect(try World.names(page).sorted() == ["-item", "-part"])
        #expect(try await world.record("part", in: "shared", as: World.bob).text("serverErrorCode") == "NOT_FOUND")
        token = page.text("syncToken")
        try await world.one(Self.child("secret", of: "list"))
        try await world.one(Self.child("item", of: "secret"))
        page = try await world.changes(since: token)
        #expect(try World.names(page).sorted() == ["item", "part", "secret"])
        #expect(try World.names(try await world.changes()).sorted() == ["item", "list", "part", "secret", "share"])
        token = page.text("syncToken")
        try await world.modify([World.delete("part"), World.delete("item")]).checked()
        #expect(try World.names(try await world.changes(since: token)).sorted() == ["-item", "-part"])
    }

    /// CloudKit does not forbid cycles of parents, so the relay accepts them and never loops in one.
    @Test func cyclesOfParentsDoNotLoop() async throws {
        let world = try await lists()
        let round = [Self.child("other", of: "part2"), Self.child("part2", of: "other")]
        try await world.modify(round).checked()
        try await shareList(world)
        try await world.one(Self.child("item", of: "part"))
        try await world.one(World.share(name: "second", root: "other", with: []))
        try await world.one(Self.child("item", of: "list"))
        #expect(try World.names(try await world.changes()).sorted() == ["item", "list", "part", "share"])
        let all = ["share", "second", "secret", "list", "item", "part", "other", "part2"]
        try await world.modify(all.map(World.delete)).checked()
        #expect(try World.names(try await world.changes(as: "alice", in: "private")) == [])
    }

    /// A record that reuses a name after it left the hierarchy must not show in its tombstone.
    @Test func aTombstoneHasTheTypeThatTheRecordHadInTheHierarchy() async throws {
        let world = try await lists()
        try await shareList(world)
        let token = try await world.changes().text("syncToken")
        try await world.one(Self.child("item", of: "other"))
        try await world.modify([World.delete("part")]).checked()
        for name in ["part", "item"] { try await world.modify([World.delete(name)]).checked() }
        for name in ["part", "item"] { try await world.one(World.save(name, "create", type: "Secret")) }
        for limit in [1, 200] {
            var (start, gone) = (token, [JSONValue]())
            for _ in 0..<3 {
                let page = try await world.changes(since: start, limit: limit)
                gone += try page.required("records").elements()
                start = page.text("syncToken")
            }
            #expect(gone.compactMap { $0.text("recordName") }.sorted() == ["item", "part"])
            #expect(gone.allSatisfy { $0.text("recordType") == "Note" && $0.flag("deleted") == true })
        }
        // Tombstones are filtered by the type that the record had.
        let id = try await world.zoneID()
        for (type, count) in [("Note", 2), ("Secret", 0)] {
            let answer = try await world.world.ask(
                "shared/changes/zone",
                as: World.bob,
                #"{"zones":[{"zoneID":\#(id),"syncToken":"\#(token ?? "")","desiredRecordTypes":["\#(type)"]}]}"#
            )
            #expect(try answer.items("zones").first?.required("records").elements().count == count)
        }
        // Back in the hierarchy, the record shows its current type.
        try await world.one(Self.child("list2", of: "list"))
        let back = World.save(
            "item",
            "update",
            type: "Secret",
            extra:
                #","recordChangeTag":"\#(try await world.record("item").text("recordChangeTag") ?? "")","parent":{"recordName":"list2"}"#
        )
        try await world.one(back)
        let page = try await world.changes(since: token)
        let item = try #require(try page.required("records").elements().first { $0.text("recordName") == "item" })
        #expect(item.text("recordType") == "Secret" && item.flag("deleted") == false)
    }

    @Test func pagesOfAnySizeYieldTheSameRecords() async throws {
        let world = try await lists()
        try await shareList(world)
        let start = try await world.changes().text("syncToken")
        for step in 0..<12 {
            try await world.one(Self.child("n\(step)", of: step % 3 == 0 ? "other" : "list"))
            if step % 4 == 3 { try await world.one(Self.child("n\(step - 1)", of: "secret")) }
        }
        for limit in [1, 2, 5, 200] {
            var seen: [String: Bool] = [:]
            var token = start
            for _ in 0..<40 {
                let page = try await world.changes(since: token, limit: limit)
                for record in try page.required("records").elements() {
                    seen[try record.required("recordName").string()] = record.flag("deleted") == true
                }
                token = page.text("syncToken")
                if page.flag("moreComing") == false { break }
            }
            let live = seen.filter { !$0.value }.keys.sorted()
            let whole = try World.names(try await world.changes())
            #expect(live == whole.filter { $0.hasPrefix("n") }.sorted(), "page size \(limit)")
        }
    }

    @Test func aRecordIsInAtMostOneShare() async throws {
        let world = try await lists()
        try await shareList(world)
        func errorCode(_ operation: String) async throws -> String? {
            try await world.modify([operation], atomic: false).items("records").first?.text("ckErrorCode")
        }
        #expect(try await errorCode(World.share(name: "s2", root: "list")) == "ALREADY_SHARED")
        let second = try await world.modify([World.share(name: "s2", root: "list")], atomic: false).items("records")
            .first
        #expect(second?.text("serverErrorCode") == "EXISTS", "the record itself is shared already")
        #expect(try await errorCode(World.share(name: "s2", root: "part")) == "ALREADY_SHARED")
        #expect(try await errorCode(World.share(with: [])) == "ALREADY_SHARED")
        try await world.one(World.share(name: "s2", root: "secret", with: []))
        #expect(try await errorCode(Self.child("secret", of: "list")) == "ALREADY_SHARED")
        #expect(try await errorCode(Self.child("other", of: "part")) == "ALREADY_SHARED")
        #expect(try await errorCode(World.share(name: "s3", root: "other")) == "ALREADY_SHARED")
    }

    @Test func twoSharesInAZoneAreSeenAsOneZone() async throws {
        let world = try await lists()
        try await shareList(world, [World.bob: "READ_ONLY"])
        let token = try await world.changes().text("syncToken")
        try await shareList(world, [World.bob: "READ_WRITE", World.carol: "READ_WRITE"], root: "other", name: "second")
        #expect(try await world.changes(since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        let all = ["item", "list", "other", "part", "second", "secret", "share"]
        #expect(try World.names(try await world.changes()).sorted() == all)
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == ["other", "second", "secret"])
        let item = Self.child("item", of: "list")
        #expect(try await world.refusal(item, in: "shared", as: World.bob) == "ACCESS_DENIED")
        try await world.one(Self.child("secret", of: "other"), in: "shared", as: World.bob)
        // The record moves from one share to the other: carol loses it, bob keeps it.
        let bobs = try await world.changes().text("syncToken")
        let carols = try await world.changes(as: World.carol).text("syncToken")
        try await world.one(Self.child("secret", of: "list"))
        #expect(try World.names(try await world.changes(since: bobs)) == ["secret"])
        #expect(try World.names(try await world.changes(as: World.carol, since: carols)) == ["-secret"])
        // After one of the shares ended, the rest is fetched anew, and the zone stays.
        let database = try await world.zones()
        try await world.one(World.delete("second"))
        #expect(try await world.zones(since: database.token).names == ["Notes"])
        #expect(try await world.zones(as: World.carol).names == [])
        #expect(try World.names(try await world.changes()).sorted() == ["item", "list", "part", "secret", "share"])
    }

    @Test func deletingTheSharedZoneLeavesAllItsShares() async throws {
        let world = try await lists()
        try await shareList(world)
        try await shareList(world, [World.bob: "READ_ONLY", World.carol: "READ_ONLY"], root: "other", name: "second")
        let token = try await world.zones().token
        #expect(try await world.leaveZone(as: World.bob).items("zones").first?.flag("deleted") == true)
        #expect(try await world.zones(since: token).names == ["-Notes"])
        #expect(try await world.zones(as: World.carol).names == ["Notes"])
        #expect(try await world.record("list").text("serverErrorCode") == nil)
    }

    @Test(arguments: ["share", "list"]) func theShareEndsWithItsRecordOrItsRoot(_ name: String) async throws {
        let world = try await lists()
        let share = try await shareList(world)
        let database = try await world.zones()
        let gone = name == "list" ? ["part", "item", "list"] : ["share"]
        try await world.modify(gone.map(World.delete)).checked()
        #expect(try await world.zones(since: database.token).names == ["-Notes"])
        #expect(try await world.changes().text("serverErrorCode") == "ZONE_NOT_FOUND")
        #expect(try await world.record("share").text("serverErrorCode") == "NOT_FOUND")
        let link = try #require(share.text("shortGUID"))
        #expect(try await world.open(link, as: World.bob).text("serverErrorCode") == "NOT_FOUND")
        guard name == "share" else { return }
        // The owner keeps the records and can share them again with another link.
        let root = try await world.record("list")
        #expect(root["share"] == nil && root["shortGUID"] == nil)
        let again = try await shareList(world, name: "again")
        #expect(again.text("shortGUID") != link)
        #expect(try World.names(try await world.changes()).sorted() == ["again", "item", "list", "part"])
    }
}

extension Answer {
    /// Expects that the request and every record of it succeeded.
    func checked() throws {
        #expect(status == 200, "\(json.text("reason") ?? "")")
        for record in try items("records") {
            #expect(record.text("serverErrorCode") == nil, "\(record.text("reason") ?? "")")
        }
    }
}
