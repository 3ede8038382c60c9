import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// References between records: VALIDATE, DELETE_SELF, the parent.
///
/// See Wire.md, "References".
@Suite(.timeLimit(.minutes(15))) struct ReferenceTests {
    /// One operation of a request; `to` and `zone` describe its reference.
    private func save(
        _ name: String,
        _ action: String? = nil,
        to target: String = "",
        in field: String = "folder",
        parent: String? = nil,
        kind: String = "forceReplace",
        zone: String? = nil
    ) -> String {
        let zone = zone.map { #","zoneID":{"zoneName":"\#($0)"}"# } ?? ""
        let value = #"{"recordName":"\#(target)","action":"\#(action ?? "")"\#(zone)}"#
        let fields = action == nil ? "{}" : #"{"\#(field)":{"value":\#(value),"type":"REFERENCE"}}"#
        let above = parent.map { #","parent":{"recordName":"\#($0)"}"# } ?? ""
        return operation(kind, name, #","fields":\#(fields)\#(above)"#)
    }

    private func operation(_ kind: String, _ name: String, _ rest: String) -> String {
        #"{"operationType":"\#(kind)","record":{"recordName":"\#(name)","recordType":"Note"\#(rest)}}"#
    }

    private func delete(_ name: String) -> String { operation("forceDelete", name, "") }

    private func clear(_ name: String, _ field: String = "folder") -> String {
        operation("forceUpdate", name, #","fields":{"\#(field)":{"value":null}}"#)
    }

    private func world() async throws -> RelayWorld {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        return world
    }

    private func write(
        _ world: RelayWorld,
        atomic: Bool = false,
        zone: String = "Notes",
        in database: String = "private",
        as user: String = "alice",
        _ operations: String...
    ) async throws -> Answer {
        let list = operations.joined(separator: ",")
        let body = #"{"zoneID":{"zoneName":"\#(zone)"},"atomic":\#(atomic),"operations":[\#(list)]}"#
        return try await world.ask("\(database)/records/modify", as: user, body)
    }

    private func codes(_ answer: Answer) throws -> [String?] {
        try answer.items("records").map { $0.text("serverErrorCode") }
    }

    /// Returns the names in the zone's feed, deleted ones with a minus.
    private func feed(_ world: RelayWorld, since token: String? = nil) async throws -> [String] {
        try await world.changes(since: token).required("records").elements().map {
            ($0.flag("deleted") == true ? "-" : "") + ($0.text("recordName") ?? "")
        }
    }

    // MARK: VALIDATE

    @Test func aTargetOfVALIDATEMustExist() async throws {
        let world = try await world()
        let refused = try await write(world, save("a", "VALIDATE", to: "nobody"))
        #expect(try codes(refused) == ["VALIDATING_REFERENCE_ERROR"])
        #expect(try refused.items("records")[0].text("reason")?.contains("'nobody'") == true)
        #expect(try await feed(world).isEmpty)
        #expect(try codes(await write(world, save("a", "VALIDATE", to: "b"), save("b"))) == [nil, nil])
        #expect(try codes(await write(world, save("c", "VALIDATE", to: "c"))) == [nil], "itself")
    }

    @Test func aTargetOfVALIDATECannotBeDeletedWhileReferenced() async throws {
        let world = try await world()
        _ = try await write(world, save("b"), save("a", "VALIDATE", to: "b"))
        let refused = try await write(world, delete("b"))
        #expect(try codes(refused) == ["VALIDATING_REFERENCE_ERROR"])
        #expect(try await feed(world) == ["b", "a"])
        #expect(try codes(await write(world, delete("b"), delete("a"))) == [nil, nil], "in one request, in any order")
        _ = try await write(world, save("b"), save("a", "VALIDATE", to: "b"))
        #expect(try codes(await write(world, delete("b"), clear("a"))) == [nil, nil])
        _ = try await write(world, save("b"))
        #expect(try codes(await write(world, delete("b"))) == [nil], "the cleared reference no longer blocks")
    }

    @Test func anUpdateThatKeepsItsReferenceBlocksTheTargetsDeletion() async throws {
        let world = try await world()
        _ = try await write(world, save("b"), save("a", "VALIDATE", to: "b"))
        let update = operation("forceUpdate", "a", #","fields":{"x":{"value":1}}"#)
        #expect(try codes(await write(world, update, delete("b"))) == [nil, "VALIDATING_REFERENCE_ERROR"])
        let again = try await write(world, save("a", "VALIDATE", to: "b"), delete("b"))
        #expect(try codes(again).contains("VALIDATING_REFERENCE_ERROR"))
        #expect(try await feed(world).allSatisfy { !$0.hasPrefix("-") })
    }

    @Test func aRefusedSaveFailsOnlyTheSavesThatDependOnIt() async throws {
        let world = try await world()
        let answer = try await write(
            world,
            save("a", "VALIDATE", to: "b"),
            save("b", "VALIDATE", to: "c"),
            save("c", "VALIDATE", to: "nobody"),
            save("d")
        )
        let error = "VALIDATING_REFERENCE_ERROR"
        #expect(try codes(answer) == [error, error, error, nil])
        #expect(try await feed(world) == ["d"])
    }

    @Test func anAtomicRequestFailsAsAWhole() async throws {
        let world = try await world()
        let answer = try await write(world, atomic: true, save("a", "VALIDATE", to: "nobody"), save("d"))
        #expect(answer.status == 400)
        #expect(try codes(answer) == ["VALIDATING_REFERENCE_ERROR", "ATOMIC_ERROR"])
        #expect(try await feed(world).isEmpty)
    }

    // MARK: DELETE_SELF

    @Test func deletingCascadesThroughTreesCyclesAndLists() async throws {
        let world = try await world()
        let list = #"""
            {"operationType":"create","record":{"recordName":"l","recordType":"List","fields":{"of":{"value":[
            {"recordName":"e","action":"DELETE_SELF"},{"recordName":"c","action":"DELETE_SELF"}],"type":"REFERENCE_LIST"}}}}
            """#
        _ = try await write(
            world,
            save("root"),
            save("c", "DELETE_SELF", to: "root"),
            save("d", "DELETE_SELF", to: "c"),
            save("e"),
            save("x", "DELETE_SELF", to: "y"),
            save("y", "DELETE_SELF", to: "x"),
            save("n", "NONE", to: "root"),
            list
        )
        let token = try #require(try await world.changes().text("syncToken"))
        #expect(try codes(await write(world, delete("root"))) == [nil])
        #expect(try await feed(world, since: token).sorted() == ["-c", "-d", "-l", "-root"])
        #expect(try codes(await write(world, delete("y"))) == [nil])
        #expect(try await feed(world, since: token).sorted() == ["-c", "-d", "-l", "-root", "-x", "-y"])
        #expect(try await feed(world) == ["e", "n"])
    }

    @Test func aCascadeThatReachesABlockedRecordIsRefused() async throws {
        let world = try await world()
        _ = try await write(
            world,
            save("root"),
            save("c", "DELETE_SELF", to: "root"),
            save("v", "VALIDATE", to: "c")
        )
        #expect(try codes(await write(world, delete("root"))) == ["VALIDATING_REFERENCE_ERROR"])
        #expect(try await feed(world) == ["root", "c", "v"])
        #expect(try codes(await write(world, delete("root"), delete("v"))) == [nil, nil])
        #expect(try await feed(world).isEmpty)
    }

    @Test func aRecordWhoseReferenceMovedSurvivesTheCascade() async throws {
        let world = try await world()
        _ = try await write(world, save("root"), save("c", "DELETE_SELF", to: "root"), save("other"))
        #expect(try codes(await write(world, save("c", "DELETE_SELF", to: "other"), delete("root"))) == [nil, nil])
        #expect(try await feed(world) == ["other", "c"])
        let answer = try await write(world, save("n", "DELETE_SELF", to: "other"), delete("other"))
        #expect(try codes(answer) == ["VALIDATING_REFERENCE_ERROR", nil])
        #expect(try await feed(world).isEmpty, "the version before the refused save is deleted")
    }

    @Test func aTargetWhoseDeletionIsRefusedStillValidates() async throws {
        let world = try await world()
        _ = try await write(world, save("b"), save("a", "VALIDATE", to: "b"))
        let answer = try await write(world, delete("b"), save("c", "VALIDATE", to: "b"))
        #expect(try codes(answer) == ["VALIDATING_REFERENCE_ERROR", nil])
        #expect(try await feed(world) == ["b", "a", "c"])
    }

    @Test func atMost750RecordsMayDependOnOne() async throws {
        let world = try await world()
        _ = try await write(world, save("root"))
        for start in stride(from: 0, to: 750, by: 150) {
            let operations = (start..<start + 150).map { save("n\($0)", "DELETE_SELF", to: "root") }
            let answer = try await write(world, operations.joined(separator: ","))
            #expect(try codes(answer).allSatisfy { $0 == nil })
        }
        let refused = try await write(world, save("one more", "DELETE_SELF", to: "root"))
        #expect(try refused.items("records")[0].text("ckErrorCode") == "LIMIT_EXCEEDED")
        #expect(try codes(await write(world, save("n7", "DELETE_SELF", to: "root"))) == [nil], "counts once")
        #expect(try codes(await write(world, save("one more", "DELETE_SELF", to: "root"), clear("n7"))) == [nil, nil])
        #expect(try codes(await write(world, save("n7", "DELETE_SELF", to: "root"), delete("n8"))) == [nil, nil])
        #expect(try codes(await write(world, clear("n7"), save("n8", "DELETE_SELF", to: "root"))) == [nil, nil])
        #expect(try codes(await write(world, save("a", "NONE", to: "root"))) == [nil])
        #expect(try codes(await write(world, delete("root"))) == [nil])
        #expect(try await feed(world) == ["n7", "a"])
    }

    // MARK: Parent and zones

    @Test func aParentMustExistAndCannotBeDeleted() async throws {
        let world = try await world()
        #expect(try codes(await write(world, save("c", parent: "p"))) == ["VALIDATING_REFERENCE_ERROR"])
        #expect(try codes(await write(world, save("c", parent: "p"), save("p"))) == [nil, nil])
        #expect(try codes(await write(world, delete("p"))) == ["VALIDATING_REFERENCE_ERROR"])
        #expect(try codes(await write(world, save("c", parent: "c"))) == ["BAD_REQUEST"])
        let orphan = operation("forceUpdate", "c", #","parent":null"#)
        #expect(try codes(await write(world, orphan, delete("p"))) == [nil, nil])
        let inDefault = try await write(world, zone: "_defaultZone", save("c", parent: "p"), save("p"))
        #expect(try codes(inDefault) == ["BAD_REQUEST", nil])
        // With both references, the record is deleted with its parent.
        _ = try await write(world, save("p"), save("c", "DELETE_SELF", to: "p", parent: "p"))
        #expect(try codes(await write(world, delete("p"))) == [nil])
        #expect(try await feed(world).isEmpty)
    }

    @Test func aReferenceToAnotherZoneIsRefused() async throws {
        let world = try await world()
        try await world.makeZone("Other")
        let refused = try await write(world, save("a", "NONE", to: "b", zone: "Other"))
        #expect(try codes(refused) == ["BAD_REQUEST"])
        let saved = try await write(world, save("a", "NONE", to: "b", zone: "Notes"))
        let value = try #require(try saved.items("records")[0].field("folder"))
        #expect(try value.required("zoneID").text("zoneName") == "Notes")
        #expect(try value.required("zoneID").text("ownerRecordName")?.count == 33, "the owner's record name")
    }

    @Test func thePublicDatabaseCascadesWithoutTombstones() async throws {
        let world = try RelayWorld()
        let zone = "_defaultZone"
        _ = try await write(world, zone: zone, in: "public", save("root"))
        _ = try await write(world, zone: zone, in: "public", as: "bob", save("c", "DELETE_SELF", to: "root"))
        let deleted = try await write(world, zone: zone, in: "public", delete("root"))
        #expect(try codes(deleted) == [nil])
        let found = try await world.ask("public/records/lookup", #"{"records":[{"recordName":"c"}]}"#)
        #expect(try codes(found) == ["NOT_FOUND"])
    }

    /// Compares random writes with a model that implements only the rules.
    @Test(arguments: 0..<20 as Range<UInt64>) func randomWritesNeverBreakAReference(_ seed: UInt64) async throws {
        let world = try await world()
        var random = SplitMix(state: seed)
        let names = (0..<6).map { "r\($0)" }
        for _ in 0..<30 {
            var operations: [String] = []
            for name in names.shuffled(using: &random).prefix(Int.random(in: 1...4, using: &random)) {
                let action = ["NONE", "VALIDATE", "DELETE_SELF", "DELETE_SELF"].randomElement(using: &random)
                let target = names.randomElement(using: &random) ?? ""
                switch Int.random(in: 0..<4, using: &random) {
                case 0: operations.append(delete(name))
                case 1: operations.append(clear(name))
                default: operations.append(save(name, action, to: target))
                }
            }
            _ = try await write(world, atomic: .random(using: &random), operations.joined(separator: ","))
            let live = try await world.changes().required("records").elements()
            let there = Set(live.compactMap { $0.text("recordName") })
            for record in live {
                guard let value = try record.field("folder"), value.text("action") == "VALIDATE" else { continue }
                #expect(there.contains(try #require(value.text("recordName"))), "seed \(seed)")
            }
        }
    }

    /// A request may reference thousands of records of a megabyte each.
    ///
    /// The relay checks that they exist without reading their fields.
    @Test func referenceTargetsAreReadWithoutTheirFields() async throws {
        let world = try await world()
        let names = (0..<40).map { "n\($0)" }
        let all = names.map { operation("create", $0, #","fields":{"title":{"value":"long"}}"#) }.joined(separator: ",")
        let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(all)]}"#
        #expect(try await world.ask("private/records/modify", as: "alice", body).status == 200)
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let caller = try await world.ask("public/users/caller").json.text("userRecordName")
        let owner = UserID(try #require(caller))
        let found = try world.stores.store(of: home).read { reader throws(RelayError) in
            try reader.zone(ZoneID("Notes", owner: owner)).map { zone throws(RelayError) in
                try reader.outlines(named: names + ["none"], in: zone)
            }
        }
        #expect(found?.keys.sorted() == names.sorted())
        #expect(found?.values.allSatisfy { $0.fields == Array("{}".utf8) && $0.type == "Note" } == true)
        let list = names.map { #"{"recordName":"\#($0)","action":"VALIDATE"}"# }.joined(separator: ",")
        let holder = operation("create", "holder", #","fields":{"all":{"value":[\#(list)],"type":"REFERENCE_LIST"}}"#)
        #expect(try codes(try await write(world, holder)) == [nil])
        #expect(try codes(try await write(world, delete("n39"))) == ["VALIDATING_REFERENCE_ERROR"])
    }
}
