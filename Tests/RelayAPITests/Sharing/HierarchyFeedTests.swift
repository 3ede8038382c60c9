import Records
import RelayCore
import Testing
import Wire

/// A client that follows the feed of shared hierarchies has the records that a full fetch gives, and learns nothing of
/// records that it could never see.
///
/// See Reliability.md, "Invariants", b and f.
@Suite struct HierarchyFeedTests {
    typealias World = ShareWorld

    /// One device of a participant.
    private struct Mirror {
        let user: String
        var token: String?
        var types: [String: String] = [:]
        /// Every type that a record of this name has had while the participant could see it.
        var seen: [String: Set<String>] = [:]

        mutating func apply(_ page: JSONValue) throws {
            for record in try page.required("records").elements() {
                let (name, type) = (try record.required("recordName").string(), record.text("recordType") ?? "")
                guard record.flag("deleted") == true else {
                    types[name] = type
                    continue
                }
                types[name] = nil
                #expect(seen[name]?.contains(type) == true, "a tombstone of \(name) has the type \(type)")
            }
            token = page.text("syncToken")
        }
    }

    private func sync(_ mirror: inout Mirror, _ world: World, limit: Int) async throws {
        for _ in 0..<200 {
            let page = try await world.changes(as: mirror.user, since: mirror.token, limit: limit)
            if page.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" {
                (mirror.token, mirror.types) = (nil, [:])
                continue
            }
            #expect(page.text("serverErrorCode") == nil)
            try mirror.apply(page)
            guard page.flag("moreComing") == true else { return }
        }
        Issue.record("the feed has no end")
    }

    /// Returns the current records, by a full fetch.
    private func everything(_ world: World, as user: String) async throws -> [String: String] {
        let page = try await world.changes(as: user)
        return try page.required("records").elements().reduce(into: [:]) { found, record in
            found[record.text("recordName") ?? ""] = record.text("recordType")
        }
    }

    /// Two lists are shared with bob, the first also with carol.
    ///
    /// Ten records are created, moved, deleted, and recreated with other types.
    @Test(arguments: [UInt64](1...8)) func followersHaveTheRecordsOfAFullFetch(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let world = try World()
        try await world.makeZone(notes: ["one", "two", "alone"])
        var mirrors = [Mirror(user: World.bob), Mirror(user: World.carol)]
        for (root, people) in [("one", [World.bob, World.carol]), ("two", [World.bob])] {
            let list = people.map { World.participant($0) }
            let share = try await world.one(World.share(name: "s-\(root)", root: root, with: list))
            for user in people { try await world.accept(share, as: user) }
        }
        for _ in 0..<40 {
            var operations: [String] = []
            var named: Set<Int> = []
            for _ in 0..<Int(random.next() % 3 + 1) {
                let number = Int(random.next() % 10)
                guard named.insert(number).inserted else { continue }
                if random.next() % 4 == 0 {
                    operations.append(World.delete("n\(number)"))
                    continue
                }
                // Each record's parent has a lower number, so that there are no cycles.
                let above = ["one", "two", "alone", nil] + (0..<number).map { "n\($0)" }
                let parent = above[Int(random.next() % UInt64(above.count))]
                let type = try await world.record("n\(number)").text("recordType") ?? "Kind\(random.next() % 3)"
                let extra = #","parent":\#(parent.map { #"{"recordName":"\#($0)"}"# } ?? "null")"#
                operations.append(World.save("n\(number)", type: type, extra: extra))
            }
            // Some deletions are refused, because the record has children.
            _ = try await world.modify(operations, atomic: false)
            // A client that does not know the zone yet starts over.
            if seed % 2 == 0, random.next() % 6 == 0 {
                _ = try await world.world.stores.forgetTombstones(before: Timestamp(milliseconds: .max))
            }
            for index in mirrors.indices {
                let now = try await everything(world, as: mirrors[index].user)
                for (name, type) in now { mirrors[index].seen[name, default: []].insert(type) }
                guard random.next() % 3 == 0 else { continue }
                try await sync(&mirrors[index], world, limit: [1, 3, 200][Int(random.next() % 3)])
                #expect(mirrors[index].types == now, "seed \(seed), \(mirrors[index].user)")
            }
        }
    }

    /// Records that a move brings into a share get change numbers of their own.
    ///
    /// Later writes of the owner are in the feed too.
    @Test func changesAfterALargeMoveAreInTheFeed() async throws {
        let world = try World()
        try await world.makeZone(notes: ["one", "folder"])
        let share = try await world.one(World.share(name: "s", root: "one", with: [World.participant(World.bob)]))
        try await world.accept(share, as: World.bob)
        // Exceeds one batch of the log.
        let names = (0..<2_100).map { "n\($0)" }
        for part in stride(from: 0, to: names.count, by: 150) {
            let made = names[part..<min(part + 150, names.count)].map {
                World.save($0, "create", extra: #","parent":{"recordName":"folder"}"#)
            }
            try await world.modify(made).checked()
        }
        try await world.one(World.save("folder", extra: #","parent":{"recordName":"one"}"#))
        let token = try await world.changes(as: "alice", in: "private").text("syncToken")
        var (after, more) = (token, true)
        while more {
            let page = try await world.changes(as: "alice", since: after, in: "private")
            (after, more) = (page.text("syncToken"), page.flag("moreComing") == true)
        }
        try await world.one(World.save("last", "create"))
        #expect(try World.names(try await world.changes(as: "alice", since: after, in: "private")) == ["last"])
    }
}

/// A client that follows a feed knows each record by the name that a full fetch gives, for any names that participants
/// choose and any moves of records.
///
/// See Reliability.md, "Invariants", b and f.
@Suite struct ChosenNameFeedTests {
    typealias World = ShareWorld
    static let dave = "dave@example.org"

    /// The titles on one device of a participant, by record name.
    private struct Mirror {
        let user: String
        var token: String?
        var titles: [String: String] = [:]

        mutating func sync(_ world: World, limit: Int = 200) async throws {
            for _ in 0..<200 {
                let page = try await world.changes(as: user, since: token, limit: limit)
                if page.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" {
                    (token, titles) = (nil, [:])
                    continue
                }
                let names = try World.names(page)
                #expect(Set(names).count == names.count, "\(names)")
                for record in try page.required("records").elements() {
                    titles[try record.required("recordName").string()] =
                        record.flag("deleted") == true ? nil : Self.title(of: record)
                }
                token = page.text("syncToken")
                guard page.flag("moreComing") == true else { return }
            }
            Issue.record("the feed has no end")
        }

        func check(_ world: World, _ comment: String) async throws {
            let page = try await world.changes(as: user)
            let now = try page.required("records").elements().map { record in
                (try record.required("recordName").string(), Self.title(of: record))
            }
            #expect(titles == Dictionary(now) { $1 }, "\(comment), \(user)")
        }

        private static func title(of record: JSONValue) -> String {
            record["fields"]?["title"]?.text("value") ?? ""
        }
    }

    /// Creates lists of alice's, each shared with the given participants, who may change it.
    private func world(_ lists: KeyValuePairs<String, [String]>) async throws -> World {
        let world = try World()
        try await world.makeZone(notes: lists.map(\.key) + ["alone"])
        for (root, people) in lists {
            let list = people.map { World.participant($0, "READ_WRITE") }
            let share = try await world.one(World.share(name: "s-\(root)", root: root, with: list))
            for user in people { try await world.accept(share, as: user) }
        }
        return world
    }

    @Test func aRecordThatWasInTwoSharesHasOneTombstone() async throws {
        let world = try await world(["one": [World.bob], "two": [World.bob]])
        try await world.one(HierarchyShareTests.child("item", of: "one"))
        let token = try await world.changes().text("syncToken")
        try await world.one(HierarchyShareTests.child("item", of: "two"))
        try await world.one(World.delete("item"))
        #expect(try World.names(try await world.changes(since: token)) == ["-item"])
    }

    @Test func aFollowerKnowsRecordsWhoseNamesAreExchangedRepeatedly() async throws {
        let world = try await world(["one": [World.bob]])
        var bob = Mirror(user: World.bob)
        func note(_ name: String, of parent: String?, title: String, as user: String = "alice") async throws {
            let operation = HierarchyShareTests.child(name, of: parent, title: title)
            try await world.one(operation, in: user == "alice" ? "private" : "shared", as: user)
            try await bob.sync(world)
            try await bob.check(world, title)
        }
        try await note("note", of: nil, title: "alice's")
        try await note("note", of: "one", title: "bob's", as: World.bob)
        let everything = try await world.changes(as: "alice", in: "private").required("records").elements()
        let kept = try #require(everything.last?.text("recordName"))
        try await note("note", of: "one", title: "alice's in sight")
        try await note(kept, of: nil, title: "bob's out of sight")
        try await note("note", of: "one", title: "bob's second", as: World.bob)
        #expect(try await world.record("note").required("fields").required("title").text("value") == "bob's second")
        try await note(kept, of: "one", title: "under the name that it had", as: World.bob)
        try await note(kept, of: "one", title: "in sight again")
        try await note("note", of: nil, title: "gone")
    }

    /// Four users write under few names, and the owner moves records.
    @Test(arguments: [UInt64](1...12)) func followersKnowRecordsByTheirNames(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let world = try await world([
            "one": [World.bob, World.carol], "two": [World.bob, Self.dave], "three": [World.bob, Self.dave],
        ])
        let roots = [
            "alice": ["one", "two", "three", "alone", nil], World.carol: ["one"], Self.dave: ["two", "three"],
        ]
        var mirrors = [World.bob, World.carol, Self.dave].map { Mirror(user: $0) }
        for step in 0..<50 {
            let user = ["alice", "alice", World.bob, World.carol, Self.dave][Int(random.next() % 5)]
            let database = user == "alice" ? "private" : "shared"
            // Clients may know names that the relay assigned.
            let given = try World.names(try await world.changes(as: "alice", in: "private"))
            let names = ["n0", "n1", "n2"] + given.filter { $0.utf8.count == 36 }
            let name = names[Int(random.next() % UInt64(names.count))]
            let above = roots[user] ?? ["one", "two", "three"]
            let parent = above[Int(random.next() % UInt64(above.count))]
            let operation =
                random.next() % 5 == 0
                ? World.delete(name) : HierarchyShareTests.child(name, of: parent, title: "\(step) by \(user)")
            _ = try await world.modify([operation], in: database, as: user, atomic: false)
            for index in mirrors.indices where random.next() % 3 == 0 {
                try await mirrors[index].sync(world, limit: [1, 3, 200][Int(random.next() % 3)])
                try await mirrors[index].check(world, "seed \(seed), step \(step)")
            }
        }
    }
}
