import HTTPTypes
import Records
import RelayAPI
import Testing
import Wire

/// Formats of requests and responses that third-party clients rely on, found by trying each documented call.
@Suite struct WireOdditiesTests {
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
