import AsyncHTTPClient
import CryptoExtras
import Foundation
import NIOCore
import NIOSSL
import Records
import RelayCore
import RelayGateways
import Testing

/// Firebase Cloud Messaging and its sign-in, against a peer that checks what it receives.
@Suite(.timeLimit(.minutes(15))) struct GooglePushTests {
    private static let push = Push(payload: Array(#"{"ck":{"met":{"dbs":2}}}"#.utf8), topic: "abc")
    private static let token = #"{"access_token":"granted","expires_in":3600,"token_type":"Bearer"}"#

    private func withPeer(_ body: (PushServices, PushServicePeer) async throws -> Void) async throws {
        let peer = try await PushServicePeer.start()
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(PushServicePeer.certificate.utf8)))
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(120), read: .seconds(120))
        configuration.tlsConfiguration = tls
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        struct File: Encodable {
            var type = "service_account"
            var project_id = "notes-1"
            var client_email = "relay@notes-1.example"
            var private_key: String
            var private_key_id = "k1"
            var token_uri: String
        }
        let file = File(private_key: Self.key, token_uri: peer.address + "/token")
        let account = try #require(GoogleAccount(json: Array(try JSONEncoder().encode(file))))
        var settings = PushSettings()
        var fcm = PushSettings.FCM(account: account)
        fcm.service = peer.address
        settings.fcm = fcm
        let time = TimeSource(now: { Timestamp(milliseconds: 1_700_000_000_000) }, uptime: { .zero })
        let services = PushServices(
            settings,
            client: client,
            time: time,
            random: .init { [UInt8](repeating: 1, count: $0) }
        )
        do {
            try await body(services, peer)
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        try? await peer.stop()
    }

    private struct Message: Decodable {
        struct Notification: Decodable { var body: String }
        struct Android: Decodable { var priority: String, collapse_key: String }
        struct Content: Decodable {
            var token: String, data: [String: String], notification: Notification?, android: Android
        }
        var message: Content
    }

    @Test func manyPushesUseOneSignIn() async throws {
        try await withPeer { services, peer in
            peer.willAnswer(200, Self.token)
            #expect(await services.send(Self.push, to: .fcm(token: "device:1")) == .taken)
            var loud = Self.push
            loud.alert = "New note"
            #expect(await services.send(loud, to: .fcm(token: "device:1")) == .taken)
            let requests = peer.requests
            #expect(
                requests.map(\.path) == ["/token"] + Array(repeating: "/v1/projects/notes-1/messages:send", count: 2)
            )
            #expect(requests[1].headers["authorization"] == "Bearer granted")
            let sent = try requests.dropFirst().map {
                try JSONDecoder().decode(Message.self, from: Data($0.body)).message
            }
            #expect(sent.map(\.token) == ["device:1", "device:1"])
            #expect(sent[0].data["ck"].map { Array($0.utf8) } == Self.push.payload)
            #expect(sent.map(\.android.priority) == ["normal", "high"] && sent[0].android.collapse_key == "abc")
            #expect(sent.map { $0.notification?.body } == [nil, "New note"])
            try Self.check(assertion: requests[0].body)
        }
    }

    /// Checks an assertion as Google does: signature, audience and expiry.
    private static func check(assertion body: [UInt8]) throws {
        struct Claims: Decodable { var iss: String, scope: String, aud: String, iat: Int64, exp: Int64 }
        let text = String(decoding: body, as: UTF8.self)
        #expect(text.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="))
        let parts = try #require(text.split(separator: "=").last).split(separator: ".")
        try #require(parts.count == 3)
        let signature = try #require(Base64URL.decode(parts[2].utf8.map { $0 }))
        let key = try _RSA.Signing.PrivateKey(pemRepresentation: Self.key).publicKey
        let isGood = key.isValidSignature(
            .init(rawRepresentation: Data(signature)),
            for: Data("\(parts[0]).\(parts[1])".utf8),
            padding: .insecurePKCS1v1_5
        )
        #expect(isGood)
        let claims = try JSONDecoder().decode(
            Claims.self,
            from: Data(try #require(Base64URL.decode(parts[1].utf8.map { $0 })))
        )
        #expect(claims.iss == "relay@notes-1.example" && claims.aud.hasSuffix("/token"))
        #expect(claims.scope == "https://www.googleapis.com/auth/firebase.messaging")
        #expect(claims.iat == 1_700_000_000 && claims.exp == 1_700_003_600)
    }

    @Test(arguments: [
        (404, #"{"error":{"details":[{"errorCode":"UNREGISTERED"}]}}"#, "gone"),
        (400, #"{"error":{"message":"The registration token is not a valid FCM registration token"}}"#, "gone"),
        (400, #"{"error":{"message":"Message too big"}}"#, "refused"), (403, "", "refused"), (401, "", "later"),
        (429, "", "later"), (503, "", "later"),
    ])
    func theResponseDeterminesTheOutcome(_ status: Int, _ body: String, _ expected: String) async throws {
        try await withPeer { services, peer in
            peer.willAnswer(200, Self.token)
            peer.willAnswer(status, body, headers: status == 429 ? [("retry-after", "7")] : [])
            switch await services.send(Self.push, to: .fcm(token: "device:1")) {
            case .taken: #expect(expected == "taken")
            case .gone: #expect(expected == "gone")
            case .later(let wait, _):
                #expect(expected == "later")
                #expect(wait == (status == 429 ? .seconds(7) : nil))
            case .refused(let reason): #expect(expected == "refused" && reason.contains("\(status)"))
            }
        }
    }

    @Test func aRefusedSignInIsReported() async throws {
        try await withPeer { services, peer in
            peer.willAnswer(400, #"{"error":"invalid_grant"}"#)
            guard case .refused(let reason) = await services.send(Self.push, to: .fcm(token: "device:1")) else {
                Issue.record("the push was not refused")
                return
            }
            #expect(reason.contains("invalid_grant"))
        }
    }

    @Test func otherFilesAreNotAccountFiles() {
        #expect(GoogleAccount(json: Array("{}".utf8)) == nil)
        #expect(GoogleAccount(json: Array(#"{"project_id":"a","client_email":"b","private_key":"c"}"#.utf8)) == nil)
    }

    /// Used by these tests only.
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC0fy3tnW6HEgba
        Yx2Avk8GG2XTscIzrLp2hy2S0THTbQ5NZxATyKfZnUeawQ05kr1U30rvGIKmsrXm
        xMmoe/9Yzoffu4v4lx+sJAw/8dIVX2cS04bd0+CCHx7BJCPYfIA/fazZQ9UiMH8u
        MlDsiLxXgXqZfxSJPclDIh5dll14YtGThICeo1gPj0MxY5SWhGXydICS+7AF9Ejg
        2k2SaSo1FQnuq5U0Kg7sef+ItRoDNFv+mcptiVaBLQkzpOXxjCRn7bMGDL5FyQWZ
        A/8FL75YhZWYbEtWExu64eryof4PI9A2RZdJhkirU39RlmCLqjPpUelS6f3iw4HL
        RgccM2OLAgMBAAECggEAGgiH6tA8q12lwGTwUevhAPv9pVlrrcFZiZP4tkbW/Wwq
        1m4pivjzgLcnJ0J18lpgVXf5Wl/6JCn9g4HZpiPwUfJD9biauSmu50ixvZ1W1D9U
        4gnBV4hiRtJPQMNCKkzWwJGTVyjp+krtZQ/bzSnxpFtn//Cs2RigyT6IC66O37h+
        39vuzNDvbD/BrL4sEyPzIvjrczTV5lHTdEx1IocuSWtBoKcqXf0dz6H6B/srt6BW
        NLE+DHI5Sap6FL3BCoPBDnGw4Iq11I0V95G7O32ISuzmbpybdZn/sj/ZwpsP0b+s
        6C1HRySvYwWctcLnuNUgrVgEjKuVNyvn1PHzJAE3lQKBgQDm76x3tAHNelqXWQ4n
        aOvgYcsEVb0mMzb3vGMXt86ucCaqJj7nSHJQtiLc2mblyQNWUH7Gh6y2lcdC1OYu
        wBddw8Y8SecidkON6+32VnFQUbyhpb3G+D4EbTiffEVRV933m885NUqYu7AHw8ub
        /WZ1h4mILWWhTM0oekiyM3ZQJwKBgQDIFhkK8OTxpDDzDyq8Q9EJN3MoyzRaNRyS
        v0J7Y6ylwidsOtraAeKstcVG1mjclFJPvLfU4IhdIuj7+XynLhOL/POvtfg8IjUV
        1dqUO/JCMbS5129z72dKE60BPkBVpl+SDoVHHW3DMytjo05j/FHQG8FCdOgY28BY
        ggdj/teL/QKBgArzqtYybzNzbgBndMhhrW4CtUILXuEE5MJy6LAjQ2X6Y5sGHU2S
        nfk96gFXSjHzinj5cEmx/XrbN4vv1Mq6yWDk++24A4Ia4bFFUw+vocgRWETCO3HI
        LAjBtUG6/v6QkDJB7V3lLRh5LivwGSPYrJc+SkNvA7bWkZQt2Gy7DA1ZAoGBAL4Q
        98MD6Id+sB0D6FWkmjqGGPfEaDvUvgrMcmvh2Ewxbd+K3QBA0EG9/eN3o2792l7y
        ZzJqBD9s/SL28SmiRGEzbY0Zb/A3knPmjNdJRq0IqKPs+WuJHHYq0Kogp151R83n
        y0UtuGm3/tyMcdfbBSCKbQAjK6MJhOLOyhR8LedFAoGBAKPnyTRs/2Xwb1l/9hGC
        M1e5GX+r1ciCp8lF3JB9wfhonNqEY2rZxVRQCW1RhkKozspcv2HBYH+zHBqcq1i8
        7pNop388w1q6HUHUbwezuGjlJ2+yrqYwag8x7gn1BYTrjwv/CHh1i5nwJmmiy+nT
        3fz31FPs42kCSzthEZyj+U5N
        -----END PRIVATE KEY-----
        """
}
