import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing
import Wire

/// The monthly transfer limit of a public database, and the rate limit of its uploads.
@Suite struct TransferTests {
    let world: SignInWorld
    let stores = TestStore.current.makeHome().stores()

    init() throws { world = try SignInWorld() }

    private func relay(transfer: Int64? = nil, privateBytes: Int64? = nil) throws -> Relay {
        var limits = Limits()
        limits.quota = .unlimited
        limits.quota.privateBytes = privateBytes
        limits.quota.publicTransfer = transfer.map { .init(base: $0, perUser: 0) }
        return try world.relay(stores: stores, limits: limits)
    }

    private func ask(_ relay: Relay, _ operation: String, _ body: String, webToken: String? = nil) async -> APIResponse
    {
        await relay.respond(to: world.post(operation, body, webToken: webToken))
    }

    private let lookup = #"{"records":[{"recordName":"a"}]}"#

    @Test func readsAreRefusedAfterTheMonthlyTransferLimit() async throws {
        let relay = try relay(transfer: 150)
        let token = try world.signIn().webToken
        #expect(await ask(relay, "public/records/lookup", lookup).status == .ok)
        #expect(await ask(relay, "public/records/lookup", lookup).status == .ok)
        let refused = await ask(relay, "public/records/lookup", lookup)
        #expect(refused.status == .tooManyRequests)
        let body = try JSONDocument(parsing: refused.body).root
        #expect(body.text("serverErrorCode") == "THROTTLED")
        #expect(body.text("reason")?.contains("quota.public-transfer") == true)
        #expect(try body["retryAfter"]?.int64() == 3600)
        #expect(refused.headers[.retryAfter] == "3600")
        let query = #"{"query":{"recordType":"Note"}}"#
        #expect(await ask(relay, "public/records/query", query).status == .tooManyRequests)
        // Writes and private databases are not affected.
        let write = #"{"operations":[{"operationType":"create","record":{"recordType":"Note","fields":{}}}]}"#
        #expect(await ask(relay, "public/records/modify", write, webToken: token).status == .ok)
        #expect(await ask(relay, "private/records/lookup", lookup, webToken: token).status == .ok)
        #expect(await ask(relay, "public/users/caller", "{}", webToken: token).status == .ok)
        // The limit starts anew each month.
        world.clock.advance(.seconds(32 * 24 * 3600))
        #expect(await ask(relay, "public/records/lookup", lookup).status == .ok)
    }

    @Test func aCorrectedClockRefusesNoReads() async throws {
        let relay = try relay(transfer: 150)
        world.clock.leap(.seconds(365 * 86_400))
        for _ in 0..<2 { #expect(await ask(relay, "public/records/lookup", lookup).status == .ok) }
        #expect(await ask(relay, "public/records/lookup", lookup).status == .tooManyRequests)
        world.clock.leap(.seconds(-365 * 86_400))
        #expect(await ask(relay, "public/records/lookup", lookup).status == .ok)
    }

    @Test func aContainersOwnLimitAppliesToTheNextRequest() async throws {
        let relay = try relay()
        for _ in 0..<3 { #expect(await ask(relay, "public/records/lookup", lookup).status == .ok) }
        relay.setOwnQuotas(QuotaOverrides(containers: [world.home: ContainerQuota(publicTransfer: 150)]))
        for _ in 0..<2 { #expect(await ask(relay, "public/records/lookup", lookup).status == .ok) }
        #expect(await ask(relay, "public/records/lookup", lookup).status == .tooManyRequests)
        relay.setOwnQuotas(QuotaOverrides(containers: [world.home: ContainerQuota(publicTransfer: .max)]))
        #expect(await ask(relay, "public/records/lookup", lookup).status == .ok)
        let strict = try self.relay(transfer: 0)
        #expect(await ask(strict, "public/records/lookup", lookup).status == .tooManyRequests)
        strict.setOwnQuotas(QuotaOverrides(containers: [world.home: ContainerQuota(publicTransfer: .max)]))
        #expect(await ask(strict, "public/records/lookup", lookup).status == .ok)
        strict.setOwnQuotas(QuotaOverrides())
        #expect(await ask(strict, "public/records/lookup", lookup).status == .tooManyRequests)
    }

    @Test func theTransferCountIsStoredAndContinuedAfterARestart() async throws {
        let first = try relay(transfer: 150)
        for _ in 0..<2 { #expect(await ask(first, "public/records/lookup", lookup).status == .ok) }
        await first.flushTransferCounts()
        #expect(await ask(first, "public/records/lookup", lookup).status == .tooManyRequests)
        #expect(await ask(try relay(transfer: 150), "public/records/lookup", lookup).status == .tooManyRequests)
        // Storing the count twice counts it once.
        await first.flushTransferCounts()
        let month = CalendarMonth(of: world.clock.source.now())
        let sent = try stores.store(of: world.home).read { reader throws(RelayError) in try reader.transfer(in: month) }
        #expect((150..<500).contains(sent))
        #expect(await ask(try relay(), "public/records/lookup", lookup).status == .ok)
    }

    private func upload(
        _ relay: Relay,
        to database: String,
        webToken: String,
        _ content: [UInt8] = [1, 2, 3]
    ) async throws -> APIResponse {
        let tokens = await ask(
            relay,
            "\(database)/assets/upload",
            #"{"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#,
            webToken: webToken
        )
        let list = try JSONDocument(parsing: tokens.body).root.required("tokens").elements()
        let address = try #require(list.first?.text("url"))
        let path = try #require(URLComponents(string: address)).path
        return await relay.respond(to: APIRequest(method: .post, path: path, body: content))
    }

    @Test func downloadsOfPublicAssetsCountAsTransfer() async throws {
        let relay = try relay(transfer: 1_000_000)
        let token = try world.signIn().webToken
        let uploaded = try await upload(relay, to: "public", webToken: token)
        let file = String(
            decoding: try JSONDocument(parsing: uploaded.body).root.required("singleFile").rawBytes,
            as: UTF8.self
        )
        let operation =
            #"{"operationType":"create","record":{"recordName":"p","recordType":"Photo","fields":{"file":{"value":\#(file)}}}}"#
        let saved = await ask(relay, "public/records/modify", #"{"operations":[\#(operation)]}"#, webToken: token)
        let record = try #require(try JSONDocument(parsing: saved.body).root.required("records").elements().first)
        let address = try #require(try record.field("file")?.text("downloadURL"))
        let path = try #require(URLComponents(string: address)).path
        #expect(await relay.respond(to: APIRequest(method: .get, path: path)).status == .ok)
        await relay.flushTransferCounts()
        let month = CalendarMonth(of: world.clock.source.now())
        let sent = try stores.store(of: world.home).read { reader throws(RelayError) in try reader.transfer(in: month) }
        #expect(sent == 3)
        let full = try self.relay(transfer: 3)
        let refused = await full.respond(to: APIRequest(method: .get, path: path))
        #expect(refused.status == .tooManyRequests)
    }

    @Test func uploadsCountAgainstThePublicRate() async throws {
        world.settings.publicRate = RateLimit(perSecond: 1, burst: 4)
        world.settings.publicRatePerUser = nil
        let relay = try relay()
        let token = try world.signIn().webToken
        // Each upload counts twice: for the address and for the upload itself.
        for _ in 0..<2 { #expect(try await upload(relay, to: "public", webToken: token).status == .ok) }
        #expect(await ask(relay, "public/assets/upload", #"{"tokens":[]}"#, webToken: token).status == .tooManyRequests)
        world.clock.advance(.seconds(1))
        let refused = try await upload(relay, to: "public", webToken: token)
        #expect(refused.status == .tooManyRequests)
        #expect(refused.headers[.retryAfter] == "1")
        #expect(String(decoding: refused.body, as: UTF8.self).contains("THROTTLED"))
        // A private database has no such rate.
        #expect(try await upload(relay, to: "private", webToken: token).status == .ok)
    }

    @Test func anUnsavedUploadCountsUntilItsReceiptExpires() async throws {
        let relay = try relay(privateBytes: 1_000)
        func upload(_ filler: UInt8) async throws -> Int {
            // Each upload signs in, because the clock advances.
            let token = try world.signIn().webToken
            let content = Array(repeating: filler, count: 400)
            return try await self.upload(relay, to: "private", webToken: token, content).status.code
        }
        #expect(try await upload(1) == 200)
        world.clock.advance(.seconds(600))
        #expect(try await upload(2) == 200)
        #expect(try await upload(3) == 413)
        world.clock.advance(.seconds(3001))
        #expect(try await upload(3) == 200)
        #expect(try await upload(4) == 413)
    }

    @Test func uploadsCountAgainstAUsersRate() async throws {
        world.settings.requestRate = RateLimit(perSecond: 1, burst: 3)
        let relay = try relay()
        let token = try world.signIn().webToken
        #expect(try await upload(relay, to: "private", webToken: token).status == .ok)
        #expect(try await upload(relay, to: "private", webToken: token).status == .tooManyRequests)
    }
}
