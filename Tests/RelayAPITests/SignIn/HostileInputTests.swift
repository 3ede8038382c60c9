import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayGateways
import RelayStore
import Testing

/// Hostile input to the sign-in parsers gets a response and never traps.
@Suite struct HostileInputTests {
    @Test(arguments: 0..<20) func mutatedTokensAndKeySetsAreRefusedOrParsed(seed: UInt64) throws {
        var random = SplitMix(state: seed)
        let foreign = try ForeignWorld()
        let token = Array(try foreign.token().utf8)
        let keys = Array(foreign.jwks([("p", .es256), ("r", .rs256), ("e", .edDSA), ("s", .hs256)]).utf8)
        for _ in 0..<100 {
            _ = try? IdentityToken(String(decoding: mutated(token, &random), as: UTF8.self))
            let bytes = mutated(keys, &random)
            // Damage never adds keys to a set, and a published set never contains a secret.
            #expect((try? IssuerKeySet(published: bytes))?.count ?? 0 <= 3)
            _ = try? IssuerKeySet(file: bytes, isSecret: false)
        }
    }

    @Test(arguments: 0..<10) func mutatedFormsGetAPage(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let world = try SignInWorld()
        let browser = try Browser(world)
        let id = try #require(try world.store.apiTokens().first?.id)
        let query =
            "container=\(world.home.container)&environment=development&token=\(id)&email=a%40b&password=%C3%A4+x&form=00"
        let good = Array(query.utf8)
        for _ in 0..<50 {
            let bytes = mutated(good, &random)
            let posted = await browser.relay.respond(to: APIRequest(method: .post, path: "/signin", body: bytes))
            #expect([400, 403].contains(posted.status.code))
            let text = String(decoding: bytes.map { $0 & 0x7F }, as: UTF8.self)
            let shown = await browser.relay.respond(to: APIRequest(method: .get, path: "/signin", query: text))
            #expect([200, 400].contains(shown.status.code))
            let account = await browser.relay.respond(to: APIRequest(method: .post, path: "/account", body: bytes))
            #expect(account.status == .forbidden)
        }
    }

    private func mutated(_ bytes: [UInt8], _ random: inout SplitMix) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let index = Int.random(in: 0..<max(1, bytes.count), using: &random)
            switch UInt8.random(in: 0..<5, using: &random) {
            case 0: bytes.insert(UInt8.random(in: 0...255, using: &random), at: min(index, bytes.count))
            case 1 where bytes.count > 1: bytes.remove(at: index)
            case 2: bytes.replaceSubrange(min(index, bytes.count)..., with: [])
            case 3: bytes.insert(contentsOf: bytes.suffix(40), at: min(index, bytes.count))
            default: if index < bytes.count { bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
            }
        }
        return bytes
    }
}
