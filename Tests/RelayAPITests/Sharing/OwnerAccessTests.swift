import Foundation
import Records
import RelayCore
import Testing
import Wire

/// Operations that only a share's owner may do, and that no participant can prevent.
@Suite struct OwnerAccessTests {
    typealias World = ShareWorld

    /// Creates a list with a chain of items, which bob may change and carol may read.
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

    /// The root has a DELETE_SELF reference to the item, so deleting the item would end the share.
    @Test(arguments: [true, false]) func aParticipantCannotEndAShareByACascade(_ isAtomic: Bool) async throws {
        let world = try await list()
        try await world.one(Self.pointer("list", to: "item", "DELETE_SELF"), in: "shared", as: World.bob)
        let all = ["c", "b", "a", "item"].map(World.delete)
        let answer = try await world.modify(all, in: "shared", as: World.bob, atomic: isAtomic)
        #expect(try answer.items("records").last?.text("serverErrorCode") == "ACCESS_DENIED")
        let left = isAtomic ? ["a", "b", "c", "item", "list", "share"] : ["item", "list", "share"]
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == left)
        // The owner may delete it.
        try await world.modify(all, atomic: false).checked()
        #expect(try await world.zones(as: World.carol).names == [])
    }

    /// No reference that a participant creates keeps the owner from ending the share.
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

    @Test func theNameOfAZoneWideShareIsReserved() async throws {
        let world = try await list()
        let operation = HierarchyShareTests.child(Share.zoneWideName, of: "list", "create")
        for (user, database) in [(World.bob, "shared"), ("alice", "private")] {
            #expect(try await world.refusal(operation, in: database, as: user) == "BAD_REQUEST")
        }
    }

    /// A participant whom a client calls the owner keeps their role.
    @Test func aParticipantCalledTheOwnerKeepsTheirRole() async throws {
        let world = try await list()
        let share = try await world.record("share")
        let people = try world.participants(of: share).map {
            $0.source.replacing(#""type":"USER""#, with: #""type":"OWNER""#)
        }
        let saved = try await world.one(World.share("forceUpdate", name: "share", with: people))
        #expect(try world.participants(of: saved).map { $0.text("type") } == ["OWNER", "USER", "USER"])
    }

    // MARK: Membership

    /// If the cycle were closed in two requests, its records would otherwise stay visible to participants.
    @Test func recordsInACycleLeaveTheHierarchy() async throws {
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
        // Moving a record of the cycle elsewhere breaks the cycle.
        try await world.modify([
            HierarchyShareTests.child("b", of: "list"), HierarchyShareTests.child("d", of: "a", "create"),
        ]).checked()
        let all = ["a", "b", "c", "d", "item", "list", "share"]
        #expect(try World.names(try await world.changes(as: World.carol)).sorted() == all)
    }

    @Test func aParentInAnotherZoneIsRefused() async throws {
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

    // MARK: Long responses

    /// A short request must not cause an endless response: links that exceed the limit fail and are not resolved.
    @Test func theResponseAboutLinksIsLimited() async throws {
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

    /// Creates records of which two fit in a response.
    private func longRecords(_ names: [String]) async throws -> World {
        var limits = Limits()
        (limits.answerBytes, limits.recordBytes) = (20_000, 10_000)
        let world = try World(limits: limits)
        try await world.makeZone(notes: [])
        for name in names { try await world.one(World.save(name, title: String(repeating: "x", count: 9_000))) }
        return world
    }

    /// The writes are short, but the records in their response are long; if they do not fit, nothing is written.
    @Test(arguments: ["create", "forceUpdate"]) func theResponseToAWriteIsLimited(_ kind: String) async throws {
        let names = ["a", "b", "c"]
        let world = try await longRecords(names)
        let short = names.map {
            #"{"operationType":"\#(kind)","record":{"recordName":"\#($0)","recordType":"Note","fields":{"n":{"value":1}}}}"#
        }
        #expect(try await world.modify(short, atomic: false).code == "BAD_REQUEST")
        #expect(try await world.record("a").field("n") == nil)
        let answer = try await world.modify(Array(short.prefix(2)), atomic: false)
        #expect(try answer.items("records").count == 2)
        // A client that requests no fields gets room for all saved records.
        let quiet = short.map { $0.replacing(#""fields""#, with: #""desiredKeys":[],"fields""#) }
        let last = try await world.modify(quiet, atomic: false)
        #expect(kind == "create" ? last.code == "BAD_REQUEST" : try last.items("records").count == 3)
    }

    /// The server's records in conflicts, and their desired keys, count as well.
    @Test(arguments: [#""desiredKeys":["title"],"#, ""]) func conflictsAreLimitedToo(_ outer: String) async throws {
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
        // A conflict contains the whole record, regardless of the desired keys of saved records.
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
