import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Zonecast's extensions of CloudKit's protocol: why a zone was deleted, the schema version, and the limits in force.
@Suite struct OwnExtensionTests {
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
