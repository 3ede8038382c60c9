import Foundation
import Records
import RelayCore
import Testing
import Wire

/// What only a share's owner may do, and what nobody can keep them from doing.
@Suite struct OwnersRightTests {
    typealias World = ShareWorld

    /// A list with a chain of items, which bob may change and carol may read.
    private func list(limits: Limits = Limits()) async throws -> World {
        let world = try World(limits: limits)
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("a", of: "list"), HierarchyShareTests.child("b", of: "a"),
            HierarchyShareTests.child("c", of: "b"), HierarchyShareTests.child("item", of: "list"),
        ]).checked()
        let people = [World.participant(World.bob, "READ_WRITE"), World.participant(World.carol, "READ_ONLY")]
        let share = try await world.one(World.share(name: "share", root: "list", with: people, title: "List"))
        for user in [World.bob, World.carol] { try await world.accept(share, as: user) }
        return world
    }

    private static func pointer(_ name: String, to target: String, _ action: String, above: String = "") -> String {
        #"""
        {"operationType":"forceUpdate","record":{"recordName":"\#(name)","recordType":"Note"\#(above),"fields":{"to":
        {"value":{"recordName":"\#(target)","action":"\#(action)"}}}}}
        """#
    }

    // MARK: The end of a share

    /// The root says that it goes with the item; who deletes that would end the share.
    @Test(arguments: [true, false]) func noGuestEndsAShareByTheWay(_ isAtomic: Bool) async throws {
        let world = try await list()
        try await world.one(Self.pointer("list", to: "item", "DELETE_SELF"), in: "shared", as: World.bob)
        let all = ["c", "b", "a", "item"].map(World.delete)
        let answer = try await world.modify(all, in: "shared", as: World.bob, atomic: isAtomic)
        #expect(try answer.items("records").last?.text("serverErrorCode") == "ACCESS_DENIED")
        let left = isAtomic ? ["a", "b", "c", "item", "list", "share"] : ["item", "list", "share"]
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == left)
        // The owner may.
        try await world.modify(all, atomic: false).checked()
        #expect(try await world.zones(as: World.carol).names == [])
    }

    /// Whatever a guest lets refer to it, the share can be ended.
    @Test(arguments: ["VALIDATE", "DELETE_SELF", "NONE"]) func noGuestKeepsAShareAlive(_ action: String) async throws {
        let world = try await list()
        let above = #","parent":{"recordName":"list"}"#
        try await world.one(Self.pointer("evil", to: "share", action, above: above), in: "shared", as: World.bob)
        let below = HierarchyShareTests.child("below", of: "share")
        #expect(try await world.refusal(below, in: "shared", as: World.bob) == "BAD_REQUEST")
        #expect(try await world.refusal(below) == "BAD_REQUEST")
        try await world.one(World.delete("share"))
        #expect(try await world.zones(as: World.bob).names == [])
    }

    @Test func nobodyElseTakesTheNameOfAZonesShare() async throws {
        let world = try await list()
        let operation = HierarchyShareTests.child(Share.zoneWideName, of: "list", "create")
        for (user, database) in [(World.bob, "shared"), ("alice", "private")] {
            #expect(try await world.refusal(operation, in: database, as: user) == "BAD_REQUEST")
        }
    }

    /// Who is called the owner and is not stays who they are.
    @Test func aGuestCalledTheOwnerStays() async throws {
        let world = try await list()
        let share = try await world.record("share")
        let people = try world.participants(of: share).map {
            $0.source.replacing(#""type":"USER""#, with: #""type":"OWNER""#)
        }
        let saved = try await world.one(World.share("forceUpdate", name: "share", with: people))
        #expect(try world.participants(of: saved).map { $0.text("type") } == ["OWNER", "USER", "USER"])
    }

    // MARK: What belongs to it

    /// Closed over two requests, what is in the circle would have stayed with those whom the share is for.
    @Test func whatGoesRoundInACircleIsBelowNothing() async throws {
        let world = try await list()
        for parent in ["b", "c"] {
            let circle = HierarchyShareTests.child("a", of: parent)
            #expect(try await world.refusal(circle, in: "shared", as: World.bob) == "ACCESS_DENIED")
        }
        let token = try #require(try await world.changes().text("syncToken"))
        try await world.one(HierarchyShareTests.child("a", of: "c"))
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == ["item", "list", "share"])
        let news = try await world.changes(since: token)
        #expect(try World.names(news).sorted() == ["-a", "-b", "-c"])
        #expect(try await world.refusal(World.save("b"), in: "shared", as: World.bob) == "ACCESS_DENIED")
        // The one in between goes elsewhere: no circle.
        try await world.modify([
            HierarchyShareTests.child("b", of: "list"), HierarchyShareTests.child("d", of: "a", "create"),
        ]).checked()
        let all = ["a", "b", "c", "d", "item", "list", "share"]
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == all)
    }

    @Test func aParentElsewhereIsRefused() async throws {
        let world = try await list()
        for zone in [#"{"zoneName":"Other"}"#, #""x""#, #"{"zoneName":"Notes","ownerRecordName":"_0"}"#] {
            let above = #","parent":{"recordName":"a","zoneID":\#(zone)}"#
            #expect(try await world.refusal(World.save("new", extra: above)) != nil, "\(zone)")
            let share = World.share(name: "second", root: "new")
                .replacing(#""forRecord":{"#, with: #""forRecord":{"zoneID":\#(zone),"#)
            #expect(try await world.refusal(share) != nil, "\(zone)")
        }
        let same = #","parent":{"recordName":"a","zoneID":\#(try await world.zoneID())}"#
        try await world.one(World.save("new", extra: same))
    }

    // MARK: Long answers

    /// A short request gets no endless answer: links that there is no room for say so, and are not followed.
    @Test func anAnswerAboutLinksHasAnEnd() async throws {
        var limits = Limits()
        (limits.answerBytes, limits.recordBytes) = (20_000, 10_000)
        let world = try World(limits: limits)
        try await world.makeZone(notes: [])
        try await world.one(World.save("long", title: String(repeating: "x", count: 9_000)))
        let share = try await world.one(World.share(name: "share", root: "long", publicly: "READ_ONLY"))
        let link = try #require(share.text("shortGUID"))
        for way in ["resolve", "accept"] {
            let entry = #"{"value":"\#(link)","shouldFetchRootRecord":true}"#
            let body = #"{"shortGUIDs":[\#(Array(repeating: entry, count: 100).joined(separator: ","))]}"#
            let answer = try await world.world.ask("public/records/\(way)", as: World.bob, body)
            let results = try answer.items("results")
            #expect(results.count == 100)
            #expect((2...3).contains(results.count { $0["rootRecord"] != nil }), "\(way)")
            #expect(results.last?.text("serverErrorCode") == "BAD_REQUEST")
        }
    }

    /// Records of which an answer has room for two.
    private func longRecords(_ names: [String]) async throws -> World {
        var limits = Limits()
        (limits.answerBytes, limits.recordBytes) = (20_000, 10_000)
        let world = try World(limits: limits)
        try await world.makeZone(notes: [])
        for name in names { try await world.one(World.save(name, title: String(repeating: "x", count: 9_000))) }
        return world
    }

    /// What is written says little of records that are long: then nothing is written.
    @Test(arguments: ["create", "forceUpdate"]) func anAnswerToAWriteHasAnEnd(_ kind: String) async throws {
        let names = ["a", "b", "c"]
        let world = try await longRecords(names)
        let short = names.map {
            #"{"operationType":"\#(kind)","record":{"recordName":"\#($0)","recordType":"Note","fields":{"n":{"value":1}}}}"#
        }
        #expect(try await world.modify(short, atomic: false).code == "BAD_REQUEST")
        #expect(try await world.record("a").field("n") == nil)
        let answer = try await world.modify(Array(short.prefix(2)), atomic: false)
        #expect(try answer.items("records").count == 2)
        // Who wants nothing back gets room for all that is saved.
        let quiet = short.map { $0.replacing(#""fields""#, with: #""desiredKeys":[],"fields""#) }
        let last = try await world.modify(quiet, atomic: false)
        #expect(kind == "create" ? last.code == "BAD_REQUEST" : try last.items("records").count == 3)
    }

    /// What stands in the way, and what is wanted of it, are as long.
    @Test(arguments: [#""desiredKeys":["title"],"#, ""]) func whatIsInTheWayHasAnEndToo(_ outer: String) async throws {
        let names = ["a", "b", "c"]
        let world = try await longRecords(names)
        func write(_ kind: String, _ keys: String, _ names: [String]) async throws -> String? {
            let operations = names.map {
                #"{"operationType":"\#(kind)","record":{"recordName":"\#($0)","recordType":"Note",\#(keys)"#
                    + #""recordChangeTag":"old","fields":{"n":{"value":1}}}}"#
            }
            let body = #"{"zoneID":{"zoneName":"Notes"},\#(outer)"operations":[\#(operations.joined(separator: ","))]}"#
            let answer = try await world.world.ask("private/records/modify", body)
            return answer.json.text("ckErrorCode") ?? answer.code
        }
        // A conflict comes with the whole record, whatever is wanted of those that are saved.
        for keys in ["", #""desiredKeys":[],"#, #""desiredKeys":["n"],"#] {
            #expect(try await write("update", keys, names) == "LIMIT_EXCEEDED", "\(keys)")
            #expect(try await write("update", keys, Array(names.prefix(2))) == "ATOMIC_ERROR", "\(keys)")
        }
        let wanted = outer.isEmpty ? #""desiredKeys":["title"],"# : ""
        #expect(try await write("forceUpdate", wanted, names) == "LIMIT_EXCEEDED")
        #expect(try await world.record("a").field("n") == nil)
        #expect(try await write("forceUpdate", #""desiredKeys":["n"],"#, names) == "LIMIT_EXCEEDED")
        #expect(try await write("forceUpdate", #""desiredKeys":[],"#, names) == nil)
        #expect(try await world.record("a").field("n") != nil)
    }
}
