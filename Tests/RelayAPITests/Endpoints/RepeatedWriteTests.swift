import Records
import RelayAPI
import Testing
import Wire

/// A write that the client repeats under the same operation ID takes effect once.
///
/// See Reliability.md, "Invariants", i.
@Suite struct RepeatedWriteTests {
    private func world() async throws -> RelayWorld {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        return world
    }

    private func send(
        _ id: String,
        _ operations: String,
        to world: RelayWorld,
        as user: String = "alice",
        atomic: Bool = true
    ) async throws -> Answer {
        try await world.ask(
            "private/records/modify",
            as: user,
            #"{"operationID":"\#(id)","zoneID":{"zoneName":"Notes"},"atomic":\#(atomic),"operations":[\#(operations)]}"#
        )
    }

    private func operation(_ kind: String, _ name: String?, tag: String? = nil, title: String = "Milk") -> String {
        let name = name.map { #""recordName":"\#($0)","# } ?? ""
        let tag = tag.map { #""recordChangeTag":"\#($0)","# } ?? ""
        let fields = #""fields":{"title":{"value":"\#(title)"},"done":{"value":0}}"#
        return #"{"operationType":"\#(kind)","record":{\#(name)\#(tag)"recordType":"Note",\#(fields)}}"#
    }

    private func only(_ answer: Answer) throws -> JSONValue {
        try #require(try answer.items("records").first)
    }

    private func isThere(_ name: String, in world: RelayWorld) async throws -> Bool {
        let found = try await world.ask(
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"\#(name)"}]}"#
        )
        return try only(found).text("recordType") == "Note"
    }

    @Test func aRepeatGetsTheFirstResponseAndChangesNothing() async throws {
        let world = try await world()
        let first = try await send("a", operation("create", "n"), to: world)
        let again = try await send("a", operation("create", "n"), to: world)
        #expect(try only(first).text("recordChangeTag") != nil)
        #expect(try only(again).text("recordChangeTag") == only(first).text("recordChangeTag"))
        #expect(again.json.text("syncToken") == first.json.text("syncToken"))
        let tag = try only(first).text("recordChangeTag")
        let update = try await send("b", operation("update", "n", tag: tag, title: "Bread"), to: world)
        let repeated = try await send("b", operation("update", "n", tag: tag, title: "Bread"), to: world)
        #expect(try only(repeated).text("recordChangeTag") == only(update).text("recordChangeTag"))
        let other = try await send("c", operation("update", "n", tag: tag, title: "Bread"), to: world)
        #expect(other.status == 400, "under another ID it is a new write with an old tag")
    }

    @Test func aRecordWithoutANameIsCreatedOnceAndKeepsItsName() async throws {
        let world = try await world()
        let two = [operation("create", nil), operation("create", nil, title: "Bread")].joined(separator: ",")
        let names = try await send("a", two, to: world).items("records").map { $0.text("recordName") }
        let again = try await send("a", two, to: world).items("records").map { $0.text("recordName") }
        #expect(names == again && Set(names).count == 2 && names.allSatisfy { $0?.count == 36 })
    }

    @Test func aRepeatMayReorderFieldsButNotChangeValues() async throws {
        let world = try await world()
        let turned =
            #"{"operationType":"create","record":{"recordName":"n","recordType":"Note","fields":"#
            + #"{"done":{"value":0},"title":{"value":"Milk"}}}}"#
        _ = try await send("a", operation("create", "n"), to: world)
        #expect(try await send("a", turned, to: world).status == 200)
        let other = try await send("a", operation("create", "n", title: "Bread"), to: world)
        #expect(other.status == 400 && other.json.text("serverErrorCode") == "BAD_REQUEST")
    }

    @Test func aRepeatOfAPartialFailureRetriesTheFailedOperations() async throws {
        let world = try await world()
        _ = try await world.modify([.create("there")])
        let both = [operation("create", "new"), operation("create", "there")].joined(separator: ",")
        let first = try await send("a", both, to: world, atomic: false).items("records")
        #expect(first.map { $0.text("serverErrorCode") } == [nil, "CONFLICT"])
        _ = try await world.modify([.init(kind: "forceDelete", name: "there")])
        let again = try await send("a", both, to: world, atomic: false).items("records")
        #expect(again.map { $0.text("serverErrorCode") } == [nil, nil])
        #expect(again[0].text("recordChangeTag") == first[0].text("recordChangeTag"))
        let third = try await send("a", both, to: world, atomic: false).items("records")
        #expect(third.map { $0.text("recordChangeTag") } == again.map { $0.text("recordChangeTag") })
    }

    @Test func aRefusedAtomicWriteMayBeRetried() async throws {
        let world = try await world()
        _ = try await world.modify([.create("there")])
        let both = [operation("create", "new"), operation("create", "there")].joined(separator: ",")
        #expect(try await send("a", both, to: world).status == 400)
        _ = try await world.modify([.init(kind: "forceDelete", name: "there")])
        #expect(try await send("a", both, to: world).status == 200)
    }

    @Test func aRepeatedDeletionKeepsARecordCreatedSince() async throws {
        let world = try await world()
        _ = try await world.modify([.create("n")])
        let delete = #"{"operationType":"forceDelete","record":{"recordName":"n"}}"#
        _ = try await send("a", delete, to: world)
        _ = try await world.modify([.create("n")])
        #expect(try only(await send("a", delete, to: world)).flag("deleted") == true)
        #expect(try await isThere("n", in: world))
    }

    /// The repeat does not delete the record that was created since.
    @Test func aDeletionOfAMissingRecordIsRememberedToo() async throws {
        let world = try await world()
        let delete = #"{"operationType":"forceDelete","record":{"recordName":"n"}}"#
        #expect(try only(await send("a", delete, to: world)).flag("deleted") == true)
        _ = try await world.modify([.create("n")])
        #expect(try only(await send("a", delete, to: world)).flag("deleted") == true)
        #expect(try await isThere("n", in: world))
    }

    @Test(arguments: [
        #""recordType":"Other""#, #""recordType":"Note","parent":{"recordName":"top"}"#,
        #""recordType":"Note","createShortGUID":true"#,
    ])
    func membersBesideFieldsArePartOfTheRequest(_ members: String) async throws {
        let world = try await world()
        func create(_ members: String) -> String {
            #"{"operationType":"create","record":{"recordName":"n",\#(members),"fields":{}}}"#
        }
        _ = try await world.modify([.create("top")])
        #expect(try await send("a", create(#""recordType":"Note""#), to: world).status == 200)
        #expect(try await send("a", create(members), to: world).status == 400)
    }

    @Test func participantsOfAShareArePartOfTheRequest() async throws {
        let world = try await world()
        func share(_ permission: String, _ participants: [String]) -> String {
            let list = participants.map {
                #"{"permission":"\#(permission)","userIdentity":{"lookupInfo":{"emailAddress":"\#($0)@example.org"}}}"#
            }
            return
                #"{"operationType":"forceUpdate","record":{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","#
                + #""fields":{},"participants":[\#(list.joined(separator: ","))]}}"#
        }
        #expect(try await send("a", share("READ_ONLY", ["ann", "ben"]), to: world).status == 200)
        #expect(try await send("a", share("READ_ONLY", ["ben", "ann"]), to: world).status == 200)
        for other in [share("READ_ONLY", ["ann", "cem"]), share("READ_WRITE", ["ann", "ben"])] {
            #expect(try await send("a", other, to: world).status == 400)
        }
    }

    @Test func aRepeatReportsThatItsRecordIsGone() async throws {
        let world = try await world()
        _ = try await send("a", operation("create", "n"), to: world)
        _ = try await world.modify([.init(kind: "forceDelete", name: "n")])
        let again = try await send("a", operation("create", "n"), to: world, atomic: false)
        #expect(again.status == 400, "atomicity is part of the request")
        let same = try await send("a", operation("create", "n"), to: world)
        #expect(try only(same).text("serverErrorCode") == "NOT_FOUND")
    }

    /// The repeat reports that its record is gone, and so does the next repeat.
    @Test func aRecordDeletedSinceIsNotRecreatedByTheThirdRequest() async throws {
        let world = try await world()
        let both = [operation("create", "n"), operation("forceUpdate", "other")].joined(separator: ",")
        _ = try await world.modify([.create("there")])
        let three = both + "," + operation("create", "there")
        _ = try await send("a", three, to: world, atomic: false)
        _ = try await world.modify([.init(kind: "forceDelete", name: "n"), .init(kind: "forceDelete", name: "there")])
        for _ in 0..<2 {
            let codes = try await send("a", three, to: world, atomic: false).items("records").map {
                $0.text("serverErrorCode")
            }
            #expect(codes == ["NOT_FOUND", nil, nil])
        }
    }

    /// A late repeat of a zone's deletion does not delete a zone that was created since.
    @Test func zonesAreCreatedAndDeletedOnce() async throws {
        let world = try await world()
        func change(_ id: String, _ operations: [(String, String)]) async throws -> Answer {
            let list = operations.map { #"{"operationType":"\#($0)","zone":{"zoneID":{"zoneName":"\#($1)"}}}"# }
            return try await world.ask(
                "private/zones/modify",
                #"{"operationID":"\#(id)","operations":[\#(list.joined(separator: ","))]}"#
            )
        }
        let first = try await change("z", [("delete", "Notes"), ("create", "New"), ("delete", "Nowhere")])
        #expect(try first.items("zones").map { $0.text("serverErrorCode") } == [nil, nil, "ZONE_NOT_FOUND"])
        try await world.makeZone("Notes")
        try await world.makeZone("Nowhere")
        let again = try await change("z", [("delete", "Notes"), ("create", "New"), ("delete", "Nowhere")]).items(
            "zones"
        )
        #expect(again.map { $0.flag("deleted") } == [true, nil, true])
        let names = try await world.ask("private/zones/list").items("zones").map {
            try $0.required("zoneID").text("zoneName")
        }
        #expect(Set(names) == ["_defaultZone", "Notes", "New"], "the operation that failed was retried")
        #expect(try await change("z", [("delete", "New")]).status == 400, "an ID cannot be reused for another write")
        // A zone that was created and is gone since is reported as missing.
        _ = try await change("y", [("delete", "New")])
        let gone = try await change("z", [("delete", "Notes"), ("create", "New"), ("delete", "Nowhere")]).items("zones")
        #expect(gone[1].text("serverErrorCode") == "ZONE_NOT_FOUND")
    }

    @Test func operationIDsAreScopedToTheirUser() async throws {
        let world = try await world()
        try await world.makeZone("Notes", as: "bob")
        _ = try await send("a", operation("create", "n"), to: world)
        #expect(try await send("a", operation("create", "m", title: "Bob's"), to: world, as: "bob").status == 200)
    }

    @Test(arguments: ["", String(repeating: "x", count: 256), "ä"]) func badIDsAreRefused(_ id: String) async throws {
        let answer = try await send(id, operation("create", "n"), to: try await world())
        #expect(answer.status == 400)
    }

    /// CloudKit accepts 200 operations over web services and 400 natively, where writes have operation IDs.
    @Test func aWriteWithAnOperationIDMayHaveTwiceAsManyOperations() async throws {
        let world = try await world()
        func many(_ count: Int) -> String {
            (0..<count).map { operation("create", "n\($0)") }.joined(separator: ",")
        }
        let tooMany = try await send("one", many(401), to: world)
        #expect(tooMany.code == "BAD_REQUEST" && tooMany.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        #expect(tooMany.json.text("reason")?.contains("400") == true)
        #expect(try await send("two", many(400), to: world).items("records").count == 400)
        let again = try await send("two", many(400), to: world).items("records")
        #expect(again.allSatisfy { $0["serverErrorCode"] == nil && $0["created"] != nil })
    }
}
