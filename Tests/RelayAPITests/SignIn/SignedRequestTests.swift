import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing

@Suite struct SignedRequestTests {
    let world: SignInWorld
    let key = P256.Signing.PrivateKey()
    let registered: ServerKey
    let failed = RelayError(.authenticationFailed, "Authentication failed")

    init() throws {
        world = try SignInWorld()
        registered = try world.store.addServerKey(
            in: world.home,
            name: "",
            publicKeyPEM: key.publicKey.pemRepresentation
        )
    }

    private let modify = "/database/1/iCloud.org.example.notes/development/public/records/modify"
    private let caller = "/database/1/iCloud.org.example.notes/development/public/users/caller"

    private func date(_ offset: Duration = .zero) -> String {
        Date(timeIntervalSince1970: Double((world.clock.now + offset).milliseconds) / 1000).formatted(.iso8601)
    }

    private func hash(_ body: [UInt8]) -> String { Base64.encode(Array(SHA256.hash(data: body))) }

    /// Returns a request that `key` has signed over the given text.
    private func request(
        _ path: String,
        query: String? = nil,
        body: [UInt8] = [],
        date: String? = nil,
        signing message: String? = nil
    ) throws -> APIRequest {
        let date = date ?? self.date()
        let message = message ?? "\(date):\(hash(body)):\(path)"
        let signature = Base64.encode(Array(try key.signature(for: Data(message.utf8)).derRepresentation))
        return APIRequest(
            method: path == modify ? .post : .get,
            path: path,
            query: query,
            headers: try headers(registered.id, date, signature),
            body: body
        )
    }

    private func headers(_ id: String, _ date: String, _ signature: String) throws -> HTTPFields {
        [
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-KeyID")): id,
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-ISO8601Date")): date,
            try #require(HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1")): signature,
        ]
    }

    @Test func everyDocumentedWayOfSigningIsAccepted() throws {
        let authenticator = try world.authenticator()
        let empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        let now = date()
        let offsetDate = now.replacing("Z", with: "+00:00")
        let ways = [
            try request(modify, body: Array("{}".utf8)),
            try request(caller),
            try request(caller, signing: "\(now):\(empty):\(caller)"),
            try request(caller, signing: "\(now)::\(caller)"),
            try request(caller, query: "a=b"),
            try request(caller, query: "a=b", signing: "\(now):\(empty):\(caller)?a=b"),
            try request(caller, date: offsetDate),
            try request(caller, date: now.filter { !"-:".contains($0) }),
            try request(caller, date: now.dropLast(4) + "Z"),
            try request("/relay" + caller, signing: "\(now):\(empty):\(caller)"),
            try request("/relay" + caller, signing: "\(now):\(empty):/relay\(caller)"),
        ]
        for (index, way) in ways.enumerated() {
            let found = try authenticator.authenticate(way, in: world.home)
            #expect(found.caller.identity == .serverKey(registered.user), "way \(index)")
            #expect(found.freshWebToken == nil)
        }
    }

    /// The proxy has removed a prefix that the client has signed.
    @Test func theSignedPathMayIncludeThePublicPrefix() throws {
        world.settings.publicURL = "https://sync.example.org/relay"
        let authenticator = try world.authenticator()
        let empty = hash([])
        for signed in ["/relay\(caller)", caller] {
            let found = try authenticator.authenticate(
                request(caller, signing: "\(date()):\(empty):\(signed)"),
                in: world.home
            )
            #expect(found.caller.identity == .serverKey(registered.user))
        }
        #expect(throws: failed) {
            try authenticator.authenticate(
                request(caller, signing: "\(date()):\(empty):/other\(caller)"),
                in: world.home
            )
        }
    }

    @Test func aServerKeyHasAUserRecordNameAndNoUserContext() async throws {
        let relay = try world.relay()
        let found = await relay.respond(to: try request(caller))
        #expect(found.status == .ok)
        #expect(String(decoding: found.body, as: UTF8.self).contains(registered.user.recordName))
        for operation in ["current", "discover", "lookup/contacts", "discoverability"] {
            let path = caller.replacing("users/caller", with: "users/\(operation)")
            #expect(await relay.respond(to: try request(path)).status == .forbidden, "\(operation)")
        }
    }

    @Test func allFailuresGetTheSameError() throws {
        let authenticator = try world.authenticator()
        let good = try request(modify, body: Array("{}".utf8))
        var otherBody = good
        otherBody.body = Array("{ }".utf8)
        var otherPath = good
        otherPath.path = caller
        var mixed = good
        mixed.query = "ckAPIToken=\(world.apiToken)"
        var mixedWeb = good
        mixedWeb.query = "ckWebAuthToken=dev-alice"
        var unknown = good
        unknown.headers[try #require(HTTPField.Name("X-Apple-CloudKit-Request-KeyID"))] = String(
            repeating: "0",
            count: 64
        )
        var incomplete = good
        incomplete.headers[try #require(HTTPField.Name("X-Apple-CloudKit-Request-ISO8601Date"))] = nil
        var garbled = good
        garbled.headers[try #require(HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1"))] = "AAAA"
        let cases = [
            otherBody, otherPath, mixed, mixedWeb, unknown, incomplete, garbled,
            try request(caller, date: date().replacing("Z", with: ".000Z")),
            try request(caller, date: date().replacing("Z", with: "")),
            try request(caller, date: date(.seconds(-601))),
            try request(caller, date: date(.seconds(601))),
            // Only an empty body may be signed as absent.
            try request(modify, body: Array("{}".utf8), signing: "\(date())::\(modify)"),
        ]
        for (index, request) in cases.enumerated() {
            #expect(throws: failed, "case \(index)") { try authenticator.authenticate(request, in: world.home) }
        }
        #expect(throws: failed) { try authenticator.authenticate(good, in: world.elsewhere) }
        try world.store.revokeServerKey(registered.id)
        world.clock.advance(.seconds(1))
        #expect(throws: failed) { try authenticator.authenticate(good, in: world.home) }
    }

    @Test func aDateWithinTenMinutesIsAccepted() throws {
        let authenticator = try world.authenticator()
        for offset in [Duration.seconds(-600), .seconds(-59), .seconds(600)] {
            _ = try authenticator.authenticate(try request(caller, date: date(offset)), in: world.home)
        }
    }

    @Test func aReplayedWriteIsRefusedAndAReadIsNot() throws {
        let authenticator = try world.authenticator()
        let write = try request(modify, body: Array("{}".utf8))
        _ = try authenticator.authenticate(write, in: world.home)
        #expect(throws: failed) { try authenticator.authenticate(write, in: world.home) }
        // The same signature with a negated second number is valid as well, and is still a repeat.
        var twin = write
        let name = try #require(HTTPField.Name("X-Apple-CloudKit-Request-SignatureV1"))
        let written = try #require(write.headers[name])
        let der = try #require(Base64.decode(written))
        twin.headers[name] = Base64.encode(
            Array(try negated(P256.Signing.ECDSASignature(derRepresentation: der)).derRepresentation)
        )
        #expect(throws: failed) { try authenticator.authenticate(twin, in: world.home) }
        // The same write with a new signature is a new write.
        _ = try authenticator.authenticate(try request(modify, body: Array("{}".utf8)), in: world.home)
        let read = try request(caller)
        for _ in 0..<2 { _ = try authenticator.authenticate(read, in: world.home) }
    }

    @Test func aReplayedWriteIsRefusedAfterARestart() async throws {
        let stores = TestStore.current.makeHome().stores()
        // Each relay knows only what is on disk.
        func relay() throws -> Relay {
            try world.relay(stores: stores)
        }
        func body(_ text: String) -> [UInt8] {
            let record = #"{"recordName": "a", "recordType": "Note", "fields": {"text": {"value": "\#(text)"}}}"#
            return Array(#"{"operations": [{"operationType": "forceUpdate", "record": \#(record)}]}"#.utf8)
        }
        // Signed requests do not create record types.
        let alice = try world.signIn()
        var first = world.request(apiToken: world.apiToken, webToken: alice.webToken)
        (first.method, first.path) = (.post, modify)
        first.body = Array(String(decoding: body("alice"), as: UTF8.self).replacing("\"a\"", with: "\"b\"").utf8)
        #expect(await (try relay()).respond(to: first).status == .ok)

        let recorded = try request(modify, body: body("one"))
        #expect(await (try relay()).respond(to: recorded).status == .ok)
        let again = await (try relay()).respond(to: recorded)
        #expect(again.status == .unauthorized && again.errorCode == .authenticationFailed)
        // A new signature makes a new write, also one within the same second.
        for _ in 0..<2 {
            #expect(await (try relay()).respond(to: try request(modify, body: body("two"))).status == .ok)
        }
        world.clock.advance(.seconds(599))
        #expect(await (try relay()).respond(to: recorded).errorCode == .authenticationFailed)
        // After their date no longer passes, the file does not need to remember them.
        world.clock.advance(.seconds(2))
        for _ in 0..<3 {
            #expect(await (try relay()).respond(to: try request(modify, body: body("three"))).status == .ok)
        }
        #expect(await (try relay()).respond(to: recorded).errorCode == .authenticationFailed)
    }

    /// Returns (r, n - s) for (r, s), where n is the order of the curve.
    private func negated(_ signature: P256.Signing.ECDSASignature) throws -> P256.Signing.ECDSASignature {
        let order: [UInt8] = [
            0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xBC, 0xE6, 0xFA, 0xAD,
            0xA7,
            0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
        ]
        var raw = Array(signature.rawRepresentation)
        var borrow = 0
        for index in (0..<32).reversed() {
            let difference = Int(order[index]) - Int(raw[32 + index]) - borrow
            borrow = difference < 0 ? 1 : 0
            raw[32 + index] = UInt8(truncatingIfNeeded: difference)
        }
        return try P256.Signing.ECDSASignature(rawRepresentation: raw)
    }
}

/// Detection of repeated signed writes when the clock jumps.
@Suite struct SeenSignaturesTests {
    private static let right = Timestamp(milliseconds: 1_800_000_000_000)
    private static let ahead = right + .seconds(365 * 86_400)

    /// Returns how many of `count` new writes are accepted, one each millisecond from `start`.
    private func accepted(_ count: Int, from start: Timestamp, marked: UInt128, _ seen: inout SeenSignatures) -> Int {
        (0..<count).count { number in
            let now = Timestamp(milliseconds: start.milliseconds + Int64(number))
            return seen.isNew(marked + UInt128(number), signed: now, by: "key", at: now, window: .seconds(600))
        }
    }

    @Test(arguments: [10_000, SeenSignatures.perKey + 1])
    func aCorrectedClockLocksNoKeyOut(_ before: Int) {
        var seen = SeenSignatures()
        #expect(accepted(before, from: Self.ahead, marked: 0, &seen) == before)
        let after = SeenSignatures.perKey
        #expect(accepted(after, from: Self.right, marked: 1 << 64, &seen) == after)
    }
}
