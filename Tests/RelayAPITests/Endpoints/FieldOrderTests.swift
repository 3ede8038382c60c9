import Testing
import Wire

/// Fields are found by name, in any order, number and spelling.
@Suite struct FieldOrderTests {
    private func fields(_ numbers: [Int], _ name: (Int) -> String = { "f\($0)" }) -> String {
        "{" + numbers.map { #""\#(name($0))":{"value":\#($0)}"# }.joined(separator: ",") + "}"
    }

    /// Few fields are searched linearly, many through an index.
    @Test(arguments: [1, 3, 64, 65, 150]) func eachFieldKeepsItsOwnValue(_ count: Int) async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let numbers = Array(0..<count)
        let orders = [numbers, numbers.reversed(), numbers.filter { $0 % 3 == 0 }, numbers.shuffled()]
        for (index, order) in orders.enumerated() {
            let create = RelayWorld.Operation(kind: "create", name: "n\(index)", fields: fields(order))
            let record = try #require(try await world.modify([create]).items("records").first)
            let members = try record.required("fields").members()
            #expect(members.map(\.name) == order.map { "f\($0)" })
            #expect(try members.map { try $0.value.required("value").int64() } == order.map { Int64($0) })
        }
    }

    /// A name written with an escape is the same name.
    @Test func aNameMayBeWrittenWithEscapes() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let plain = RelayWorld.Operation(kind: "create", name: "a", fields: #"{"f":{"value":1},"g":{"value":2}}"#)
        let escaped = RelayWorld.Operation(
            kind: "create",
            name: "b",
            fields: #"{"\u0067":{"value":4},"\u0066":{"value":3}}"#
        )
        for operation in [plain, escaped, escaped] { _ = try await world.modify([operation]) }
        let records = try await world.changes().required("records").elements()
        let last = try #require(records.last)
        #expect(try last.field("f")?.int64() == 3)
        #expect(try last.field("g")?.int64() == 4)
        #expect(try last.required("fields").members().map(\.name) == ["g", "f"])
    }

    /// A field type that a record declares applies to later records of the same request.
    @Test func aFieldOfAnotherTypeIsRefusedEvenIfTheSameRequestDeclaredIt() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        for name in ["early", "late"] {
            let good = RelayWorld.Operation(kind: "create", name: name, fields: #"{"f":{"value":1}}"#)
            let bad = RelayWorld.Operation(kind: "create", name: name + "2", fields: #"{"f":{"value":"text"}}"#)
            let answers = try await world.modify([good, bad]).items("records")
            #expect(try answers.first?.field("f")?.int64() == 1)
            #expect(answers.last?.text("serverErrorCode") == "BAD_REQUEST")
        }
    }

    /// Records of one response may show different fields.
    @Test func eachRecordShowsItsDesiredKeys() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let fields = #"{"f":{"value":1},"g":{"value":2}}"#
        let operations = ["a", "b", "c", "d"].map { name in
            let keys = ["b": #","desiredKeys":["g"]"#, "c": #","desiredKeys":[]"#][name] ?? ""
            return #"{"operationType":"create","record":{"recordType":"Note","recordName":"\#(name)","#
                + #""fields":\#(fields)\#(keys)}}"#
        }
        let body = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(operations.joined(separator: ","))]}"#
        let records = try await world.ask("private/records/modify", body).items("records")
        let names = try records.map { try $0.required("fields").members().map(\.name) }
        #expect(names == [["f", "g"], ["g"], [], ["f", "g"]])
        for record in records {
            #expect(try record.required("zoneID").text("zoneName") == "Notes")
            #expect(try record.required("created").text("userRecordName")?.count == 33)
        }
    }
}
