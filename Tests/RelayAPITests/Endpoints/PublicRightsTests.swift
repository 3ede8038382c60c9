import HTTPTypes
import Records
import RelayCore
import Testing
import Wire

/// The rights that a schema's roles grant in the public database.
///
/// See Errors.md, "Database scopes".
@Suite struct PublicRightsTests {
    let world: RelayWorld

    init() throws { world = try RelayWorld() }

    private func grant(_ grants: [Role: Rights]) async throws {
        let type = RecordType(
            fields: ["title": .init(.scalar(.string), indexes: []), "secret": .init(.scalar(.string), indexes: [])],
            grants: grants
        )
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let store = try world.stores.store(of: home)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": type])
        }
    }

    /// Saves one record and returns its outcome.
    private func save(
        _ kind: String,
        _ fields: String,
        name: String = "a",
        tag: String? = nil,
        as user: String?,
        extra: String = ""
    ) async throws -> JSONValue {
        let operation = RelayWorld.Operation(kind: kind, name: name, tag: tag, fields: fields)
        let body = #"{"operations":[\#(operation.json)]\#(extra)}"#
        let answer = try await world.ask("public/records/modify", as: user, body)
        return try answer.json["records"]?.elements().first ?? answer.json
    }

    private func lookUp(_ name: String, as user: String) async throws -> JSONValue {
        let answer = try await world.ask("public/records/lookup", as: user, #"{"records":[{"recordName":"\#(name)"}]}"#)
        return try #require(try answer.items("records").first)
    }

    /// Returns the names of the notes that a query finds.
    private func query(as user: String) async throws -> [String?] {
        let answer = try await world.ask("public/records/query", as: user, #"{"query":{"recordType":"Note"}}"#)
        return try answer.items("records").map { $0.text("recordName") }
    }

    private static let whole = #"{"title":{"value":"t"},"secret":{"value":"s"}}"#
    private static let title = #"{"title":{"value":"of bob"}}"#

    // MARK: Implied rights

    @Test("WRITE includes READ, for all records and for the creator's own")
    func writeIncludesRead() async throws {
        try await grant([.authenticated: [.create, .write]])
        #expect(try await save("create", Self.whole, as: "alice").text("serverErrorCode") == nil)
        #expect(try await lookUp("a", as: "bob").field("secret")?.string() == "s")
        #expect(try await query(as: "bob") == ["a"])
        let conflict = try await save("update", Self.title, tag: "stale", as: "bob")
        #expect(conflict.text("serverErrorCode") == "CONFLICT" && conflict.hasMember("serverRecord"))
        #expect(try await save("forceUpdate", Self.title, as: "bob").field("secret")?.string() == "s")
        let limits = try await world.ask("public/limits", as: "bob", method: .get)
        let rights = try limits.json.required("rights").required("Note").elements()
        #expect(try rights.map { try $0.string() } == ["READ", "CREATE", "WRITE"])

        try await grant([.creator: .write])
        #expect(try await lookUp("a", as: "alice").field("secret")?.string() == "s")
        #expect(try await lookUp("a", as: "bob").text("serverErrorCode") == "NOT_FOUND")
    }

    @Test(
        "CREATE includes reading and writing one's own records, never those of others",
        arguments: [Role.authenticated, .creator]
    )
    func createIncludesOwnRecords(_ role: Role) async throws {
        try await grant([role: .create])
        #expect(try await save("create", Self.whole, as: "alice").text("serverErrorCode") == nil)
        #expect(try await save("create", Self.whole, name: "b", as: "bob").text("serverErrorCode") == nil)
        #expect(try await lookUp("a", as: "alice").field("secret")?.string() == "s")
        #expect(try await query(as: "alice") == ["a"])
        #expect(try await save("forceUpdate", Self.title, as: "alice").field("title")?.string() == "of bob")

        #expect(try await lookUp("b", as: "alice").text("serverErrorCode") == "NOT_FOUND")
        for kind in ["forceUpdate", "forceReplace"] {
            let refused = try await save(kind, Self.title, name: "b", as: "alice")
            #expect(refused.text("serverErrorCode") == "ACCESS_DENIED", "\(kind)")
        }
        _ = try await save("forceDelete", "{}", name: "b", as: "alice")
        #expect(try await lookUp("b", as: "bob").field("secret")?.string() == "s", "alice may not delete bob's record")
        #expect(try await save("forceDelete", "{}", as: "alice").flag("deleted") == true)
    }

    @Test("READ implies no other right, and the rights that CREATE implies end with it")
    func readIncludesNothing() async throws {
        try await grant([.world: .read, .authenticated: .create])
        _ = try await save("create", Self.whole, as: "alice")
        #expect(try await save("forceUpdate", Self.title, as: "bob").text("serverErrorCode") == "ACCESS_DENIED")
        try await grant([.world: .read])
        #expect(try await save("forceUpdate", Self.title, as: "alice").text("serverErrorCode") == "ACCESS_DENIED")
        #expect(try await save("create", Self.whole, name: "b", as: "alice").text("serverErrorCode") == "ACCESS_DENIED")
        #expect(try await lookUp("a", as: "alice").field("secret")?.string() == "s")
    }

    @Test("a repeated request returns no fields after the caller lost read access")
    func aRepeatAfterLosingReadAccess() async throws {
        try await grant([.authenticated: .create])
        let extra = #","operationID":"once""#
        _ = try await save("create", Self.whole, as: "bob", extra: extra)
        try await grant([:])
        let again = try await save("create", Self.whole, as: "bob", extra: extra)
        #expect(again.text("serverErrorCode") == "NOT_FOUND" && again["fields"] == nil)
    }

    // MARK: Creators

    @Test func theCreatorRolesCreateRightAppliesToAllSignedInUsers() async throws {
        try await grant([.creator: [.read, .create]])
        #expect(try await save("create", Self.whole, as: "alice").text("recordChangeTag") != nil)
        #expect(try await save("create", Self.whole, name: "b", as: nil).text("serverErrorCode") != nil)
        #expect(try await save("forceUpdate", Self.title, as: "alice").text("serverErrorCode") == nil)
        #expect(try await lookUp("a", as: "bob").text("serverErrorCode") == "NOT_FOUND")
        let limits = try await world.ask("public/limits", as: "bob", method: .get)
        let rights = try limits.json.required("rights").required("Note").elements()
        #expect(try rights.map { try $0.string() } == ["CREATE"])
    }

    /// Uploads that wait for their record count against the quota of all users.
    @Test func uploadingRequiresTheRightToSave() async throws {
        try await grant([.world: .read, .authenticated: [.read, .create], .creator: .write])
        _ = try await save("create", Self.whole, as: "alice")
        func upload(_ name: String, as user: String) async throws -> Int {
            let token = #"{"recordType":"Note","fieldName":"file","recordName":"\#(name)"}"#
            return try await world.ask("public/assets/upload", as: user, #"{"tokens":[\#(token)]}"#).status
        }
        #expect(try await upload("new", as: "bob") == 200)
        try await grant([.world: .read, .creator: .write])
        #expect(try await upload("new", as: "bob") == 403)
        #expect(try await upload("a", as: "bob") == 403)
        #expect(try await upload("a", as: "alice") == 200, "alice may change her own record")
    }

    /// The relay answers every operation on an unreadable record as if the record did not exist.
    @Test func anUnreadableRecordLooksLikeAMissingOne() async throws {
        try await grant([.creator: [.read, .create, .write]])
        _ = try await save("create", Self.whole, name: "there", as: "alice")
        try await grant([.creator: [.read, .write]])
        for kind in ["forceDelete", "delete", "update", "replace", "forceUpdate", "forceReplace", "create"] {
            for type in kind.hasSuffix("elete") ? [nil] : ["Note", nil] {
                var answers: [String] = []
                for name in ["there", "gone"] {
                    let operation = RelayWorld.Operation(kind: kind, name: name, tag: "1", type: type, fields: "{}")
                    let body = #"{"operations":[\#(operation.json)]}"#
                    let items = try await world.ask("public/records/modify", as: "bob", body).items("records")
                    let item = try #require(items.first)
                    let parts = [item.text("serverErrorCode"), item.text("reason"), item.text("recordType")]
                    answers.append("\(parts) \(item.flag("deleted") ?? false)")
                }
                #expect(answers[0] == answers[1], "\(kind) of \(type ?? "no type")")
            }
        }
        #expect(try await lookUp("there", as: "alice").text("recordType") == "Note")
    }

    @Test(arguments: [Rights.read, .write, [.read, .write]])
    func theCreatorRolesOtherRightsDoNotAllowCreating(_ rights: Rights) async throws {
        try await grant([.creator: rights])
        #expect(try await save("create", Self.whole, as: "alice").text("serverErrorCode") == "ACCESS_DENIED")
    }

    /// A record that its owner cannot see neither blocks the deletion of the owner's record nor appears in an error.
    @Test func anUnreadableRecordDoesNotBlockADeletion() async throws {
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let field = ["on": RecordType.Field(.scalar(.reference), indexes: [])]
        let open = RecordType(grants: [.world: .read, .authenticated: .create, .creator: .write])
        let own = RecordType(fields: field, grants: [.authenticated: .create, .creator: [.read, .write]])
        try await world.stores.store(of: home).write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": open, "Mark": own, "Pin": RecordType(fields: field)])
        }
        func mark(_ name: String, _ type: String, on target: String) async throws {
            let fields = #"{"on":{"value":{"recordName":"\#(target)","action":"VALIDATE"}}}"#
            let operation = RelayWorld.Operation(kind: "create", name: name, type: type, fields: fields)
            let body = #"{"operations":[\#(operation.json)]}"#
            let item = try await world.ask("public/records/modify", as: "bob", body).items("records").first
            #expect(item?.text("serverErrorCode") == nil, "\(item?.text("reason") ?? "")")
        }
        for name in ["a", "b"] { _ = try await save("create", "{}", name: name, as: "alice") }
        for name in ["a", "b"] { try await mark("mark-\(name)", "Mark", on: name) }
        try await mark("pin", "Pin", on: "b")
        #expect(try await save("forceDelete", "{}", name: "a", as: "alice").flag("deleted") == true)
        // A record that everybody can see does block.
        let held = try await save("forceDelete", "{}", name: "b", as: "alice")
        #expect(held.text("serverErrorCode") == "VALIDATING_REFERENCE_ERROR")
    }
}
