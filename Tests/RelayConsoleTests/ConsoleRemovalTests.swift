import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import Synchronization
import Testing

/// Operators end shares, access to them, and accounts.
@Suite struct ConsoleRemovalTests {
    private struct Shares: Decodable {
        struct Participant: Decodable { var id: String, user: String?, permission: String, role: String }
        struct Share: Decodable { var id: Int64, zone: String, publicPermission: String, participants: [Participant] }
        var shares: [Share]
    }

    private struct Zones: Decodable {
        struct Zone: Decodable {
            struct ID: Decodable { var zoneName: String }
            var zoneID: ID
        }
        var zones: [Zone]
    }

    private static let secret = "very-private-word"

    /// Creates a world with alice's zone, which has a record and is shared by name or by a link.
    private func world(
        link: Bool,
        onCommit: @escaping @Sendable (any AccountDirectory) -> Void = { _ in }
    ) async throws -> (world: ConsoleWorld, guid: String) {
        struct Made: Decodable {
            struct Record: Decodable { var shortGUID: String? }
            var records: [Record]
        }
        let world = try ConsoleWorld(onCommit: onCommit)
        try await world.wire(
            "private/zones/modify",
            as: "alice",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        )
        let members =
            link
            ? #""publicPermission":"READ_ONLY""#
            : #""participants":[{"permission":"READ_ONLY","userIdentity":{"lookupInfo":{"emailAddress":"carol@example.org"}}}]"#
        let share =
            #"{"recordName":"cloudkit.zoneshare","recordType":"cloudkit.share","fields":{"cloudkit.title":{"value":"\#(Self.secret)"}},\#(members)}"#
        let answer = await world.answer(
            "private/records/modify",
            as: "alice",
            """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"\(Self.secret)-name",
            "recordType":"Note","fields":{"title":{"value":"\(Self.secret)"}}}},{"operationType":"create","record":\(share)}]}
            """
        )
        let guid = try #require(try answer.json(Made.self).records.last?.shortGUID, "\(answer.text)")
        if link {
            try await world.wire("public/records/accept", as: "bob", #"{"shortGUIDs":[{"value":"\#(guid)"}]}"#)
        }
        try await world.enter()
        return (world, guid)
    }

    private func shares(_ world: ConsoleWorld) async throws -> [Shares.Share] {
        let answer = try await world.ask(.get, "/console/api/shares")
        #expect(!answer.text.contains(Self.secret) && !answer.text.contains("carol"))
        return try answer.json(Shares.self).shares
    }

    private func change(_ world: ConsoleWorld, _ name: String, _ body: String, query: String = "") async throws
        -> APIResponse
    {
        let answer = try await world.ask(.post, "/console/api/shares/\(name)", query: query, body: body)
        #expect(!answer.text.contains(Self.secret))
        return answer
    }

    private func zones(_ world: ConsoleWorld, _ database: String, of user: String) async throws -> [String] {
        let answer = await world.answer("\(database)/zones/list", as: user, "{}")
        return try answer.json(Zones.self).zones.map(\.zoneID.zoneName).filter { $0 != ZoneID.defaultName }
    }

    @Test func aParticipantsPermissionIsChangedAndRemoved() async throws {
        let (world, _) = try await world(link: false)
        let share = try #require(try await shares(world).first)
        let who = try #require(share.participants.first { $0.permission == "READ_ONLY" })
        let one = #""id":\#(share.id),"participant":"\#(who.id)""#
        #expect(try await change(world, "permission", #"{\#(one),"permission":"READ_WRITE"}"#).status == .ok)
        let changed = try #require(try await shares(world).first?.participants.first { $0.id == who.id })
        #expect(changed.permission == "READ_WRITE")
        #expect(try await change(world, "remove", "{\(one)}").status == .ok)
        #expect(try await shares(world).first?.participants.contains { $0.id == who.id } == false)
        #expect(try await change(world, "remove", "{\(one)}").status == .notFound)
        #expect(try await change(world, "stop", #"{"id":\#(share.id)}"#).status == .ok)
        #expect(try await shares(world).isEmpty)
        #expect(try await change(world, "stop", #"{"id":\#(share.id)}"#).status == .notFound)
        // The owner keeps the records.
        #expect(try await zones(world, "private", of: "alice") == ["Notes"])
        let audit = try world.accounts.auditEntries(limit: 3)
        #expect(audit.map(\.action) == ["share.stop", "share.remove", "share.permission"])
        #expect(!"\(audit)".contains("carol"))
    }

    @Test func aPublicLinkIsChangedAndClosed() async throws {
        let (world, _) = try await world(link: true)
        #expect(try await zones(world, "shared", of: "bob") == ["Notes"])
        let share = try #require(try await shares(world).first)
        func open(_ permission: String) async throws -> APIResponse {
            try await change(world, "permission", #"{"id":\#(share.id),"permission":"\#(permission)"}"#)
        }
        #expect(try await open("READ_WRITE").status == .ok)
        #expect(try await shares(world).first?.publicPermission == "READ_WRITE")
        #expect(try await open("NONE").status == .ok)
        #expect(try await zones(world, "shared", of: "bob").isEmpty)
        // Only the owner can invite.
        #expect(try await open("READ_ONLY").status == .badRequest)
        #expect(try await open("ALL").status == .badRequest)
    }

    @Test func changingProductionRequiresItsName() async throws {
        let (world, _) = try await world(link: true)
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .production)
        #expect(try await change(world, "stop", #"{"id":1}"#, query: "environment=none").status.code >= 400)
        let elsewhere = "container=\(home.container.name)&environment=production"
        #expect(try await change(world, "stop", #"{"id":1}"#, query: elsewhere).status == .notFound)
        #expect(try await shares(world).count == 1)
    }

    @Test func deletingAUserRemovesTheirData() async throws {
        let (world, _) = try await world(link: true)
        let plain =
            #"{"operations":[{"operationType":"create","record":{"recordName":"d","recordType":"Note","fields":{}}}]}"#
        try await world.wire("private/records/modify", as: "alice", plain)
        let alice = try #require(
            try world.accounts.accounts().first { if case .dev("alice") = $0.login { true } else { false } }
        )
        let path = "/console/api/users/delete"
        let slip = try await world.ask(.post, path, body: #"{"id":\#(alice.id.number),"name":"alice"}"#)
        #expect(slip.status == .badRequest && slip.text.contains("dev-alice"))
        let done = try await world.ask(.post, path, body: #"{"id":\#(alice.id.number),"name":"dev-alice"}"#)
        #expect(done.status == .ok, "\(done.text)")
        #expect(try world.accounts.account(alice.id) == nil)
        #expect(try await zones(world, "shared", of: "bob").isEmpty)
        let left = try await world.ask(.get, "/console/api/zones").text
        #expect(!left.contains(#""Notes""#))
        // Deleted users no longer count for the growth of public quotas.
        struct Zone: Decodable { var zoneName: String, database: String }
        struct Left: Decodable { var zones: [Zone] }
        let zones = try await world.ask(.get, "/console/api/zones").json(Left.self).zones
        #expect(zones.filter { $0.database != "public" }.map(\.zoneName) == ["_defaultZone"], "only bob's zone is left")
        #expect(try world.accounts.auditEntries(limit: 1).first?.action == "user.delete")
        #expect(try await world.ask(.get, "/console/api/users/one", query: "id=\(alice.id.number)").status == .notFound)
    }

    @Test func aDeletedUserIsRemovedFromTheSharesOfOthers() async throws {
        let (world, _) = try await world(link: true)
        #expect(try await zones(world, "shared", of: "bob") == ["Notes"])
        #expect(try await shares(world).first?.participants.isEmpty == false)
        let bob = try #require(
            try world.accounts.accounts().first { if case .dev("bob") = $0.login { true } else { false } }
        )
        let body = #"{"id":\#(bob.id.number),"name":"dev-bob"}"#
        let done = try await world.ask(.post, "/console/api/users/delete", body: body)
        #expect(done.status == .ok, "\(done.text)")
        #expect(try world.accounts.account(bob.id) == nil)
        #expect(try await shares(world).first?.participants.isEmpty == true)
        #expect(try await zones(world, "private", of: "alice") == ["Notes"])
    }

    /// Nobody can write while the deletion runs.
    @Test func aUserIsSignedOutBeforeTheDeletion() async throws {
        let canWrite = Mutex<[Bool]>([])
        let (world, _) = try await world(link: false) { accounts in
            let isAble = (try? accounts.accounts().contains { $0.login == .dev("alice") && !$0.isDisabled }) ?? false
            canWrite.withLock { $0.append(isAble) }
        }
        let alice = try #require(try world.accounts.accounts().first { $0.login == .dev("alice") })
        #expect(canWrite.withLock { $0.last } == true)
        canWrite.withLock { $0 = [] }
        let body = #"{"id":\#(alice.id.number),"name":"dev-alice"}"#
        #expect(try await world.ask(.post, "/console/api/users/delete", body: body).status == .ok)
        #expect(canWrite.withLock { !$0.isEmpty && !$0.contains(true) })
    }

    @Test func aNewPasswordEndsSignIns() async throws {
        let (world, _) = try await world(link: true)
        let grace = try world.accounts.addAccount(email: "grace@example.org", password: "correct horse")
        let path = "/console/api/users/password"
        func set(_ id: Int64, _ password: String, own: String = "correct horse") async throws -> APIResponse {
            let body = #"{"id":\#(id),"password":"\#(password)","own":"\#(own)"}"#
            return try await world.ask(.post, path, body: body)
        }
        #expect(try await set(grace.id.number, "battery staple", own: "a guess").status == .forbidden)
        #expect(try world.accounts.account(email: "grace@example.org", password: "correct horse")?.id == grace.id)
        #expect(try await set(grace.id.number, "short").status == .badRequest)
        #expect(try await set(grace.id.number, "battery staple").status == .ok)
        #expect(try world.accounts.account(email: "grace@example.org", password: "battery staple")?.id == grace.id)
        let alice = try #require(try world.accounts.accounts().first { $0.id != grace.id })
        #expect(try await set(alice.id.number, "battery staple").status == .badRequest)
        #expect(try !world.accounts.auditEntries(limit: 5).contains { "\($0)".contains("battery") })
    }

    @Test func unusedAssetsAreRemovedOnRequest() async throws {
        let (world, _) = try await world(link: true)
        let answer = try await world.ask(.post, "/console/api/assets/collect")
        #expect(answer.status == .ok && answer.text == #"{"removed":0}"#, "\(answer.text)")
        #expect(try world.accounts.auditEntries(limit: 1).first?.action == "assets.collect")
    }

    @Test func zonesAreCreatedAndResetForUsers() async throws {
        let (world, _) = try await world(link: true)
        let account = try #require(
            try world.accounts.accounts().first { if case .dev("alice") = $0.login { true } else { false } }
        )
        let owner = try #require(try world.accounts.profiles(of: account.id).first?.profile.user.recordName)
        func change(_ verb: String, _ zone: String, of owner: String, _ query: String = "") async throws -> APIResponse
        {
            let body = #"{"zoneName":"\#(zone)","owner":"\#(owner)"}"#
            return try await world.ask(.post, "/console/api/zones/\(verb)", query: query, body: body)
        }
        #expect(try await change("create", "Lists", of: owner).status == .ok)
        #expect(Set(try await zones(world, "private", of: "alice")) == ["Notes", "Lists"])
        #expect(try await change("create", "_bad/name", of: owner).status.code >= 400)
        #expect(try await change("create", "Lists", of: "_00000000000000000000000000000009").status == .notFound)
        // The zone exists, is empty and is not shared.
        #expect(try await change("reset", "Notes", of: owner).status == .ok)
        #expect(try await zones(world, "shared", of: "bob").isEmpty)
        #expect(Set(try await zones(world, "private", of: "alice")) == ["Notes", "Lists"])
        let looked = await world.answer(
            "private/records/lookup",
            as: "alice",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"\#(Self.secret)-name"}]}"#
        )
        #expect(looked.text.contains("NOT_FOUND"))
        #expect(try await change("reset", "_defaultZone", of: owner).status == .badRequest)
        let production = "container=\(world.container)&environment=production"
        #expect(try await change("reset", "Notes", of: owner, production).status == .badRequest)
        let audit = try world.accounts.auditEntries(limit: 2).map(\.action)
        #expect(audit == ["zone.reset", "zone.create"])
    }

    @Test func actingAsAUserIsAuditedWithoutTheToken() async throws {
        let (world, _) = try await world(link: true)
        let path = "/console/api/explorer/act"
        for user in ["dev-alice", "secret-token-text"] {
            let body = #"{"user":"\#(user)","operation":"private records/query"}"#
            #expect(try await world.ask(.post, path, body: body).status == .ok)
        }
        let audit = try world.accounts.auditEntries(limit: 2)
        #expect(audit.map(\.subject) == ["by a token", "dev-alice"])
        #expect(audit.allSatisfy { $0.action == "explorer.act-as-user" })
    }
}
