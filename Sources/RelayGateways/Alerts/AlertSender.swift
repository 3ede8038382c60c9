package import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOHTTP1

/// Sends alert messages to the operator's webhook.
///
/// The address must use HTTPS unless it is on this machine. Redirects are not followed, a request may take five seconds,
/// and at most 4 KiB of a response are read.
package struct AlertSender: Sendable {
    package struct Settings: Hashable, Sendable {
        /// The address that receives each message by POST.
        package var webhook: String
        package var format: Format
        /// Sent as a bearer token.
        package var token: String?

        package init(webhook: String, format: Format = .message, token: String? = nil) {
            self.webhook = webhook
            self.format = format
            self.token = token
        }

        /// Returns whether an address may be called: HTTPS, or HTTP on this machine, with a usable port.
        package static func admits(_ address: String) -> Bool {
            guard let url = URLComponents(string: address), let host = url.host, !host.isEmpty else { return false }
            guard url.user == nil, url.password == nil, OutgoingFault.isPortUsable(in: address) else { return false }
            return url.scheme == "https"
                || url.scheme == "http" && ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host)
        }
    }

    /// The body of a request.
    package enum Format: String, CaseIterable, Sendable {
        /// One JSON object, `Message`. Slack and similar programs show its `text`; ntfy fills a template from it.
        case message
        /// The list that Alertmanager takes at `/api/v2/alerts`.
        case alertmanager
    }

    /// One alert message.
    package struct Message: Encodable, Hashable, Sendable {
        /// `firing`, `reminder`, `resolved` or `test`.
        package var state: String
        /// The rule's identifier.
        package var rule: String
        package var title: String
        /// The complete message for a person.
        package var text: String
        /// The relay's public address or its data folder.
        package var relay: String
        package var at: Date

        package init(state: String, rule: String, title: String, text: String, relay: String, at: Date) {
            self.state = state
            self.rule = rule
            self.title = title
            self.text = text
            self.relay = relay
            self.at = at
        }
    }

    /// One element of Alertmanager's list.
    private struct AlertmanagerAlert: Encodable {
        var labels: [String: String]
        var annotations: [String: String]
        var startsAt: Date
        var endsAt: Date

        /// Alertmanager ends an alert by itself unless it knows a later end: the next reminder comes within a day.
        private static let lifetime: TimeInterval = 26 * 3600

        init(_ message: Message) {
            labels = ["alertname": message.title, "rule": message.rule, "relay": message.relay, "job": "zonecast"]
            annotations = ["summary": message.title, "description": message.text]
            startsAt = message.at
            endsAt = message.state == "resolved" ? message.at : message.at.addingTimeInterval(Self.lifetime)
        }
    }

    private let settings: Settings
    private let client: HTTPClient

    /// Creates a sender.
    ///
    /// The client must not follow redirects. The caller shuts it down.
    package init(_ settings: Settings, client: HTTPClient) {
        self.settings = settings
        self.client = client
    }

    /// Sends a message; returns why it did not arrive, or `nil` if it did.
    package func send(_ message: Message) async -> String? {
        do {
            let response = try await client.send(request(for: message), timeout: .seconds(5))
            let answer = (try? await response.body.collect(upTo: 4_096)).map { String(buffer: $0).prefix(200) } ?? ""
            guard (200..<300).contains(response.status.code) else {
                return "alerts.webhook answers \(response.status.code) \(answer)"
            }
            return nil
        } catch {
            return "alerts.webhook cannot be reached: \(reason(for: error))"
        }
    }

    private func request(for message: Message) throws -> HTTPClientRequest {
        var request = HTTPClientRequest(url: settings.webhook)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        if let token = settings.token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        switch settings.format {
        case .message: request.body = .bytes(Array(try encoder.encode(message)))
        case .alertmanager: request.body = .bytes(Array(try encoder.encode([AlertmanagerAlert(message)])))
        }
        return request
    }
}
