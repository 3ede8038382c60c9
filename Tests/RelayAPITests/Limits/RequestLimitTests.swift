import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// The limits of requests, each tested at and above the limit.
///
/// See Wire.md, "Limits", and Reliability.md, "Limits".
///
/// The limits of the transport are tested in `RelayServerTests`.
@Suite(.timeLimit(.minutes(15))) struct RequestLimitTests {
    // MARK: Items in a request

    struct Items: Sendable, CustomTestStringConvertible {
        var operation: String
        var list: String
        var item: @Sendable (Int) -> String
        var testDescription: String { operation }
    }

    static let items: [Items] = [
        Items(operation: "private/records/modify", list: "operations") {
            #"{"operationType":"forceDelete","record":{"recordName":"r\#($0)"}}"#
        },
        Items(operation: "private/records/lookup", list: "records") { #"{"recordName":"r\#($0)"}"# },
        Items(operation: "private/zones/lookup", list: "zones") { #"{"zoneName":"z\#($0)"}"# },
        Items(operation: "private/zones/modify", list: "operations") {
            #"{"operationType":"delete","zone":{"zoneID":{"zoneName":"z\#($0)"}}}"#
        },
        Items(operation: "private/changes/zone", list: "zones") { #"{"zoneID":{"zoneName":"z\#($0)"}}"# },
        Items(operation: "private/subscriptions/lookup", list: "subscriptions") { #"{"subscriptionID":"s\#($0)"}"# },
        Items(operation: "private/subscriptions/modify", list: "operations") {
            #"{"operationType":"delete","subscription":{"subscriptionID":"s\#($0)"}}"#
        },
        Items(operation: "private/assets/upload", list: "tokens") {
            #"{"recordName":"r\#($0)","recordType":"Note","fieldName":"file"}"#
        },
        Items(operation: "private/assets/rereference", list: "assets") {
            #"{"recordName":"r\#($0)","fieldName":"file"}"#
        },
        Items(operation: "public/users/discover", list: "lookupInfos") { #"{"emailAddress":"u\#($0)@example.com"}"# },
        Items(operation: "public/users/lookup/email", list: "users") { #"{"emailAddress":"u\#($0)@example.com"}"# },
        Items(operation: "public/users/lookup/id", list: "users") { #"{"userRecordName":"_\#($0)"}"# },
    ]

    @Test(arguments: items) func aRequestHasAtMostTwoHundredItems(_ row: Items) async throws {
        let world = try RelayWorld()
        func body(_ count: Int) -> String {
            #"{"\#(row.list)":[\#((0..<count).map(row.item).joined(separator: ","))]}"#
        }
        #expect(try await world.ask(row.operation, body(200)).status == 200)
        let refused = try await world.ask(row.operation, body(201))
        #expect(refused.status == 400 && refused.code == "BAD_REQUEST")
        #expect(refused.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        let reason = try #require(refused.json.text("reason"))
        #expect(reason.contains("200") && reason.contains("201"), "\(reason)")
    }

    @Test func aPageHasAtMostTwoHundredRecords() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        for start in [0, 200] {
            let answer = try await world.modify((start..<start + 200).map { .create("n\($0)") })
            #expect(answer.status == 200)
        }
        let all = #""zoneID":{"zoneName":"Notes"},"resultsLimit":1000"#
        let query = try await world.ask("private/records/query", #"{\#(all),"query":{"recordType":"Note"}}"#)
        #expect(try query.items("records").count == 200)
        let feed = try await world.ask("private/records/changes", "{\(all)}")
        #expect(try feed.items("records").count == 200 && feed.json.flag("moreComing") == true)
        let zone = try await world.changes(limit: 1_000)
        #expect(try zone.required("records").elements().count == 200)
    }

    @Test(arguments: [0, -1, Int.min]) func aPageHasAtLeastOneRecord(_ limit: Int) async throws {
        let world = try RelayWorld()
        for (operation, extra) in [
            ("records/query", #","query":{"recordType":"Users"}"#), ("changes/database", ""),
            ("changes/zone", #","zones":[]"#),
        ] {
            let answer = try await world.ask("private/\(operation)", #"{"resultsLimit":\#(limit)\#(extra)}"#)
            #expect(answer.status == 400 && answer.code == "BAD_REQUEST", "\(operation)")
            #expect(answer.json.text("reason") == "resultsLimit must be 1 or more.", "\(operation)")
        }
    }

    @Test func anInvalidResultsLimitFailsOnlyItsZone() async throws {
        let world = try RelayWorld()
        for zone in ["Notes", "Plans"] { try await world.makeZone(zone) }
        let answer = try await world.ask(
            "private/changes/zone",
            #"{"zones":[{"zoneID":{"zoneName":"Notes"},"resultsLimit":0},{"zoneID":{"zoneName":"Plans"}}]}"#
        )
        let zones = try answer.items("zones")
        #expect(zones.map { $0.text("reason") } == ["resultsLimit must be 1 or more.", nil])
        #expect(zones.first?["zoneID"]?.text("zoneName") == "Notes" && zones.last?["syncToken"] != nil)
    }

    // MARK: Names

    @Test func theGrowthOfASchemaIsLimited() async throws {
        var limits = Limits()
        (limits.grownTypes, limits.grownFields) = (3, 5)
        let world = try RelayWorld(limits: limits)
        func code(_ fields: [String], type: String) async throws -> String? {
            let all = fields.map { #""\#($0)":{"value":1}"# }.joined(separator: ",")
            let item = try await save("{\(all)}", name: type, type: type, world)
            return item.text("ckErrorCode") ?? item.text("serverErrorCode")
        }
        // One of the types is the one of users, which has a field.
        #expect(try await code(["a", "b"], type: "Note") == nil)
        #expect(try await code(["a", "b", "c"], type: "Plan") == "LIMIT_EXCEEDED")
        #expect(try await code(["a"], type: "Plan") == nil)
        #expect(try await code([], type: "List") == "LIMIT_EXCEEDED")
        #expect(try await code(["a", "b", "c"], type: "Note") == nil)
        #expect(try await code(["d"], type: "Plan") == "LIMIT_EXCEEDED")
        // Known fields can still be saved.
        #expect(try await code(["a"], type: "Plan") == nil)
    }

    // MARK: Sizes

    /// Saves one record and returns its outcome.
    private func save(
        _ fields: String,
        name: String = "r",
        type: String = "Note",
        zone: String = "_defaultZone",
        _ world: RelayWorld
    ) async throws -> JSONValue {
        let answer = try await world.ask(
            "private/records/modify",
            """
            {"zoneID":{"zoneName":"\(zone)"},"operations":[{"operationType":"forceReplace","record":{"recordName":"\(name)",
            "recordType":"\(type)","fields":\(fields)}}]}
            """
        )
        #expect(
            answer.status == 200,
            "a record's own fault must not fail the request: \(answer.json.text("reason") ?? "")"
        )
        return try #require(try answer.items("records").first)
    }

    private func expectRefusal(
        _ item: JSONValue,
        naming words: String...,
        from location: SourceLocation = #_sourceLocation
    ) {
        #expect(item.text("serverErrorCode") == "BAD_REQUEST", sourceLocation: location)
        let reason = item.text("reason") ?? ""
        for word in words { #expect(reason.contains(word), "\(reason)", sourceLocation: location) }
    }

    @Test func stringsAndBytesHaveAtMostAMegabyte() async throws {
        // The record limit is raised, so that the field limit applies.
        var limits = Limits()
        limits.recordBytes = 3_000_000
        let world = try RelayWorld(limits: limits)
        func text(_ count: Int) -> String { String(repeating: "x", count: count) }
        #expect(try await save(#"{"t":{"value":"\#(text(1_000_000))"}}"#, world).text("serverErrorCode") == nil)
        expectRefusal(try await save(#"{"t":{"value":"\#(text(1_000_001))"}}"#, world), naming: "'t'", "1000000")
        let good = Base64.encode([UInt8](repeating: 7, count: 1_000_000))
        #expect(try await save(#"{"b":{"value":"\#(good)","type":"BYTES"}}"#, world).text("serverErrorCode") == nil)
        let bad = Base64.encode([UInt8](repeating: 7, count: 1_000_001))
        expectRefusal(try await save(#"{"b":{"value":"\#(bad)","type":"BYTES"}}"#, world), naming: "'b'", "1000000")
        expectRefusal(try await save(#"{"l":{"value":["\#(text(1_000_001))"]}}"#, world), naming: "'l'", "1000000")
    }

    @Test func aRecordHasAtMostAMegabyte() async throws {
        let world = try RelayWorld()
        func fields(_ count: Int) -> String {
            let half = String(repeating: "x", count: count / 2)
            return #"{"a":{"value":"\#(half)"},"b":{"value":"\#(half)"}}"#
        }
        #expect(try await save(fields(990_000), world).text("serverErrorCode") == nil)
        expectRefusal(try await save(fields(1_010_000), world), naming: "1000000")
    }

    @Test func anUpdateCountsTheFieldsThatItKeeps() async throws {
        let world = try RelayWorld()
        let part = String(repeating: "x", count: 600_000)
        _ = try await save(#"{"a":{"value":"\#(part)"}}"#, world)
        let answer = try await world.ask(
            "private/records/modify",
            #"{"operations":[{"operationType":"forceUpdate","record":{"recordName":"r","fields":{"b":{"value":"\#(part)"}}}}]}"#
        )
        expectRefusal(try #require(try answer.items("records").first), naming: "1000000")
    }

    // MARK: Names

    static let recordNames: [(name: String, isGood: Bool)] = [
        (String(repeating: "n", count: 255), true), (String(repeating: "n", count: 256), false), ("", false),
        ("naïve", false), ("a\\u0000b", false), ("_a.b/c d~", true),
    ]

    @Test(arguments: recordNames) func recordNamesHaveOneToTwoHundredAndFiftyFiveASCIICharacters(
        _ row: (name: String, isGood: Bool)
    ) async throws {
        let item = try await save("{}", name: row.name, RelayWorld())
        guard !row.isGood else { return #expect(item.text("serverErrorCode") == nil) }
        expectRefusal(item, naming: "1 to 255")
    }

    static let zoneNames: [(name: String, isGood: Bool)] = [
        (String(repeating: "z", count: 255), true), (String(repeating: "z", count: 256), false), ("", false),
        ("_zone", false), ("zoné", false), ("a_b", true),
    ]

    @Test(arguments: zoneNames) func zoneNamesHaveTheSameLimitAndNoLeadingUnderscore(
        _ row: (name: String, isGood: Bool)
    ) async throws {
        let world = try RelayWorld()
        let answer = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(row.name)"}}}]}"#
        )
        let item = try #require(try answer.items("zones").first)
        guard !row.isGood else { return #expect(item.text("serverErrorCode") == nil) }
        expectRefusal(item, naming: "1 to 255", "underscore")
    }

    static let identifiers: [(name: String, isGood: Bool)] = [
        (String(repeating: "a", count: 255), true), (String(repeating: "a", count: 256), false), ("1a", false),
        ("a-b", false), ("", false), ("_a", false), ("ä", false), ("a_1", true),
    ]

    @Test(arguments: identifiers) func typesAndFieldsAreIdentifiers(_ row: (name: String, isGood: Bool)) async throws {
        let world = try RelayWorld()
        let type = try await save("{}", name: "t", type: row.name, world)
        let field = try await save(#"{"\#(row.name)":{"value":1}}"#, world)
        guard !row.isGood else {
            #expect(type.text("serverErrorCode") == nil && field.text("serverErrorCode") == nil)
            return
        }
        expectRefusal(field, naming: "letters, digits and underscores")
        // A type name that no schema can contain is reported as unknown, as to a client that cannot extend the schema.
        let isUnknown = (1...255).contains(row.name.utf8.count)
        #expect(type.text("serverErrorCode") == (isUnknown ? "NOT_FOUND" : "BAD_REQUEST"))
        #expect(type.text("reason")?.contains("letters, digits and underscores") == true)
    }

    // MARK: Limits per user

    @Test func theNumberOfZonesIsLimited() async throws {
        var limits = Limits()
        limits.zonesPerUser = 3
        let world = try RelayWorld(limits: limits)
        for number in 0..<3 { try await world.makeZone("z\(number)") }
        let refused = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"one-more"}}}]}"#
        )
        let item = try #require(try refused.items("zones").first)
        #expect(refused.status == 200 && item.text("serverErrorCode") == "QUOTA_EXCEEDED")
        #expect(item.text("reason")?.contains("Delete one") == true)
        _ = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"z0"}}}]}"#
        )
        try await world.makeZone("one-more")
        #expect(try await world.ask("private/zones/list").items("zones").count == 4)
    }

    @Test func theNumberOfSubscriptionsIsLimited() async throws {
        var limits = Limits()
        limits.subscriptionsPerDatabase = 2
        let world = try RelayWorld(limits: limits)
        func make(_ id: String) async throws -> JSONValue {
            let answer = try await world.ask(
                "private/subscriptions/modify",
                #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"\#(id)","subscriptionType":"database"}}]}"#
            )
            return try #require(try answer.items("subscriptions").first)
        }
        for id in ["a", "b", "a"] { #expect(try await make(id).text("serverErrorCode") == nil) }
        let refused = try await make("c")
        #expect(refused.text("serverErrorCode") == "QUOTA_EXCEEDED")
        #expect(refused.text("reason")?.contains("Delete one") == true)
        expectRefusal(try await make(String(repeating: "s", count: 256)), naming: "255")
    }

    /// All subscriptions are kept in memory, so their number is not the only limit.
    @Test func theSizeOfSubscriptionsIsLimited() async throws {
        var limits = Limits()
        limits.subscriptionBytesPerDatabase = 400
        let world = try RelayWorld(limits: limits)
        func make(_ id: String, alert length: Int) async throws -> JSONValue {
            let text = String(repeating: "x", count: length)
            let subscription =
                #"{"subscriptionID":"\#(id)","subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"],"#
                + #""notificationInfo":{"alertBody":"\#(text)"}}"#
            let answer = try await world.ask(
                "private/subscriptions/modify",
                #"{"operations":[{"operationType":"create","subscription":\#(subscription)}]}"#
            )
            return try #require(try answer.items("subscriptions").first)
        }
        _ = try await world.modify(zone: "_defaultZone", [.create("n")])
        for id in ["a", "b", "a"] { #expect(try await make(id, alert: 100).text("serverErrorCode") == nil) }
        #expect(try await make("c", alert: 200).text("serverErrorCode") == "QUOTA_EXCEEDED")
        #expect(try await make("a", alert: 400).text("serverErrorCode") == "QUOTA_EXCEEDED")
        // A change that does not increase the size is always allowed.
        #expect(try await make("a", alert: 10).text("serverErrorCode") == nil)
    }

    // MARK: Queries

    private func query(_ query: String, _ world: RelayWorld) async throws -> Answer {
        _ = try await save(#"{"n":{"value":1},"t":{"value":"x"}}"#, world)
        return try await world.ask("private/records/query", #"{"query":{"recordType":"Note",\#(query)}}"#)
    }

    @Test func theNumberOfQueryPartsIsLimited() async throws {
        let world = try RelayWorld()
        let filter = #"{"comparator":"EQUALS","fieldName":"n","fieldValue":{"value":1}}"#
        let sort = #"{"fieldName":"n"}"#
        func list(_ part: String, _ count: Int) -> String {
            "[" + Array(repeating: part, count: count).joined(separator: ",") + "]"
        }
        for (text, isGood) in [
            (#""filterBy":\#(list(filter, 16))"#, true), (#""filterBy":\#(list(filter, 17))"#, false),
            (#""sortBy":\#(list(sort, 4))"#, true), (#""sortBy":\#(list(sort, 5))"#, false),
        ] {
            let answer = try await query(text, world)
            #expect(answer.status == (isGood ? 200 : 400))
            if !isGood { expectRefusal(answer.json, naming: "16", "4") }
        }
    }

    @Test func listsInFiltersAreLimited() async throws {
        let world = try RelayWorld()
        func list(_ count: Int) -> String {
            let values = (0..<count).map(String.init).joined(separator: ",")
            return
                #""filterBy":[{"comparator":"IN","fieldName":"n","fieldValue":{"value":[\#(values)],"type":"INT64_LIST"}}]"#
        }
        #expect(try await query(list(250), world).status == 200)
        for count in [0, 251] {
            let answer = try await query(list(count), world)
            #expect(answer.status == 400)
            expectRefusal(answer.json, naming: "250")
        }
    }

    // MARK: JSON

    static let texts: [(name: String, body: String, words: [String])] = [
        ("depth", #"{"a":"# + String(repeating: "[", count: 32) + String(repeating: "]", count: 32) + "}", ["32"]),
        ("members", #"{"a":[0"# + String(repeating: ",0", count: 100_000) + "]}", ["100000"]),
        ("number", #"{"a":1\#(String(repeating: "0", count: 64))}"#, ["64"]),
    ]

    @Test(arguments: texts) func jsonIsLimited(_ row: (name: String, body: String, words: [String])) async throws {
        let answer = try await RelayWorld().ask("private/zones/lookup", row.body)
        #expect(answer.status == 400, "\(row.name)")
        expectRefusal(answer.json)
        let reason = answer.json.text("reason") ?? ""
        #expect(row.words.allSatisfy { reason.filter { $0 != "," }.contains($0) }, "\(reason)")
    }

    // MARK: Other limits

    @Test func thePartsOfASubscriptionAreLimited() async throws {
        let world = try RelayWorld()
        let long = String(repeating: "x", count: 20_000)
        for extra in [
            #""subscriptionType":"zone","notificationInfo":{"alertBody":"\#(long)"}"#,
            #""subscriptionType":"query","firesOn":["create"],"query":{"recordType":"Note","x":"\#(long)"}"#,
        ] {
            let answer = try await world.ask(
                "private/subscriptions/modify",
                #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s",\#(extra)}}]}"#
            )
            expectRefusal(try #require(try answer.items("subscriptions").first), naming: "bytes")
        }
    }

    @Test func theLengthOfADeviceIDIsLimited() async throws {
        let world = try RelayWorld()
        let name = try #require(HTTPField.Name("X-Zonecast-Device-ID"))
        for (id, status) in [(String(repeating: "d", count: 255), 200), (String(repeating: "d", count: 256), 400)] {
            var request = APIRequest(
                method: .get,
                path: "/database/1/\(world.container)/development/private/zones/list",
                query: "ckAPIToken=x&ckWebAuthToken=dev-alice"
            )
            request.headers[name] = id
            #expect(await world.relay.respond(to: request).status.code == status)
        }
    }

    /// Uses limits that an operator may have configured.
    @Test func bodiesAreParsedWithTheConfiguredLimits() async throws {
        var limits = Limits()
        (limits.json.depth, limits.json.members) = (8, 1_000)
        let world = try RelayWorld(limits: limits)
        let deep = String(repeating: "[", count: 9) + String(repeating: "]", count: 9)
        let wide = "[" + Array(repeating: "1", count: 1_001).joined(separator: ",") + "]"
        for value in [deep, wide] {
            #expect(try await world.ask("private/zones/list", #"{"x":\#(value)}"#).status == 400)
            let usual = try RelayWorld()
            #expect(try await usual.ask("private/zones/list", #"{"x":\#(value)}"#).status == 200)
        }
    }
}
