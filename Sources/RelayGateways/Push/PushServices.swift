package import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import Records
package import RelayCore
import Synchronization

/// Sends pushes with Apple's push service, Web Push, ntfy and Firebase Cloud Messaging, over HTTP/2 where supported.
///
/// Safe from any thread; connections are kept open and shared.
package final class PushServices: PushGateway {
    private let settings: PushSettings
    private let client: HTTPClient
    private let time: TimeSource
    private let random: RandomSource
    /// Apple refuses tokens that are created too often and tokens older than an hour.
    private let appleToken = Mutex<(text: String, issued: Timestamp)?>(nil)
    private let google: FCMSender?

    /// Creates the services; the caller must shut the client down.
    package init(_ settings: PushSettings, client: HTTPClient, time: TimeSource, random: RandomSource) {
        self.settings = settings
        self.client = client
        self.time = time
        self.random = random
        google = settings.fcm.map { FCMSender($0, client: client, time: time) }
    }

    package var webPushKey: [UInt8]? { settings.webPush.map { Array($0.key.publicKey.x963Representation) } }

    // MARK: Targets

    package func objection(to target: PushTarget) -> String? {
        switch target {
        case .apns(_, let topic, _):
            guard let apns = settings.apns else { return Self.notSet("Apple's push service", "push.apns-key-file") }
            guard apns.topics.contains(topic) else {
                return "This relay sends no pushes to app \"\(topic)\"; its operator lists apps in push.apns-topics."
            }
            return nil
        case .webPush(let endpoint, _, _):
            guard settings.webPush != nil else { return Self.notSet("Web Push", "push.contact") }
            return objection(toAddress: endpoint)
        case .ntfy(let topicURL):
            guard settings.sendsToNtfy else { return Self.notSet("ntfy", "push.ntfy") }
            return objection(toAddress: topicURL)
        case .fcm:
            return google == nil ? Self.notSet("Firebase Cloud Messaging", "push.fcm-account-file") : nil
        }
    }

    private static func notSet(_ service: String, _ key: String) -> String {
        "This relay does not use \(service); its operator sets \(key)."
    }

    private func objection(toAddress address: String) -> String? {
        guard address.utf8.count <= 1_024, let url = URL(string: address), url.scheme == "https", let host = url.host,
            url.user == nil
        else { return "A push address must be an https address of at most 1,024 bytes." }
        guard OutgoingFault.isPortUsable(in: address) else {
            return "The port of a push address must be between 1 and 65535."
        }
        guard settings.admits(host: host) else {
            return "This relay sends no pushes to \(host); its operator lists push services in push.hosts."
        }
        return nil
    }

    // MARK: Sending

    package func send(_ push: Push, to target: PushTarget) async -> PushOutcome {
        // Targets that the settings no longer allow are refused but stay registered, since the settings may change
        // back.
        if let objection = objection(to: target) { return .refused(objection) }
        do {
            if case .fcm(let token) = target, let google { return try await google.send(push, to: token) }
            let request = try request(push, to: target)
            let response = try await client.send(request, timeout: .seconds(30))
            let body = try? await response.body.collect(upTo: 4_096)
            return outcome(of: response, body: body.map { String(buffer: $0) } ?? "", for: target)
        } catch {
            return .later(nil, "The push service could not be reached: \(reason(for: error))")
        }
    }

    private func request(_ push: Push, to target: PushTarget) throws -> HTTPClientRequest {
        switch target {
        case .apns(let token, let topic, let isSandbox): try apple(push, token, topic, isSandbox)
        case .webPush(let endpoint, let key, let secret): try webPush(push, endpoint, key, secret)
        case .ntfy(let topicURL): ntfy(push, topicURL)
        case .fcm: throw PushFault.notSet
        }
    }

    private func apple(_ push: Push, _ token: String, _ topic: String, _ isSandbox: Bool) throws -> HTTPClientRequest {
        guard let apns = settings.apns else { throw PushFault.notSet }
        var request = HTTPClientRequest(
            url: (isSandbox ? apns.sandbox : apns.production) + "/3/device/" + token
        )
        request.method = .POST
        request.headers.add(name: "authorization", value: "bearer \(try currentAppleToken(apns))")
        request.headers.add(name: "apns-topic", value: topic)
        request.headers.add(name: "apns-push-type", value: push.alert == nil ? "background" : "alert")
        request.headers.add(name: "apns-priority", value: push.alert == nil ? "5" : "10")
        request.headers.add(name: "apns-collapse-id", value: push.topic)
        request.headers.add(name: "apns-expiration", value: "\(seconds + Self.life)")
        request.body = .bytes(push.payload)
        return request
    }

    private func webPush(
        _ push: Push,
        _ endpoint: String,
        _ key: [UInt8],
        _ secret: [UInt8]
    ) throws -> HTTPClientRequest {
        guard let web = settings.webPush else { throw PushFault.notSet }
        let ours = try P256.KeyAgreement.PrivateKey(rawRepresentation: random.bytes(32))
        let body = try WebPushMessage.encrypt(
            Array(push.payload.prefix(WebPushMessage.maximumPayload)),
            key: key,
            secret: secret,
            ours: ours,
            salt: random.bytes(16)
        )
        let token = try ProviderToken.vapid(
            audience: Self.origin(of: endpoint),
            contact: web.contact,
            expires: seconds + 12 * 3_600,
            key: web.key
        )
        var request = HTTPClientRequest(url: endpoint)
        request.method = .POST
        let publicKey = Base64URL.encode(web.key.publicKey.x963Representation)
        request.headers.add(name: "authorization", value: "vapid t=\(token), k=\(publicKey)")
        request.headers.add(name: "content-encoding", value: "aes128gcm")
        request.headers.add(name: "content-type", value: "application/octet-stream")
        request.headers.add(name: "ttl", value: "\(Self.life)")
        request.headers.add(name: "urgency", value: push.alert == nil ? "normal" : "high")
        request.headers.add(name: "topic", value: push.topic)
        request.body = .bytes(body)
        return request
    }

    /// Creates the request that ntfy shows as a notification: the alert's text, or the payload with the lowest
    /// priority.
    private func ntfy(_ push: Push, _ topicURL: String) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: topicURL)
        request.method = .POST
        let text = push.alert.flatMap { $0.isEmpty ? nil : $0 }
        request.headers.add(name: "priority", value: push.alert == nil ? "min" : "default")
        request.headers.add(name: "tags", value: "zonecast")
        request.body = .bytes(text.map { Array($0.utf8) } ?? push.payload)
        return request
    }

    /// How long a service stores an undelivered push, in seconds.
    private static let life: Int64 = 86_400

    private var seconds: Int64 { time.now().milliseconds / 1_000 }

    private func currentAppleToken(_ apns: PushSettings.APNs) throws -> String {
        let now = time.now()
        return try appleToken.withLock { kept in
            // If the clock was set back, the cached token is from the future and Apple would refuse it.
            if let kept, kept.issued <= now, now < kept.issued + .seconds(2_400) { return kept.text }
            let text = try ProviderToken.apns(keyID: apns.keyID, teamID: apns.teamID, issued: seconds, key: apns.key)
            kept = (text, now)
            return text
        }
    }

    private static func origin(of address: String) -> String {
        guard let url = URL(string: address), let host = url.host else { return address }
        return "https://" + host + (url.port.map { ":\($0)" } ?? "")
    }

    // MARK: Responses

    private func outcome(of response: HTTPClientResponse, body: String, for target: PushTarget) -> PushOutcome {
        let detail = "The push service answered \(response.status.code): \(body.prefix(200))"
        switch response.status.code {
        case 200..<300: return .taken
        case 404, 410: return .gone
        case 400 where Self.deadTokens.contains { body.contains($0) }: return .gone
        case 403 where body.contains("ExpiredProviderToken"):
            appleToken.withLock { $0 = nil }
            return .later(nil, detail)
        case 429, 500...: return .later(retryAfter(response), detail)
        default: return .refused(detail)
        }
    }

    /// Apple's reasons for a device token that is invalid or no longer registered.
    private static let deadTokens = ["BadDeviceToken", "DeviceTokenNotForTopic", "Unregistered"]

    private func retryAfter(_ response: HTTPClientResponse) -> Duration? {
        response.headers.first(name: "retry-after").flatMap { Int64($0) }.map { .seconds(min(max($0, 0), Self.life)) }
    }
}

/// Errors that prevent a request from being created.
enum PushFault: Error, CustomStringConvertible {
    case notSet

    var description: String { "This push service is not configured." }
}
