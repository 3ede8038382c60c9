import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Quotas as a client sees them.
@Suite struct QuotaTests {
    private static func limits(_ change: (inout QuotaSettings) -> Void) -> Limits {
        var limits = Limits()
        limits.quota = .unlimited
        change(&limits.quota)
        return limits
    }

    /// A record named `n…` counts 100 bytes, its name, and about 40 bytes besides the letters of its title.
    private func note(_ name: String, _ letters: Int, kind: String = "forceReplace") -> RelayWorld.Operation {
        RelayWorld.Operation(
            kind: kind,
            name: name,
            fields: #"{"title":{"value":"\#(String(repeating: "x", count: letters))"}}"#
        )
    }

    private func codes(_ answer: Answer) throws -> [String] {
        try answer.items("records").map { $0.text("serverErrorCode") ?? "ok" }
    }

    @Test func theQuotaOfAPrivateDatabaseIsCheckedRecordByRecord() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 2_000 })
        try await world.makeZone("Notes")
        let answer = try await world.modify([note("a", 500), note("b", 1_000), note("c", 500), note("d", 50)])
        #expect(answer.status == 200)
        #expect(try codes(answer) == ["ok", "ok", "QUOTA_EXCEEDED", "ok"])
        let refused = try #require(try answer.items("records").dropFirst(2).first)
        #expect(refused.text("recordName") == "c")
        #expect(refused.text("reason")?.contains("2 kB") == true)
        #expect(!refused.hasMember("retryAfter"))
        // Another user has their own quota.
        try await world.makeZone("Notes", as: "bob")
        #expect(try codes(await world.modify(as: "bob", [note("a", 1_500)])) == ["ok"])
        // The public database has its own quota, too; none is set here.
        let shared = try await world.modify(in: "public", zone: "_defaultZone", [note("p", 5_000)])
        #expect(try codes(shared) == ["ok"])
    }

    @Test func aUsersQuotaOverridesTheContainersAndThatTheDefault() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 2_000 })
        try await world.makeZone("Notes")
        let home = ContainerEnvironment(try #require(ContainerID(world.container)), .development)
        world.relay.setOwnQuotas(
            QuotaOverrides(containers: [home: ContainerQuota(privateBytes: 1_000, publicRecords: 1_000)])
        )
        #expect(try codes(await world.modify([note("a", 1_200), note("b", 500)])) == ["QUOTA_EXCEEDED", "ok"])
        let shared = try await world.modify(in: "public", zone: "_defaultZone", [note("p", 1_000), note("q", 500)])
        #expect(try codes(shared) == ["QUOTA_EXCEEDED", "ok"])
        let profile = try #require(
            try world.directory.accounts().first.flatMap { try world.directory.profiles(of: $0.id).first }
        )
        world.relay.setOwnQuotas(
            QuotaOverrides(
                users: [home: [profile.1.user: .max]],
                containers: [home: ContainerQuota(privateBytes: 1_000)]
            )
        )
        #expect(try codes(await world.modify([note("a", 5_000)])) == ["ok"])
        // A quota of another environment changes nothing here.
        world.relay.setOwnQuotas(
            QuotaOverrides(containers: [
                ContainerEnvironment(home.container, .production): ContainerQuota(privateBytes: 1)
            ])
        )
        #expect(try codes(await world.modify([note("c", 2_500)])) == ["QUOTA_EXCEEDED"])
    }

    @Test func deletingAndShrinkingAreAlwaysAllowed() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 2_000 })
        try await world.makeZone("Notes")
        #expect(try codes(await world.modify([note("a", 1_000), note("b", 400)])) == ["ok", "ok"])
        #expect(try codes(await world.modify([note("a", 2_000)])) == ["QUOTA_EXCEEDED"])
        #expect(try codes(await world.modify([note("a", 999)])) == ["ok"])
        // The rest of the request may use the space that its deletions free.
        let swap = [
            RelayWorld.Operation(kind: "forceDelete", name: "a", type: nil), note("c", 1_000),
        ]
        #expect(try codes(await world.modify(swap)) == ["ok", "ok"])
        // An operation before the deletion cannot use the space.
        let early = [note("d", 1_000), RelayWorld.Operation(kind: "forceDelete", name: "c", type: nil)]
        #expect(try codes(await world.modify(early)) == ["QUOTA_EXCEEDED", "ok"])
    }

    @Test func deletingAZoneFreesItsSpace() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 2_000 })
        try await world.makeZone("Notes")
        try await world.makeZone("Other")
        #expect(try codes(await world.modify([note("a", 1_500)])) == ["ok"])
        #expect(try codes(await world.modify(zone: "Other", [note("a", 1_500)])) == ["QUOTA_EXCEEDED"])
        let gone = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        )
        #expect(gone.status == 200)
        #expect(try codes(await world.modify(zone: "Other", [note("a", 1_500)])) == ["ok"])
    }

    @Test func anAtomicRequestOverTheQuotaSavesNothing() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 2_000 })
        try await world.makeZone("Notes")
        let answer = try await world.modify(atomic: true, [note("a", 1_000), note("b", 1_000)])
        #expect(answer.status == 400)
        #expect(try codes(answer) == ["ATOMIC_ERROR", "QUOTA_EXCEEDED"])
        #expect(try codes(await world.modify(atomic: true, [note("a", 1_500)])) == ["ok"])
    }

    @Test func thePublicQuotaGrowsWithTheNumberOfUsers() async throws {
        let world = try RelayWorld(
            limits: Self.limits { $0.publicRecords = .init(base: 500, perUser: 1_000) }
        )
        func save(_ name: String, as user: String) async throws -> [String] {
            try codes(await world.modify(in: "public", zone: "_defaultZone", as: user, [note(name, 700)]))
        }
        // The users' own records count as well, 135 bytes each.
        #expect(try await save("a", as: "alice") == ["ok"])
        #expect(try await save("b", as: "alice") == ["QUOTA_EXCEEDED"])
        #expect(try await save("b", as: "bob") == ["ok"])
        #expect(try await save("c", as: "alice") == ["QUOTA_EXCEEDED"])
        let reason = try await world.modify(in: "public", zone: "_defaultZone", [note("c", 700)]).items("records")
            .first?
            .text("reason")
        #expect(reason?.contains("quota.public-records") == true)
    }

    // MARK: Assets

    private func uploadAddress(_ world: RelayWorld, in database: String = "private") async throws -> Answer {
        try await world.ask(
            "\(database)/assets/upload",
            #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"}]}"#
        )
    }

    private func send(_ world: RelayWorld, _ count: Int, _ filler: UInt8 = 0, to tokens: Answer) async throws -> Answer
    {
        let address = try #require(try tokens.items("tokens").first?.text("url"))
        let response = await world.relay.respond(
            to: APIRequest(
                method: .post,
                path: try #require(URLComponents(string: address)).path,
                body: Array(repeating: filler, count: count)
            )
        )
        return Answer(
            status: response.status.code,
            json: try JSONDocument(parsing: response.body).root,
            response: response
        )
    }

    private func save(
        _ world: RelayWorld,
        _ upload: Answer,
        named name: String = "p",
        in database: String = "private"
    ) async throws -> [String] {
        let asset = String(decoding: try upload.json.required("singleFile").rawBytes, as: UTF8.self)
        let operation = RelayWorld.Operation(
            kind: "forceUpdate",
            name: name,
            type: "Photo",
            fields: #"{"file":{"value":\#(asset)}}"#
        )
        return try codes(await world.modify(in: database, zone: "_defaultZone", [operation]))
    }

    @Test func anAssetIsRefusedIfItsRecordWouldExceedTheQuota() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 })
        let tokens = try await uploadAddress(world)
        let tooLarge = try await send(world, 10_001, to: tokens)
        #expect(tooLarge.status == 413 && tooLarge.code == "QUOTA_EXCEEDED")
        #expect(try await save(world, send(world, 9_000, to: tokens)) == ["ok"])
        // Later uploads to the same address count too; the save decides.
        let late = try await send(world, 5_000, 1, to: tokens)
        #expect(late.status == 200)
        #expect(try await save(world, late, named: "q") == ["QUOTA_EXCEEDED"])
        // It fits in place of the larger asset.
        #expect(try await save(world, late) == ["ok"])
        #expect(try await save(world, send(world, 4_500, 2, to: uploadAddress(world)), named: "q") == ["ok"])
        let answer = try await world.modify(zone: "_defaultZone", [note("n", 200)])
        #expect(try codes(answer) == ["QUOTA_EXCEEDED"])
    }

    @Test func noUploadAddressIsIssuedWithoutSpace() async throws {
        let world = try RelayWorld(
            limits: Self.limits { $0.publicAssets = .init(base: 1_000, perUser: 0) }
        )
        let upload = try await send(world, 1_000, to: uploadAddress(world, in: "public"))
        #expect(try await save(world, upload, in: "public") == ["ok"])
        let refused = try await uploadAddress(world, in: "public")
        #expect(refused.status == 413 && refused.code == "QUOTA_EXCEEDED")
        #expect(refused.json.text("reason")?.contains("quota.public-assets") == true)
        // A private database is not affected.
        #expect(try await uploadAddress(world).status == 200)
        let gone = RelayWorld.Operation(kind: "forceDelete", name: "p", type: nil)
        #expect(try codes(await world.modify(in: "public", zone: "_defaultZone", [gone])) == ["ok"])
        #expect(try await uploadAddress(world, in: "public").status == 200)
    }

    @Test func unsavedUploadsCountUntilTheirReceiptsExpire() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 })
        let tokens = try await uploadAddress(world)
        #expect(try await send(world, 4_000, 1, to: tokens).status == 200)
        #expect(try await send(world, 4_000, 2, to: tokens).status == 200)
        let third = try await send(world, 4_000, 3, to: tokens)
        #expect(third.status == 413 && third.code == "QUOTA_EXCEEDED")
        // Other databases have their own quota.
        #expect(try await uploadAddress(world, in: "public").status == 200)
    }

    @Test func concurrentUploadsDoNotExceedTheQuota() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 })
        let tokens = try await uploadAddress(world)
        for round in UInt8(0)..<8 {
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in UInt8(0)..<8 {
                    group.addTask { try await send(world, 6_000, round * 8 + number, to: tokens).status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            // The first upload counts until its receipt expires.
            #expect(statuses.count { $0 == 200 } == (round == 0 ? 1 : 0))
        }
    }

    @Test func uploadsMadeWhileTheClockWasAheadExpireLikeOthers() async throws {
        let clock = HandClock()
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 }, time: clock.source)
        clock.leap(.seconds(365 * 86_400))
        #expect(try await send(world, 8_000, 1, to: try await uploadAddress(world)).status == 200)
        clock.leap(.seconds(-365 * 86_400))
        let refused = try await send(world, 8_000, 2, to: try await uploadAddress(world))
        #expect(refused.code == "QUOTA_EXCEEDED")
        clock.advance(.seconds(2 * 3_600))
        #expect(try await send(world, 8_000, 2, to: try await uploadAddress(world)).status == 200)
    }

    @Test func oneAssetInManyRecordsCountsOnce() async throws {
        let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 })
        let upload = try await send(world, 8_000, to: uploadAddress(world))
        for name in ["a", "b", "c"] { #expect(try await save(world, upload, named: name) == ["ok"]) }
        // The space is freed with the last of the records.
        for name in ["a", "b"] {
            let gone = RelayWorld.Operation(kind: "forceDelete", name: name, type: nil)
            #expect(try codes(await world.modify(zone: "_defaultZone", [gone])) == ["ok"])
            #expect(try codes(await world.modify(zone: "_defaultZone", [note("n", 3_000)])) == ["QUOTA_EXCEEDED"])
        }
        let gone = RelayWorld.Operation(kind: "forceDelete", name: "c", type: nil)
        #expect(try codes(await world.modify(zone: "_defaultZone", [gone, note("n", 3_000)])) == ["ok", "ok"])
    }

    /// An asset that one operation releases may be kept by another one of the same request.
    @Test func anAssetMovedBetweenRecordsInARequestFreesNoSpace() async throws {
        for turns in [false, true] {
            let world = try RelayWorld(limits: Self.limits { $0.privateBytes = 10_000 })
            let tokens = try await uploadAddress(world)
            let first = try await send(world, 6_000, 1, to: tokens)
            #expect(try await save(world, first, named: "a") == ["ok"])
            let second = try await send(world, 6_000, 2, to: tokens)
            func photo(_ name: String, _ upload: Answer) throws -> RelayWorld.Operation {
                let asset = String(decoding: try upload.json.required("singleFile").rawBytes, as: UTF8.self)
                return .init(kind: "create", name: name, type: "Photo", fields: #"{"file":{"value":\#(asset)}}"#)
            }
            let gone = RelayWorld.Operation(kind: "forceDelete", name: "a", type: nil)
            let saves = [try photo("b", first), try photo("c", second)]
            let answer = try await world.modify(zone: "_defaultZone", [gone] + (turns ? saves.reversed() : saves))
            #expect(try codes(answer) == ["ok", "ok", "QUOTA_EXCEEDED"])
        }
    }
}
