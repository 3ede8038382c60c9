import AsyncHTTPClient
import CryptoExtras
import Foundation
import NIOCore
import NIOHTTP1
import Records
import RelayCore
import Synchronization

/// A Google service account as described by its JSON file, with which the relay uses Firebase Cloud Messaging.
package struct GoogleAccount: Sendable {
    package var project: String
    package var email: String
    /// The URL that exchanges a signed assertion for an access token.
    package var tokenAddress: String
    /// The identifier of the key at Google; may be missing.
    package var keyID: String?
    let key: _RSA.Signing.PrivateKey

    private struct File: Decodable {
        var project_id: String
        var client_email: String
        var private_key: String
        var private_key_id: String?
        var token_uri: String?
    }

    /// Parses the JSON file from Google's console; returns `nil` for other content.
    package init?(json: [UInt8]) {
        guard let file = try? JSONDecoder().decode(File.self, from: Data(json)),
            let key = try? _RSA.Signing.PrivateKey(pemRepresentation: file.private_key)
        else { return nil }
        self.key = key
        project = file.project_id
        email = file.client_email
        keyID = file.private_key_id
        tokenAddress = file.token_uri ?? "https://oauth2.googleapis.com/token"
    }

    /// Returns a signed assertion, valid for an hour from `issued` in seconds since 1970: a JWT with RS256.
    ///
    /// See RFC 7523.
    package func assertion(issued: Int64) throws -> String {
        struct Head: Encodable {
            var alg = "RS256"
            var typ = "JWT"
            var kid: String?
        }
        struct Claims: Encodable {
            var iss: String
            var scope = "https://www.googleapis.com/auth/firebase.messaging"
            var aud: String
            var iat: Int64
            var exp: Int64
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let head = Base64URL.encode(try encoder.encode(Head(kid: keyID)))
        let claims = Claims(iss: email, aud: tokenAddress, iat: issued, exp: issued + 3_600)
        let detail = head + "." + Base64URL.encode(try encoder.encode(claims))
        let signature = try key.signature(for: Data(detail.utf8), padding: .insecurePKCS1v1_5)
        return detail + "." + Base64URL.encode(signature.rawRepresentation)
    }
}

/// Sends pushes with Firebase Cloud Messaging, HTTP v1.
final class FCMSender: Sendable {
    private let account: GoogleAccount
    /// The URL of Firebase without a trailing slash.
    private let service: String
    private let client: HTTPClient
    private let time: TimeSource
    private let token = Mutex<(text: String, until: Timestamp)?>(nil)

    init(_ settings: PushSettings.FCM, client: HTTPClient, time: TimeSource) {
        account = settings.account
        service = settings.service
        self.client = client
        self.time = time
    }

    /// Sends one push to an app's registration token.
    func send(_ push: Push, to device: String) async throws -> PushOutcome {
        let bearer: String
        switch try await accessToken() {
        case .success(let text): bearer = text
        case .failure(let refused): return refused.outcome
        }
        var request = HTTPClientRequest(url: "\(service)/v1/projects/\(account.project)/messages:send")
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(bearer)")
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(Array(try JSONEncoder().encode(Message(push, to: device))))
        let response = try await client.send(request, timeout: .seconds(30))
        let body = try? await response.body.collect(upTo: 4_096)
        return outcome(response, body.map { String(buffer: $0) } ?? "")
    }

    // MARK: The access token

    private struct Refused: Error {
        var outcome: PushOutcome
    }

    private struct Granted: Decodable {
        var access_token: String
        var expires_in: Int64?
    }

    /// Returns an access token, which is valid for an hour and cached for most of it.
    private func accessToken() async throws -> Result<String, Refused> {
        let now = time.now()
        if let kept = token.withLock({ $0 }), kept.until > now { return .success(kept.text) }
        var request = HTTPClientRequest(url: account.tokenAddress)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let assertion = try account.assertion(issued: now.milliseconds / 1_000)
        let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        request.body = .bytes(Array("grant_type=\(grant)&assertion=\(assertion)".utf8))
        let response = try await client.send(request, timeout: .seconds(30))
        let body = try await response.body.collect(upTo: 16_384)
        guard response.status.code == 200,
            let granted = try? JSONDecoder().decode(Granted.self, from: Data(body.readableBytesView))
        else {
            let detail = "Google's sign-in answered \(response.status.code): \(String(buffer: body).prefix(200))"
            let mayPass = response.status.code == 429 || response.status.code >= 500
            return .failure(Refused(outcome: mayPass ? .later(nil, detail) : .refused(detail)))
        }
        let life = max(60, min(granted.expires_in ?? 3_600, 3_600) - 300)
        token.withLock { $0 = (granted.access_token, now + .seconds(life)) }
        return .success(granted.access_token)
    }

    // MARK: Messages

    private struct Message: Encodable {
        struct Notification: Encodable {
            var body: String
        }

        struct Android: Encodable {
            var priority: String
            var collapse_key: String
            var ttl = "86400s"
        }

        struct Content: Encodable {
            var token: String
            /// FCM requires text values, so the payload is encoded as one text.
            var data: [String: String]
            var notification: Notification?
            var android: Android
        }

        var message: Content

        init(_ push: Push, to device: String) {
            message = Content(
                token: device,
                data: ["ck": String(decoding: push.payload, as: UTF8.self)],
                notification: push.alert.flatMap { $0.isEmpty ? nil : Notification(body: $0) },
                android: Android(priority: push.alert == nil ? "normal" : "high", collapse_key: push.topic)
            )
        }
    }

    private func outcome(_ response: HTTPClientResponse, _ body: String) -> PushOutcome {
        let detail = "The push service answered \(response.status.code): \(body.prefix(200))"
        switch response.status.code {
        case 200..<300: return .taken
        case 404 where body.contains("UNREGISTERED"): return .gone
        // For a text that is not a registration token, the message contains these words.
        case 400 where body.contains("registration token"): return .gone
        case 401:
            token.withLock { $0 = nil }
            return .later(nil, detail)
        case 429, 500...:
            let wait = response.headers.first(name: "retry-after").flatMap { Int64($0) }
            return .later(wait.map { .seconds(min(max($0, 0), 86_400)) }, detail)
        default: return .refused(detail)
        }
    }
}
