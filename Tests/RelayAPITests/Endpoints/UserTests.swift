import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Users as other users of the container see them.
///
/// See Wire.md, "User operations".
@Suite struct UserTests {
    let world: RelayWorld

    init() throws { world = try RelayWorld() }

    /// Creates dev users in the container, each with a name and a number, and sets whether they are discoverable.
    private func people(_ names: [String], discoverable: Bool) async throws -> [String] {
        var users: [String] = []
        for name in names {
            let answer = try await world.ask(
                "public/users/discoverability",
                as: name,
                #"{"isDiscoverable":\#(discoverable)}"#
            )
            #expect(answer.json.flag("isDiscoverable") == discoverable)
            users.append(try #require(answer.json.text("userRecordName")))
            let account = try world.directory.devAccount(named: name)
            try world.directory.setName(PersonName(given: name, family: "Byron"), of: account.id)
        }
        return users
    }

    @Test func aUserIsFoundOnlyAfterOptingIn() async throws {
        let name = "ada@example.org"
        let users = try await people([name], discoverable: false)
        let user = try #require(users.first)
        let body = #"{"lookupInfos":[{"emailAddress":" ADA@example.org"},{"userRecordName":"\#(user)"}]}"#
        #expect(try await world.ask("public/users/discover", as: "bob", body).items("users").isEmpty)
        _ = try await people([name], discoverable: true)
        let found = try await world.ask("public/users/discover", as: "bob", body).items("users")
        #expect(found.count == 2)
        for identity in found {
            #expect(identity.text("userRecordName") == user)
            #expect(identity["nameComponents"]?.text("givenName") == name)
            #expect(identity["nameComponents"]?.text("familyName") == "Byron")
        }
        #expect(found.first?["lookupInfo"]?.text("emailAddress") == " ADA@example.org")
        #expect(found.last?["lookupInfo"]?.text("userRecordName") == user)
        _ = try await people([name], discoverable: false)
        #expect(try await world.ask("public/users/discover", as: "bob", body).items("users").isEmpty)
    }

    @Test func theOlderOperationsFindTheSameUsers() async throws {
        let users = try await people(["ada@example.org", "bo@example.org"], discoverable: true)
        let byAddress = try await world.ask(
            "public/users/lookup/email",
            #"{"users":[{"emailAddress":"bo@example.org"},{"emailAddress":"no@example.org"},{"emailAddress":"?"}]}"#
        ).items("users")
        #expect(byAddress.map { $0.text("userRecordName") } == [users[1]])
        #expect(byAddress.first?.text("emailAddress") == "bo@example.org")
        #expect(byAddress.first?.text("firstName") == "bo@example.org")
        let byName = try await world.ask(
            "public/users/lookup/id",
            #"{"users":[{"userRecordName":"\#(users[0])"},{"userRecordName":"_nobody"}]}"#
        ).items("users")
        #expect(byName.map { $0.text("userRecordName") } == [users[0]])
        #expect(byName.first?.hasMember("emailAddress") == false)
    }

    @Test func aUserIsFoundByPhoneNumber() async throws {
        _ = try await people(["ada@example.org"], discoverable: true)
        let ada = try world.directory.devAccount(named: "ada@example.org")
        try world.directory.setPhone("+49 (30) 123-4567", of: ada.id)
        let found = try await world.ask(
            "public/users/discover",
            #"{"lookupInfos":[{"phoneNumber":"0049 30 1234567"},{"phoneNumber":"030 1234567"}]}"#
        ).items("users")
        #expect(found.map { $0["lookupInfo"]?.text("phoneNumber") } == ["0049 30 1234567"])
    }

    @Test func eachContainerHasItsOwnUsers() async throws {
        let users = try await people(["ada@example.org"], discoverable: true)
        let body = #"{"lookupInfos":[{"emailAddress":"ada@example.org"}]}"#
        let there = try await world.ask("public/users/discover", body, environment: "production")
        #expect(try there.items("users").isEmpty)
        let me = try await world.ask("public/users/caller", as: "ada@example.org", environment: "production")
        #expect(me.json.text("userRecordName") != users.first)
        #expect(me.json["nameComponents"]?.hasMember("givenName") == false)
    }

    @Test func theCallerSeesTheirNameAsOthersDo() async throws {
        let users = try await people(["ada@example.org"], discoverable: false)
        let hidden = try await world.ask("public/users/current", as: "ada@example.org", method: .get)
        #expect(hidden.json.text("userRecordName") == users.first)
        #expect(hidden.json["firstName"] == nil && hidden.json.hasMember("firstName"))
        _ = try await people(["ada@example.org"], discoverable: true)
        let shown = try await world.ask("private/users/current", as: "ada@example.org", method: .get)
        #expect(shown.json.text("firstName") == "ada@example.org")
        let caller = try await world.ask("public/users/caller", as: "ada@example.org", method: .get)
        let listed = try #require(try caller.items("users").first)
        #expect(listed["nameComponents"]?.text("familyName") == "Byron")
        #expect(caller.json["nameComponents"]?.text("familyName") == "Byron")
    }

    @Test func contactLookupsReturnNoUsers() async throws {
        for (operation, method) in [
            ("users/discover", HTTPRequest.Method.get), ("users/lookup/contacts", .get),
            ("users/lookup/contacts", .post),
        ] {
            let answer = try await world.ask("public/\(operation)", method: method)
            #expect(answer.status == 200, "\(operation)")
            #expect(try answer.items("users").isEmpty)
        }
    }

    @Test(arguments: [
        "users/current", "users/discover", "users/lookup/email", "users/lookup/id", "users/lookup/contacts",
        "users/discoverability", "users/signout", "users/caller",
    ])
    func aCallerWithoutASignInIsAskedToSignIn(operation: String) async throws {
        let answer = try await world.ask("public/\(operation)", as: nil)
        #expect(answer.status == 421)
        #expect(answer.code == "AUTHENTICATION_REQUIRED")
        #expect(answer.json.text("redirectURL")?.contains("/signin?container=") == true)
    }

    @Test func invalidRequestsAreRefusedWithAReason() async throws {
        let bodies = [
            "{}", #"{"lookupInfos":{}}"#, #"{"lookupInfos":[{}]}"#, #"{"lookupInfos":[{"emailAddress":5}]}"#,
            #"{"lookupInfos":["a@b"]}"#,
        ]
        for body in bodies {
            let answer = try await world.ask("public/users/discover", body)
            #expect(answer.status == 400, "\(body)")
            #expect(answer.code == "BAD_REQUEST")
        }
        let many = Array(repeating: #"{"emailAddress":"a@b.c"}"#, count: 201).joined(separator: ",")
        let answer = try await world.ask("public/users/discover", #"{"lookupInfos":[\#(many)]}"#)
        #expect(answer.status == 400)
        #expect(answer.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
    }

    @Test func usersAreListedOnlyIfTheOperatorAddedAnIndex() async throws {
        _ = try await people(["ada@example.org", "bo@example.org"], discoverable: true)
        let queries = [
            #"{"recordType":"Users"}"#,
            #"{"recordType":"Users","sortBy":[{"systemFieldName":"createdTimestamp"}]}"#,
            #"{"recordType":"Users","filterBy":[{"systemFieldName":"createdTimestamp","comparator":"GREATER_THAN","#
                + #""fieldValue":{"value":0,"type":"TIMESTAMP"}}]}"#,
        ]
        for query in queries {
            for user in [nil, "bob"] {
                let answer = try await world.ask("public/records/query", as: user, #"{"query":\#(query)}"#)
                #expect(answer.status == 400 && answer.code == "BAD_REQUEST", "\(query)")
            }
        }
        var listed = RecordType.users
        listed.systemIndexes[.recordName] = .queryable
        let indexed = listed
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        let store = try world.stores.store(of: home)
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define([RecordType.usersName: indexed])
        }
        let answer = try await world.ask("public/records/query", as: nil, #"{"query":{"recordType":"Users"}}"#)
        #expect(try answer.items("records").count >= 2)
    }

    @Test func onlyTheUserMayWriteTheirUsersRecord() async throws {
        let users = try await people(["ada@example.org"], discoverable: false)
        let user = try #require(users.first)
        let found = try await world.ask("public/records/lookup", #"{"records":[{"recordName":"\#(user)"}]}"#)
        let record = try #require(try found.items("records").first)
        #expect(record.text("recordType") == "Users")
        let write = RelayWorld.Operation(
            kind: "forceUpdate",
            name: user,
            type: "Users",
            fields: #"{"motto":{"value":"hello"}}"#
        )
        let foreign = try await world.modify(in: "public", zone: "_defaultZone", as: "bob", [write])
        #expect(try foreign.items("records").first?.text("serverErrorCode") == "ACCESS_DENIED")
        let own = try await world.modify(in: "public", zone: "_defaultZone", as: "ada@example.org", [write])
        #expect(try own.items("records").first?.field("motto")?.string() == "hello")
    }
}
