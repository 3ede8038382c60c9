import Records
import RelayAPI
import Testing
import Wire

@Suite struct ModifyRecordsTests {
    typealias Operation = RelayWorld.Operation

    private func world() async throws -> RelayWorld {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        return world
    }

    private func save(_ world: RelayWorld, _ operation: Operation) async throws -> JSONValue {
        try #require(try await world.modify([operation]).items("records").first)
    }

    @Test func aCreatedRecordHasAllMembersThatClientsRequire() async throws {
        let world = try await world()
        let record = try await save(world, .create("n1", title: "Milk"))
        #expect(record.text("recordName") == "n1")
        #expect(record.text("recordType") == "Note")
        #expect(record.flag("deleted") == false)
        #expect(try record.field("title")?.string() == "Milk")
        for stamp in [try record.required("created"), try record.required("modified")] {
            #expect(try stamp.required("timestamp").int64() > 0)
            #expect(stamp.text("userRecordName")?.count == 33)
            #expect(stamp.text("deviceID")?.isEmpty == false)
        }
        #expect(try record.required("zoneID").text("zoneType") == "REGULAR_CUSTOM_ZONE")
        #expect(record["pluginFields"] != nil)
        #expect(record.text("recordChangeTag") != nil)
    }

    @Test func aRecordWithoutNameGetsAnUpperCaseUUID() async throws {
        let name = try #require(try await save(world(), .create(nil)).text("recordName"))
        #expect(name.count == 36 && name == name.uppercased())
    }

    @Test func updatesMergeFieldsAndReplacementsDoNot() async throws {
        let world = try await world()
        let first = try await save(
            world,
            Operation(kind: "create", name: "n", fields: #"{"a":{"value":1},"b":{"value":"x"}}"#)
        )
        let merged = try await save(
            world,
            Operation(
                kind: "update",
                name: "n",
                tag: first.text("recordChangeTag"),
                fields: #"{"a":{"value":2},"c":{"value":3}}"#
            )
        )
        #expect(try merged.field("a")?.int64() == 2)
        #expect(try merged.field("b")?.string() == "x")
        #expect(try merged.field("c")?.int64() == 3)
        let cleared = try await save(world, Operation(kind: "forceUpdate", name: "n", fields: #"{"b":{"value":null}}"#))
        #expect(try cleared.field("b") == nil)
        let replaced = try await save(world, Operation(kind: "forceReplace", name: "n", fields: #"{"c":{"value":4}}"#))
        #expect(try replaced.required("fields").members().map(\.name) == ["c"])
    }

    /// The outcome of each operation on a record that exists with tag `t`, and on one that does not exist.
    static let outcomes: [(kind: String, tag: Bool, onPresent: String?, onAbsent: String?)] = [
        ("create", false, "CONFLICT", nil),
        ("update", true, nil, "NOT_FOUND"),
        ("update", false, "BAD_REQUEST", "BAD_REQUEST"),
        ("forceUpdate", false, nil, nil),
        ("replace", true, nil, "NOT_FOUND"),
        ("replace", false, "BAD_REQUEST", "BAD_REQUEST"),
        ("forceReplace", false, nil, nil),
        ("delete", true, nil, "NOT_FOUND"),
        ("delete", false, "BAD_REQUEST", "BAD_REQUEST"),
        ("forceDelete", false, nil, nil),
    ]

    @Test(arguments: outcomes.indices) func eachOperationOnPresentAndAbsentRecords(_ row: Int) async throws {
        let (kind, needsTag, onPresent, onAbsent) = Self.outcomes[row]
        let world = try await world()
        let tag = try await save(world, .create("there")).text("recordChangeTag")
        let present = try await save(world, Operation(kind: kind, name: "there", tag: needsTag ? tag : nil))
        #expect(present.text("serverErrorCode") == onPresent)
        let absent = try await save(world, Operation(kind: kind, name: "gone", tag: needsTag ? tag : nil))
        #expect(absent.text("serverErrorCode") == onAbsent)
    }

    @Test func aStaleTagGetsTheServersRecord() async throws {
        let world = try await world()
        let tag = try await save(world, .create("n", title: "old")).text("recordChangeTag")
        _ = try await save(world, Operation(kind: "forceUpdate", name: "n", fields: #"{"title":{"value":"new"}}"#))
        for kind in ["update", "replace", "delete"] {
            let refused = try await save(world, Operation(kind: kind, name: "n", tag: tag))
            #expect(refused.text("serverErrorCode") == "CONFLICT")
            #expect(try refused.required("serverRecord").field("title")?.string() == "new")
        }
    }

    @Test func exactlyOneOfManyWritesWithTheSameTagSucceeds() async throws {
        let world = try await world()
        let tag = try await save(world, .create("n")).text("recordChangeTag")
        let codes = try await withThrowingTaskGroup(of: String?.self) { group in
            for writer in 0..<16 {
                group.addTask {
                    let update = Operation(
                        kind: "update",
                        name: "n",
                        tag: tag,
                        fields: #"{"by":{"value":\#(writer)}}"#
                    )
                    return try await self.save(world, update).text("serverErrorCode")
                }
            }
            return try await group.reduce(into: [String?]()) { $0.append($1) }
        }
        #expect(codes.count { $0 == nil } == 1)
        #expect(codes.count { $0 == "CONFLICT" } == 15)
    }

    @Test func aFailedAtomicRequestSavesNothing() async throws {
        let world = try await world()
        _ = try await save(world, .create("taken"))
        let before = try await world.changes().text("syncToken")
        let answer = try await world.modify(
            atomic: true,
            [.create("a"), .create("taken"), .create("b")]
        )
        #expect(answer.status == 400)
        #expect(answer.code == "ATOMIC_ERROR" && answer.response.errorCode == .atomicError)
        #expect(answer.json.text("reason") == "Atomic failure: 1 of 3 operations failed")
        #expect(
            try answer.items("records").map { $0.text("serverErrorCode") } == [
                "ATOMIC_ERROR", "CONFLICT", "ATOMIC_ERROR",
            ]
        )
        let after = try await world.changes(since: before)
        #expect(after.text("syncToken") == before)
        #expect(try after.required("records").elements().isEmpty)
    }

    @Test func aFailureInANonatomicRequestLeavesTheOthersSaved() async throws {
        let world = try await world()
        _ = try await save(world, .create("taken"))
        let answer = try await world.modify([.create("a"), .create("taken"), .create("b")])
        #expect(answer.status == 200)
        #expect(try answer.items("records").map { $0.text("serverErrorCode") } == [nil, "CONFLICT", nil])
    }

    /// Invalid records: the error of each one; the rest of the request is saved.
    static let bad: [(record: String, code: String, reason: String)] = [
        (#"{"recordName":"é","recordType":"Note"}"#, "BAD_REQUEST", "Record names"),
        (#"{"recordName":"x","recordType":"1Note"}"#, "NOT_FOUND", "is not a record type"),
        (#"{"recordName":"x"}"#, "BAD_REQUEST", "recordType is required"),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"no-no":{"value":1}}}"#, "BAD_REQUEST",
            "is not a field name"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"title":{"value":1,"type":"INT64"}}}"#, "BAD_REQUEST",
            "invalid attempt to set value type INT64 for field 'title' defined to be: STRING"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"title":{"value":"x","type":"UNKNOWN_LIST"}}}"#,
            "BAD_REQUEST", "a list, as its type says"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"title":{"value":1}}}"#, "BAD_REQUEST",
            "expected type STRING"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"due":{"value":1.5,"type":"TIMESTAMP"}}}"#, "BAD_REQUEST",
            "Invalid value, expected type TIMESTAMP."
        ),
        (
            #"{"recordName":"x","recordType":"Note","zoneID":{"zoneName":"Other"}}"#, "BAD_REQUEST", "zoneID"
        ),
        (#"{"recordName":"_x","recordType":"Users"}"#, "ACCESS_DENIED", "permission"),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"title":{"value":"a","type":"TEXT"}}}"#, "BAD_REQUEST",
            "must be a field type of CloudKit"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"title":{"value":"a","isEncrypted":"yes"}}}"#,
            "BAD_REQUEST", "isEncrypted"
        ),
        (#"{"recordName":"x","recordType":"Note","fields":{"title":"a"}}"#, "BAD_REQUEST", "title"),
        (#"{"recordName":"x","recordType":"Note","fields":[]}"#, "BAD_REQUEST", "fields"),
        (#"{"recordName":"x","recordType":"Note","parent":"a"}"#, "BAD_REQUEST", "parent"),
        (#"{"recordName":"x","recordType":"Note","recordChangeTag":7}"#, "BAD_REQUEST", "recordChangeTag"),
        (
            #"{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","publicPermission":"ALL"}"#,
            "BAD_REQUEST", "publicPermission"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"tags":{"value":[]}}}"#, "BAD_REQUEST",
            "cannot use an empty list to initialize a new field (field 'tags' in record type 'Note' should be more precise)"
        ),
        (
            #"{"recordName":"x","recordType":"New","fields":{"tags":{"value":[],"type":"UNKNOWN_LIST"}}}"#,
            "BAD_REQUEST", "cannot use an empty list to initialize a new field (field 'tags' in record type 'New'"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"t":{"type":"LIST","value":[ ]}}}"#, "BAD_REQUEST",
            "cannot use an empty list to initialize a new field"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"t":{"value":[],"isEncrypted":true}}}"#, "BAD_REQUEST",
            "cannot use an empty list to initialize a new field"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"at":{"value":{"latitude":91,"longitude":0}}}}"#,
            "BAD_REQUEST", "latitude of -90 to 90"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"at":{"value":{"latitude":-90.01,"longitude":0}}}}"#,
            "BAD_REQUEST", "field 'at'"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"at":{"value":{"latitude":0,"longitude":-180.5}}}}"#,
            "BAD_REQUEST", "longitude of -180 to 180"
        ),
        (
            #"{"recordName":"x","recordType":"Note","fields":{"at":{"type":"LOCATION_LIST","value":"#
                + #"[{"latitude":0,"longitude":0},{"latitude":0,"longitude":360}]}}}"#,
            "BAD_REQUEST", "longitude of -180 to 180"
        ),
    ]

    @Test("an empty list takes the type of its field, even if the same request declares the field")
    func emptyListsOfKnownFields() async throws {
        let world = try await world()
        func create(_ name: String, _ fields: String) -> RelayWorld.Operation {
            RelayWorld.Operation(kind: "create", name: name, fields: fields)
        }
        let answer = try await world.modify([
            create("a", #"{"tags":{"value":[7]},"days":{"value":[],"type":"TIMESTAMP_LIST"}}"#),
            create("b", #"{"tags":{"value":[]},"days":{"value":[],"type":"UNKNOWN_LIST"}}"#),
            create("c", #"{"tags":{"value":[],"type":"STRING_LIST"}}"#),
        ])
        let records = try answer.items("records")
        #expect(records.map { $0.text("serverErrorCode") } == [nil, nil, "BAD_REQUEST"])
        let fields = try #require(records[1]["fields"])
        #expect(fields["tags"]?.text("type") == "INT64_LIST" && fields["days"]?.text("type") == "TIMESTAMP_LIST")
    }

    @Test(arguments: bad.indices) func anInvalidRecordIsRefusedAlone(_ row: Int) async throws {
        let (record, code, reason) = Self.bad[row]
        let world = try await world()
        _ = try await save(world, .create("first"))
        let answer = try await world.ask(
            "private/records/modify",
            #"{"zoneID":{"zoneName":"Notes"},"atomic":false,"operations":[{"operationType":"create","record":\#(record)},"#
                + #"{"operationType":"create","record":{"recordName":"good","recordType":"Note"}}]}"#
        )
        let items = try answer.items("records")
        #expect(items[0].text("serverErrorCode") == code)
        #expect(items[0].text("reason")?.contains(reason) == true, "\(items[0].text("reason") ?? "")")
        #expect(items[1].text("serverErrorCode") == nil)
    }

    @Test func recordsAndFieldsHaveAMaximumSize() async throws {
        let world = try await world()
        let large = String(repeating: "x", count: 600_000)
        let both = try await save(
            world,
            Operation(kind: "create", name: "n", fields: #"{"a":{"value":"\#(large)"},"b":{"value":"\#(large)"}}"#)
        )
        #expect(both.text("reason")?.contains("larger than") == true)
        #expect(both.text("serverErrorCode") == "BAD_REQUEST" && both.text("ckErrorCode") == "LIMIT_EXCEEDED")
        let one = try await save(world, Operation(kind: "create", name: "n", fields: #"{"a":{"value":"\#(large)"}}"#))
        #expect(one.text("serverErrorCode") == nil)
        // The size is that of the values, not of their encoding.
        let text = String(repeating: "eHh4", count: 330_000)
        let bytes = try await save(
            world,
            Operation(kind: "forceReplace", name: "n", fields: #"{"c":{"value":"\#(text)","type":"BYTES"}}"#)
        )
        #expect(bytes.text("serverErrorCode") == nil, "\(bytes.text("reason") ?? "")")
    }

    @Test func moreThan200OperationsAreRefusedAsAWhole() async throws {
        let answer = try await world().modify((0..<201).map { .create("n\($0)") })
        #expect(answer.status == 400)
        #expect(answer.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
    }

    /// Every field type is returned as it was saved.
    static let fields: [(json: String, tag: String)] = [
        (#""text \"quoted\" é""#, "STRING"), ("9223372036854775807", "INT64"), ("-9223372036854775808", "INT64"),
        ("96", "DOUBLE"), ("1.5", "DOUBLE"), ("1795216898607", "TIMESTAMP"), (#""AAEC""#, "BYTES"),
        (#"{"recordName":"r","action":"DELETE_SELF"}"#, "REFERENCE"),
        (#"{"latitude":1.5,"longitude":-2.25,"timestamp":7}"#, "LOCATION"),
        (#"{"latitude":-90,"longitude":180}"#, "LOCATION"), ("[]", "STRING_LIST"),
        (#"["a","b"]"#, "STRING_LIST"), ("[1,2]", "INT64_LIST"), ("[1795216898607]", "TIMESTAMP_LIST"),
    ]

    @Test(arguments: fields.indices) func fieldsAreReturnedAsTheyWereSaved(_ row: Int) async throws {
        let (json, tag) = Self.fields[row]
        let world = try await world()
        _ = try await save(
            world,
            Operation(kind: "create", name: "n", fields: #"{"f":{"value":\#(json),"type":"\#(tag)"}}"#)
        )
        let answer = try await world.ask(
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"n"}]}"#
        )
        let field = try #require(try answer.items("records").first?.required("fields").members().first?.value)
        #expect(field.text("type") == tag)
        let type = try #require(FieldType(tag: tag))
        let sent = try FieldCodec.read(JSONDocument(parsing: Array(json.utf8)).root, as: type)
        #expect(try FieldCodec.read(field.required("value"), as: type) == sent)
    }

    @Test func numbersAreReturnedAsStringsOnRequest() async throws {
        let world = try await world()
        let answer = try await world.ask(
            "private/records/modify",
            #"{"zoneID":{"zoneName":"Notes"},"numbersAsStrings":true,"desiredKeys":["a"],"operations":[{"operationType":"create","#
                + #""record":{"recordType":"Note","fields":{"a":{"value":"12","type":"INT64"},"b":{"value":1}}}}]}"#
        )
        let record = try #require(try answer.items("records").first)
        #expect(try record.field("a")?.string() == "12")
        #expect(try record.field("b") == nil)
    }
    /// JavaScript numbers cannot represent every INT64; a client that requests text gets it in every record of the
    /// response.
    @Test(arguments: [true, false]) func numbersAreReturnedAsStringsInConflictsToo(_ isAtomic: Bool) async throws {
        let world = try await world()
        let big = "9007199254740993"
        func write(_ operation: String, _ more: String) async throws -> JSONValue {
            let answer = try await world.ask(
                "private/records/modify",
                #"{"zoneID":{"zoneName":"Notes"},"numbersAsStrings":true,"atomic":\#(isAtomic),"operations":["#
                    + #"{"operationType":"\#(operation)","record":{"recordName":"n","recordType":"Note",\#(more)}}]}"#
            )
            return try #require(try answer.items("records").first)
        }
        let fields = #""fields":{"a":{"value":\#(big),"type":"INT64"},"b":{"value":"x"}}"#
        let made = try await write("create", fields + #","desiredKeys":["a"]"#)
        #expect(try made.field("a")?.string() == big)
        #expect(try made.field("b") == nil)
        let refused = try await write("create", fields + #","desiredKeys":["b"]"#)
        #expect(refused.text("serverErrorCode") == "CONFLICT")
        let server = try #require(refused["serverRecord"])
        #expect(try server.field("a")?.string() == big)
        #expect(try server.field("b")?.string() == "x")
    }
}
