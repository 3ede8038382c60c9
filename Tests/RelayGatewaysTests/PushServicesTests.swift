import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOSSL
import Records
import RelayCore
import RelayGateways
import Synchronization
import Testing

/// The real client against a real HTTP/2 peer.
@Suite(.timeLimit(.minutes(15))) struct PushServicesTests {
    private static let token = String(repeating: "0a", count: 32)
    private static let silent = Push(payload: Array(#"{"aps":{"content-available":1}}"#.utf8), topic: "abc")

    private static let time = TimeSource(now: { Timestamp(milliseconds: 1_700_000_000_000) }, uptime: { .zero })
    private static let random = RandomSource { (0..<$0).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) } }

    /// Runs `body` with services that know only the peer, and closes everything afterwards.
    private func withPeer(
        time: TimeSource = time,
        _ body: (PushServices, PushServicePeer) async throws -> Void
    ) async throws {
        let peer = try await PushServicePeer.start()
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(PushServicePeer.certificate.utf8)))
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(120), read: .seconds(120))
        configuration.tlsConfiguration = tls
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        var settings = PushSettings()
        var apns = PushSettings.APNs(
            key: P256.Signing.PrivateKey(),
            keyID: "ABC123DEFG",
            teamID: "DEF123GHIJ",
            topics: ["org.example.notes"]
        )
        apns.production = peer.address
        apns.sandbox = peer.address + "/sandbox"
        settings.apns = apns
        settings.webPush = .init(key: P256.Signing.PrivateKey(), contact: "mailto:ada@example.org")
        settings.sendsToNtfy = true
        settings.hosts = ["localhost"]
        do {
            try await body(PushServices(settings, client: client, time: time, random: Self.random), peer)
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        try? await peer.stop()
    }

    @Test func pushesToAppleHaveItsHeaders() async throws {
        try await withPeer { services, peer in
            let target = PushTarget.apns(token: Self.token, topic: "org.example.notes", isSandbox: false)
            #expect(await services.send(Self.silent, to: target) == .taken)
            var loud = Self.silent
            loud.alert = "New"
            let sandbox = PushTarget.apns(token: Self.token, topic: "org.example.notes", isSandbox: true)
            #expect(await services.send(loud, to: sandbox) == .taken)
            let requests = peer.requests
            #expect(requests.map(\.path) == ["/3/device/\(Self.token)", "/sandbox/3/device/\(Self.token)"])
            #expect(requests.map { $0.headers["apns-push-type"] } == ["background", "alert"])
            #expect(requests.map { $0.headers["apns-priority"] } == ["5", "10"])
            #expect(requests[0].headers["apns-topic"] == "org.example.notes")
            #expect(requests[0].headers["apns-collapse-id"] == "abc")
            #expect(requests[0].body == Self.silent.payload)
            // Apple refuses relays that create a new token for each push.
            #expect(requests[0].headers["authorization"] == requests[1].headers["authorization"])
        }
    }

    /// Apple accepts no token from the future.
    @Test func aClockThatIsPutBackCausesANewTokenForApple() async throws {
        let now = Mutex(Timestamp(milliseconds: 1_700_000_000_000))
        try await withPeer(time: TimeSource(now: { now.withLock { $0 } }, uptime: { .zero })) { services, peer in
            let target = PushTarget.apns(token: Self.token, topic: "org.example.notes", isSandbox: false)
            for leap in [Duration.seconds(60), .seconds(-3_600), .seconds(60)] {
                now.withLock { $0 = $0 + leap }
                #expect(await services.send(Self.silent, to: target) == .taken)
            }
            let tokens = peer.requests.map { $0.headers["authorization"] }
            #expect(tokens[0] != tokens[1])
            #expect(tokens[1] == tokens[2])
        }
    }

    @Test func onlyTheBrowserCanDecryptAPush() async throws {
        try await withPeer { services, peer in
            let browser = P256.KeyAgreement.PrivateKey()
            let secret = (0..<16).map { UInt8($0) }
            let point = Array(browser.publicKey.x963Representation)
            let target = PushTarget.webPush(endpoint: peer.address + "/sub/1", key: point, secret: secret)
            #expect(await services.send(Self.silent, to: target) == .taken)
            let request = try #require(peer.requests.first)
            #expect(request.path == "/sub/1")
            #expect(request.headers["content-encoding"] == "aes128gcm")
            #expect(request.headers["ttl"] == "86400" && request.headers["topic"] == "abc")
            #expect(request.headers["authorization"]?.hasPrefix("vapid t=") == true)
            #expect(try Receiver(key: browser, secret: secret).decrypt(request.body) == Self.silent.payload)
            #expect(request.body.count == Self.silent.payload.count + 103)
        }
    }

    @Test func pushesToNtfyHaveItsHeaders() async throws {
        try await withPeer { services, peer in
            let target = PushTarget.ntfy(topicURL: peer.address + "/alice")
            #expect(await services.send(Self.silent, to: target) == .taken)
            #expect(peer.requests.first?.headers["priority"] == "min")
            #expect(peer.requests.first?.body == Self.silent.payload)
        }
    }

    @Test(arguments: [
        (410, #"{"reason":"Unregistered"}"#, "gone"), (400, #"{"reason":"BadDeviceToken"}"#, "gone"),
        (404, "", "gone"), (400, #"{"reason":"PayloadTooLarge"}"#, "refused"), (413, "", "refused"),
        (403, #"{"reason":"ExpiredProviderToken"}"#, "later"), (429, "", "later"), (503, "", "later"),
    ])
    func theResponseDeterminesTheOutcome(_ status: Int, _ body: String, _ expected: String) async throws {
        try await withPeer { services, peer in
            peer.willAnswer(status, body, headers: status == 429 ? [("retry-after", "7")] : [])
            let target = PushTarget.apns(token: Self.token, topic: "org.example.notes", isSandbox: false)
            let outcome = await services.send(Self.silent, to: target)
            switch outcome {
            case .taken: #expect(expected == "taken")
            case .gone: #expect(expected == "gone")
            case .later(let wait, _):
                #expect(expected == "later")
                #expect(wait == (status == 429 ? .seconds(7) : nil))
            case .refused(let reason):
                #expect(expected == "refused")
                #expect(reason.contains("\(status)"))
            }
        }
    }

    @Test func aPushToAnUnreachableServiceIsRetried() async throws {
        try await withPeer { services, peer in
            let address = peer.address
            try await peer.stop()
            let outcome = await services.send(Self.silent, to: .ntfy(topicURL: address + "/alice"))
            guard case .later(nil, let reason) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(reason.contains("could not be reached"))
        }
    }

    @Test(arguments: [
        "http://localhost/a", "https://localhost:1@evil.example/a", "https://127.0.0.1/a",
        "https://evil.example/localhost",
        "https://localhost.evil.example/", "ftp://localhost/", "", "https://", "https://localhost:99999/t",
        "https://localhost:0/t", "https://localhost:99999999999999999999/t",
    ])
    func onlyKnownHostsAreCalled(_ address: String) async throws {
        try await withPeer { services, peer in
            let key = Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
            let target = PushTarget.webPush(endpoint: address, key: key, secret: [UInt8](repeating: 0, count: 16))
            #expect(services.objection(to: target) != nil)
            guard case .refused = await services.send(Self.silent, to: target) else {
                Issue.record("\(address) was called")
                return
            }
        }
    }

    /// Such a port may come from an earlier registration or from the configuration file; HTTPClient would trap.
    @Test(arguments: ["https://127.0.0.1:99999/t", "https://[::1]:65536/t", "https://127.0.0.1:0/t"])
    func anInvalidPortIsRefusedWithoutATrap(_ address: String) async throws {
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(120), read: .seconds(120))
        )
        let sender = AlertSender(.init(webhook: address), client: client)
        let message = AlertSender.Message(
            state: "test",
            rule: "r",
            title: "t",
            text: "x",
            relay: "r",
            at: Date(timeIntervalSince1970: 0)
        )
        let fault = await sender.send(message)
        #expect(fault?.contains("the port of its address is not between 1 and 65535") == true)
        var settings = PushSettings()
        settings.sendsToNtfy = true
        settings.hosts = ["127.0.0.1", "[::1]", "::1"]
        let services = PushServices(settings, client: client, time: Self.time, random: Self.random)
        guard case .refused(let why) = await services.send(Self.silent, to: .ntfy(topicURL: address)) else {
            Issue.record("\(address) was called")
            return try await client.shutdown()
        }
        #expect(why.contains("between 1 and 65535"))
        #expect(!AlertSender.Settings.admits(address) && !TraceExporter.Settings.admits(address))
        try await client.shutdown()
    }

    @Test func anAsteriskMatchesAllSubdomains() {
        var settings = PushSettings()
        settings.hosts = ["*.push.example", "one.example"]
        #expect(settings.admits(host: "a.push.example") && settings.admits(host: "ONE.example"))
        #expect(!settings.admits(host: "push.example") && !settings.admits(host: "evilpush.example"))
        #expect(!settings.admits(host: "a.one.example"))
    }
}

/// Acts as a browser: decrypts by RFC 8291, written from the receiver's side.
private struct Receiver {
    var key: P256.KeyAgreement.PrivateKey
    var secret: [UInt8]

    func decrypt(_ body: [UInt8]) throws -> [UInt8] {
        let salt = Array(body[0..<16])
        let point = Array(body[21..<21 + Int(body[20])])
        let sealed = body[(21 + Int(body[20]))...]
        let sender = try P256.KeyAgreement.PublicKey(x963Representation: point)
        let shared = try key.sharedSecretFromKeyAgreement(with: sender)
        let info = Array("WebPush: info\0".utf8) + Array(key.publicKey.x963Representation) + point
        let material = shared.hkdfDerivedSymmetricKey(
            using: SHA256.self,
            salt: secret,
            sharedInfo: info,
            outputByteCount: 32
        )
        func derive(_ info: String, _ count: Int) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: material,
                salt: salt,
                info: Array(info.utf8),
                outputByteCount: count
            )
        }
        let nonce = try derive("Content-Encoding: nonce\0", 12).withUnsafeBytes { try AES.GCM.Nonce(data: $0) }
        let box = try AES.GCM.SealedBox(nonce: nonce, ciphertext: sealed.dropLast(16), tag: sealed.suffix(16))
        let plain = Array(try AES.GCM.open(box, using: derive("Content-Encoding: aes128gcm\0", 16)))
        #expect(plain.last == 2)
        return Array(plain.dropLast())
    }
}
