import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Formats of requests and responses that third-party clients rely on, found by trying each documented call.
@Suite struct WireDetailsTests {
    let world: RelayWorld

    init() throws { world = try RelayWorld() }

    @Test func aZoneMayAppearOnceInARequest() async throws {
        let answer = try await world.ask(
            "private/zones/modify",
            """
            {"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"A"}}},
            {"operationType":"delete","zone":{"zoneID":{"zoneName":"A"}}}]}
            """
        )
        let zones = try answer.items("zones")
        #expect(zones[0].text("serverErrorCode") == nil)
        #expect(zones[1].text("serverErrorCode") == "BAD_REQUEST")
        #expect(try await world.ask("private/zones/list", method: .get).items("zones").count == 2)
    }

    @Test("a byte order mark before a body is ignored")
    func marksBeforeBodies() async throws {
        let body = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"A"}}}]}"#
        let answer = try await world.ask("private/zones/modify", "\u{FEFF}" + body)
        #expect(try answer.items("zones")[0].text("serverErrorCode") == nil)
        let twice = try await world.ask("private/zones/modify", "\u{FEFF}\u{FEFF}" + body)
        #expect(twice.code == "BAD_REQUEST")
    }

    /// A third-party client's test suite expects this of the live service: creating an existing record conflicts, even
    /// if another user created it.
    @Test func creatingARecordThatAnotherUserCreatedIsAConflict() async throws {
        func write(_ kind: String, as user: String) async throws -> JSONValue {
            let answer = try await world.ask(
                "public/records/modify",
                as: user,
                #"{"operations":[{"operationType":"\#(kind)","record":{"recordName":"a","recordType":"Note","fields":{}}}]}"#
            )
            return try #require(try answer.items("records").first)
        }
        #expect(try await write("create", as: "alice").text("serverErrorCode") == nil)
        let refused = try await write("create", as: "bob")
        #expect(refused.text("serverErrorCode") == "CONFLICT" && refused["serverRecord"] != nil)
        #expect(try await write("forceUpdate", as: "bob").text("serverErrorCode") == "ACCESS_DENIED")
    }

    /// The response names the zone's owner even if the zone does not exist.
    @Test func failedZonesNameTheirOwner() async throws {
        let caller = try await world.ask("public/users/caller", method: .get)
        let name = try #require(caller.json.text("userRecordName"))
        let gone = #"{"zoneName":"Gone"}"#
        let answers = [
            try await world.ask("private/zones/lookup", #"{"zones":[\#(gone)]}"#),
            try await world.ask("private/changes/zone", #"{"zones":[{"zoneID":\#(gone)}]}"#),
            try await world.ask(
                "private/zones/modify",
                #"{"operations":[{"operationType":"delete","zone":{"zoneID":\#(gone)}}]}"#
            ),
        ]
        for answer in answers {
            let zone = try #require(try answer.items("zones").first)
            #expect(zone.text("serverErrorCode") == "ZONE_NOT_FOUND")
            #expect(zone["zoneID"]?.text("ownerRecordName") == name)
        }
    }

    /// Some clients always send the member, empty if there is no owner.
    @Test func anEmptyOwnerMeansTheCaller() async throws {
        try await world.makeZone("Notes")
        #expect(try await world.modify([.create("a")]).status == 200)
        for key in ["ownerRecordName", "ownerName"] {
            let zone = #"{"zoneName":"Notes","\#(key)":""}"#
            let found = try await world.ask(
                "private/records/lookup",
                #"{"zoneID":\#(zone),"records":[{"recordName":"a"}]}"#
            )
            #expect(try found.items("records").map { $0.text("recordType") } == ["Note"], "\(key)")
            let fed = try await world.ask("private/changes/zone", #"{"zones":[{"zoneID":\#(zone)}]}"#)
            #expect(try fed.items("zones").map { $0.text("serverErrorCode") } == [nil], "\(key)")
            // A user cannot share a zone with themselves.
            let shared = try await world.ask("shared/records/changes", #"{"zoneID":\#(zone)}"#)
            #expect(shared.code == "ZONE_NOT_FOUND", "\(key)")
        }
    }

    @Test func aLookupMayNameItsZoneInTheRecords() async throws {
        try await world.makeZone("Notes")
        #expect(try await world.modify([.create("a")]).status == 200)
        let inside = #"{"recordName":"a","zoneID":{"zoneName":"Notes"}}"#
        let other = #"{"recordName":"a","zoneID":{"zoneName":"Other"}}"#
        let answer = try await world.ask("private/records/lookup", #"{"records":[\#(inside),\#(other)]}"#)
        let records = try answer.items("records")
        #expect(records[0].text("recordType") == "Note")
        #expect(records[1].text("serverErrorCode") == "BAD_REQUEST")
        let outside = try await world.ask(
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[\#(inside),{"recordName":"a"}]}"#
        )
        #expect(try outside.items("records").allSatisfy { $0.text("recordType") == "Note" })
    }

    @Test func failedRecordsHaveTheRequestsUUID() async throws {
        let answer = try await world.ask("private/records/lookup", #"{"records":[{"recordName":"no"}]}"#)
        let failed = try #require(try answer.items("records").first)
        #expect(failed.text("uuid") == answer.response.headers[.requestUUIDField])
    }

    @Test func systemFieldsMayHaveTheNamesThatCloudKitJSUses() async throws {
        try await world.makeZone("Notes")
        #expect(try await world.modify([.create("a"), .create("b")]).status == 200)
        let answer = try await world.ask(
            "private/records/query",
            """
            {"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note",
            "filterBy":[{"systemFieldName":"recordName","comparator":"EQUALS","fieldValue":{"value":"b"}}],
            "sortBy":[{"systemFieldName":"createdTimestamp","ascending":false}]}}
            """
        )
        #expect(try answer.items("records").map { $0.text("recordName") } == ["b"])
    }

    @Test func typesMayHaveTheNamesThatCloudKitsResponsesUse() async throws {
        try await world.makeZone("Notes")
        let fields = """
            {"flag":{"value":1,"type":"NUMBER_INT64"},"share":{"value":0.5,"type":"NUMBER_DOUBLE"},
            "secret":{"value":"aGk=","type":"ENCRYPTED_BYTES"}}
            """
        #expect(try await world.modify([.init(kind: "create", name: "a", fields: fields)]).status == 200)
        let answer = try await world.ask(
            "private/records/query",
            """
            {"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note",
            "filterBy":[{"fieldName":"flag","comparator":"EQUALS","fieldValue":{"value":1,"type":"NUMBER_INT64"}}]}}
            """
        )
        let read = try #require(try answer.items("records").first).required("fields")
        #expect(read["flag"]?.text("type") == "INT64")
        #expect(read["share"]?.text("type") == "DOUBLE")
        #expect(read["secret"]?.text("type") == "BYTES")
        #expect(try read["secret"]?.required("isEncrypted").bool() == true)
    }

    @Test func sortingByAnEncryptedFieldIsAcceptedAndIgnored() async throws {
        try await world.makeZone("Notes")
        let secret = #"{"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#
        #expect(try await world.modify([.init(kind: "create", name: "a", fields: secret), .create("b")]).status == 200)
        let sorts = #"[{"fieldName":"secret","ascending":false},{"fieldName":"title"}]"#
        let answer = try await world.ask(
            "private/records/query",
            #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note","sortBy":\#(sorts)}}"#
        )
        #expect(try answer.items("records").map { $0.text("recordName") } == ["a", "b"])
    }

    @Test func usersFindThemselves() async throws {
        let caller = try await world.ask("public/users/caller", method: .get)
        let name = try #require(caller.json.text("userRecordName"))
        func found(_ operation: String, _ body: String, as user: String) async throws -> [String?] {
            try await world.ask("public/users/\(operation)", as: user, body).items("users").map {
                $0.text("userRecordName")
            }
        }
        let discover = #"{"lookupInfos":[{"userRecordName":"\#(name)"}]}"#
        let lookup = #"{"users":[{"userRecordName":"\#(name)"}]}"#
        #expect(try await found("discover", discover, as: "alice") == [name])
        #expect(try await found("lookup/id", lookup, as: "alice") == [name])
        // Other users do not, before the user opts in.
        #expect(try await found("discover", discover, as: "bob") == [])
        #expect(try await found("lookup/id", lookup, as: "bob") == [])
    }

    @Test func uploadsForAMissingZoneAreRefused() async throws {
        let answer = try await world.ask(
            "private/assets/upload",
            #"{"zoneID":{"zoneName":"Gone"},"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#
        )
        #expect(answer.status == 404 && answer.code == "ZONE_NOT_FOUND")
    }

    /// Apple's page of `subscriptions/lookup` omits the database.
    ///
    /// Such a path means the private database.
    @Test func subscriptionsNeedNoDatabaseInTheirPath() async throws {
        let made = try await world.ask(
            "subscriptions/modify",
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"a","subscriptionType":"database"}}]}"#
        )
        #expect(made.status == 200)
        for path in ["subscriptions/list", "private/subscriptions/list"] {
            let found = try await world.ask(path, method: .get).items("subscriptions")
            #expect(found.map { $0.text("subscriptionID") } == ["a"], "\(path)")
        }
        let found = try await world.ask("subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"a"}]}"#)
        #expect(try found.items("subscriptions").first?.text("subscriptionType") == "database")
        #expect(try await world.ask("records/lookup", #"{"records":[]}"#).status == 404)
    }

    /// Applies even if the relay creates containers on demand.
    @Test(arguments: ["a,b", "a%20b", ".a", String(repeating: "a", count: 256)])
    func anInvalidContainerNameIsRefusedWithTheRule(_ name: String) async throws {
        let path = "/database/1/\(name)/development/private/zones/list"
        let request = APIRequest(method: .post, path: path, query: "ckAPIToken=x&ckWebAuthToken=dev-alice")
        let response = await world.relay.respond(to: request)
        #expect(response.status == .notFound)
        let error = try JSONDocument(parsing: response.body).root
        #expect(error.text("serverErrorCode") == "NOT_FOUND")
        #expect(error.text("reason")?.contains("1 to 255 letters, digits, '.', '-' and '_'") == true)
    }
}

extension HTTPField.Name {
    fileprivate static var requestUUIDField: HTTPField.Name {
        HTTPField.Name("X-Apple-Request-UUID") ?? .contentType
    }
}

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

/// Zonecast's extensions of CloudKit's protocol: why a zone was deleted, the schema version, and the limits in force.
@Suite struct WireExtensionTests {
    let world: RelayWorld

    init() throws { world = try RelayWorld() }

    private static func deletion(of zone: String, reason: String?) -> String {
        let why = reason.map { #","reason":"\#($0)""# } ?? ""
        return #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"\#(zone)"}}\#(why)}]}"#
    }

    private func delete(_ zone: String, reason: String?) async throws -> JSONValue {
        let answer = try await world.ask("private/zones/modify", Self.deletion(of: zone, reason: reason))
        return try #require(try answer.items("zones").first)
    }

    @Test func deletedZonesReportTheReason() async throws {
        let reasons: [(zone: String, reason: String?)] = [
            ("Plain", nil), ("Erased", "purged"), ("Reset", "encryptedDataReset"),
        ]
        for (zone, _) in reasons { try await world.makeZone(zone) }
        let start = try #require(try await world.ask("private/changes/database", "{}").json.text("syncToken"))
        for (zone, reason) in reasons {
            let answer = try await delete(zone, reason: reason)
            #expect(answer.flag("deleted") == true && answer.text("reason") == reason, "\(zone)")
        }
        let news = try await world.ask("private/changes/database", #"{"syncToken":"\#(start)"}"#).items("zones")
        let told = news.map { ($0["zoneID"]?.text("zoneName"), $0.flag("deleted"), $0.text("reason")) }
        #expect(told.map(\.0) == reasons.map(\.zone) && told.allSatisfy { $0.1 == true })
        #expect(told.map(\.2) == reasons.map(\.reason))
        // A recreated zone exists and has no reason any more.
        try await world.makeZone("Erased")
        let again = try await world.ask("private/changes/database", #"{"syncToken":"\#(start)"}"#).items("zones")
        let made = again.filter { $0["zoneID"]?.text("zoneName") == "Erased" }
        #expect(made.last?.flag("deleted") == nil && made.last?.text("reason") == nil)
        // A client cannot invent a reason.
        try await world.makeZone("Other")
        let refused = try await world.ask("private/zones/modify", Self.deletion(of: "Other", reason: "boredom")).json
        #expect(refused.text("serverErrorCode") == "BAD_REQUEST")
        let zones = try await world.ask("private/zones/list").items("zones")
        #expect(zones.contains { $0["zoneID"]?.text("zoneName") == "Other" })
    }

    @Test func theSchemaVersionIsReturnedOnRequest() async throws {
        let plain = try await world.ask("private/changes/database", "{}").json
        #expect(plain["schemaVersion"] == nil)
        func version() async throws -> Int64 {
            let answer = try await world.ask("private/changes/database", #"{"schemaVersion":true}"#)
            return try answer.json.required("schemaVersion").int64()
        }
        let before = try await version()
        #expect(try await version() == before)
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a")])
        let after = try await version()
        #expect(after > before, "A new type changes the schema version.")
        _ = try await world.modify([.create("b")])
        #expect(try await version() == after)
    }

    @Test func limitsStorageAndRightsAreReported() async throws {
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a")])
        let own = try await world.ask("private/limits", "{}").json
        #expect(try own.required("limits").required("recordBytes").int64() == 1_000_000)
        #expect(try own.required("limits").required("participants").int64() == 100)
        #expect(try own.required("storage").required("used").int64() > 0)
        #expect(try own.required("storage").required("limit").int64() == 5_000_000_000)
        #expect(own["rights"] == nil)
        let shared = try await world.ask("shared/limits", "{}").json
        #expect(shared["storage"] == nil && shared["rights"] == nil)
        _ = try await world.ask(
            "public/records/modify",
            #"{"operations":[{"operationType":"create","record":{"recordName":"p","recordType":"Post","fields":{}}}]}"#
        )
        let rights = try await world.ask("public/limits", as: "bob", "{}").json.required("rights")
        let post = try rights.required("Post").elements().map { try $0.string() }
        #expect(post == ["READ", "CREATE"], "The creator role's rights apply to own records only.")
        #expect(try await world.ask("public/limits", "{}").json["storage"] == nil)
    }
}
