import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing
import Wire

/// Asset addresses end with the sign-in, or the server key, for which they were issued.
///
/// See Reliability.md, "Invariants", j.
@Suite struct AssetSignOutTests {
    private func ask(_ relay: Relay, _ world: SignInWorld, _ operation: String, _ body: String, _ token: String)
        async throws
        -> JSONValue
    {
        try JSONDocument(parsing: await relay.respond(to: world.post(operation, body, webToken: token)).body).root
    }

    private func path(_ address: String) throws -> String { try #require(URLComponents(string: address)).path }

    private static let asked = #"{"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#

    private func relay(of world: SignInWorld) throws -> Relay {
        try world.relay(stores: TestStore.current.makeHome().stores())
    }

    /// Saves the record "p" with an asset and returns the address that the asset was uploaded to.
    private func savePhoto(_ relay: Relay, _ world: SignInWorld, in database: String, _ token: String) async throws
        -> String
    {
        let tokens = try await ask(relay, world, "\(database)/assets/upload", Self.asked, token)
        let upload = try path(try #require(tokens.required("tokens").elements().first?.text("url")))
        let sent = await relay.respond(to: APIRequest(method: .post, path: upload, body: [1, 2, 3]))
        let asset = try JSONDocument(parsing: sent.body).root.required("singleFile").rawBytes
        let fields = #"{"file":{"value":\#(String(decoding: asset, as: UTF8.self))}}"#
        let record = #"{"recordName":"p","recordType":"Photo","fields":\#(fields)}"#
        let save = #"{"operations":[{"operationType":"create","record":\#(record)}]}"#
        _ = try await ask(relay, world, "\(database)/records/modify", save, token)
        return upload
    }

    @Test func anAssetAddressEndsWithItsSignIn() async throws {
        let world = try SignInWorld()
        let relay = try relay(of: world)
        let phone = try world.signIn().webToken
        let laptop = try world.signIn().webToken
        let upload = try await savePhoto(relay, world, in: "private", phone)

        func address(_ token: String) async throws -> String {
            let lookup = #"{"records":[{"recordName":"p"}]}"#
            let answer = try await ask(relay, world, "private/records/lookup", lookup, token)
            let record = try #require(try answer.required("records").elements().first)
            return try path(try #require(try record.field("file")?.text("downloadURL")))
        }
        let (first, second) = (try await address(phone), try await address(laptop))
        func status(_ path: String) async -> Int {
            await relay.respond(to: APIRequest(method: .get, path: path)).status.code
        }
        #expect(await status(first) == 200)
        #expect(await status(second) == 200)
        _ = try await ask(relay, world, "public/users/signout", "{}", phone)
        #expect(await status(first) == 404)
        #expect(await relay.respond(to: APIRequest(method: .post, path: upload, body: [4])).status == .notFound)
        #expect(await status(second) == 200)
        try world.store.setDisabled(true, of: world.alice.id)
        #expect(await status(second) == 404)
    }

    /// Returns a request to the public database, signed by a server key as Apple's page describes.
    private func signed(
        _ operation: String,
        _ body: String,
        by key: P256.Signing.PrivateKey,
        _ id: String,
        in world: SignInWorld
    ) throws -> APIRequest {
        let date = Date(timeIntervalSince1970: Double(world.clock.now.milliseconds) / 1000).formatted(.iso8601)
        let path = "/database/1/\(world.home.container)/development/public/\(operation)"
        let hash = Base64.encode(Array(SHA256.hash(data: Array(body.utf8))))
        let signature = try key.signature(for: Data("\(date):\(hash):\(path)".utf8)).derRepresentation
        let headers: HTTPFields = [
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-KeyID")): id,
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-ISO8601Date")): date,
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1")): Base64.encode(Array(signature)),
        ]
        return APIRequest(method: .post, path: path, headers: headers, body: Array(body.utf8))
    }

    @Test func anAssetAddressEndsWithItsServerKey() async throws {
        let world = try SignInWorld()
        let relay = try relay(of: world)
        let key = P256.Signing.PrivateKey()
        let id = try world.store.addServerKey(
            in: world.home,
            name: "",
            publicKeyPEM: key.publicKey.pemRepresentation
        ).id
        let token = try world.signIn().webToken
        let own = try await savePhoto(relay, world, in: "public", token)

        let lookup = #"{"records":[{"recordName":"p"}]}"#
        let read = await relay.respond(to: try signed("records/lookup", lookup, by: key, id, in: world))
        let found = try #require(try JSONDocument(parsing: read.body).root.required("records").elements().first)
        let download = try path(try #require(try found.field("file")?.text("downloadURL")))
        let given = await relay.respond(to: try signed("assets/upload", Self.asked, by: key, id, in: world))
        let places = try JSONDocument(parsing: given.body).root.required("tokens").elements()
        let upload = try path(try #require(places.first?.text("url")))
        #expect(await relay.respond(to: APIRequest(method: .get, path: download)).status == .ok)
        #expect(await relay.respond(to: APIRequest(method: .post, path: upload, body: [4])).status == .ok)
        try world.store.revokeServerKey(id)
        #expect(await relay.respond(to: APIRequest(method: .get, path: download)).status == .notFound)
        #expect(await relay.respond(to: APIRequest(method: .post, path: upload, body: [5])).status == .notFound)
        // Addresses issued to other callers stay valid.
        #expect(await relay.respond(to: APIRequest(method: .post, path: own, body: [6])).status == .ok)
    }
}
