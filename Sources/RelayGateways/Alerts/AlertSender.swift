package import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

/// Tells people of alerts: by a webhook, by an ntfy topic, by mail, or by all of them.
///
/// See Reliability.md, "Outgoing requests": the addresses are the operator's own, https alone but for this machine,
/// no redirect is followed, five seconds, and of the answer little is read.
package struct AlertSender: Sendable {
    package struct Settings: Hashable, Sendable {
        /// Gets each message as JSON by POST.
        package var webhook: String?
        /// An ntfy topic's whole address, such as `https://ntfy.sh/my-relay`.
        package var ntfy: String?
        /// Shown to both as a bearer token.
        package var token: String?

        package var mail: MailReceivers?

        package init(
            webhook: String? = nil,
            ntfy: String? = nil,
            token: String? = nil,
            mail: MailReceivers? = nil
        ) {
            self.webhook = webhook
            self.ntfy = ntfy
            self.token = token
            self.mail = mail
        }

        /// Whether an address may be called: https, or http on this machine, with a port that there is.
        package static func admits(_ address: String) -> Bool {
            guard let url = URLComponents(string: address), let host = url.host, !host.isEmpty else { return false }
            guard url.user == nil, url.password == nil, OutgoingFault.isPortUsable(in: address) else { return false }
            return url.scheme == "https"
                || url.scheme == "http" && ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host)
        }
    }

    /// One message, as it goes out.
    package struct Message: Encodable, Hashable, Sendable {
        /// `firing`, `reminder`, `resolved` or `test`.
        package var state: String
        /// The rule's identifier.
        package var rule: String
        package var title: String
        /// All that has to be said; chat programs show this member of a webhook.
        package var text: String
        /// Which relay: its public address or its data folder.
        package var relay: String
        /// ISO 8601.
        package var at: String

        package init(state: String, rule: String, title: String, text: String, relay: String, at: String) {
            self.state = state
            self.rule = rule
            self.title = title
            self.text = text
            self.relay = relay
            self.at = at
        }
    }

    /// One of those who are told.
    package enum Receiver: Hashable, Sendable {
        case webhook, ntfy
        /// An address: each gets a message of its own, so that a mailbox that is gone keeps nothing from the others.
        case mail(String)
    }

    private let settings: Settings
    private let client: HTTPClient

    /// The client follows no redirects, and is shut down by whoever made it.
    package init(_ settings: Settings, client: HTTPClient) {
        self.settings = settings
        self.client = client
    }

    /// All who are told.
    package var receivers: [Receiver] {
        var receivers: [Receiver] = []
        if settings.webhook != nil { receivers.append(.webhook) }
        if settings.ntfy != nil { receivers.append(.ntfy) }
        return receivers + (settings.mail?.to ?? []).map { .mail($0) }
    }

    /// Tells one of them; gives why they were not reached, `nil` if they were.
    package func send(_ message: Message, to receiver: Receiver) async -> String? {
        switch receiver {
        case .webhook:
            guard let address = settings.webhook else { return nil }
            return await post(webhook(message, to: address), "alerts.webhook")
        case .ntfy:
            guard let address = settings.ntfy else { return nil }
            return await post(topic(message, to: address), "alerts.ntfy")
        case .mail(let address):
            guard let mail = settings.mail else { return nil }
            return await post(message, to: address, mail)
        }
    }

    private func post(_ message: Message, to address: String, _ receivers: MailReceivers) async -> String? {
        let mail = Mail(
            from: receivers.from ?? "zonecast@\(MailPost.machine)",
            to: [address],
            subject: "\(message.state == "resolved" ? "Well again: " : "")\(message.title) (\(message.relay))",
            body: "\(message.text)\n\n\(message.relay), \(message.at)\n",
            date: Date(),
            id: "\(UUID().uuidString)@zonecast"
        )
        let fault = await MailPost(host: receivers.host, port: receivers.port).send(mail)
        return fault.map { "alerts.mail-server \($0) (for \(address))" }
    }

    private func webhook(_ message: Message, to address: String) -> HTTPClientRequest {
        var request = request(address)
        request.headers.add(name: "content-type", value: "application/json")
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        request.body = .bytes(Array((try? encoder.encode(message)) ?? Data()))
        return request
    }

    /// As ntfy wants it: the text is the body, all else is in headers, which are ASCII.
    private func topic(_ message: Message, to address: String) -> HTTPClientRequest {
        var request = request(address)
        request.headers.add(name: "title", value: Self.plain("\(message.title) - \(message.relay)"))
        request.headers.add(name: "priority", value: message.state == "firing" ? "high" : "default")
        request.headers.add(name: "tags", value: message.state == "resolved" ? "white_check_mark" : "warning")
        request.body = .bytes(Array(message.text.utf8))
        return request
    }

    private static func plain(_ text: String) -> String {
        String(decoding: text.utf8.map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }

    private func request(_ address: String) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: address)
        request.method = .POST
        if let token = settings.token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        return request
    }

    private func post(_ request: HTTPClientRequest, _ key: String) async -> String? {
        do {
            let response = try await client.send(request, timeout: .seconds(5))
            let said = (try? await response.body.collect(upTo: 4_096)).map { String(buffer: $0).prefix(200) } ?? ""
            guard (200..<300).contains(response.status.code) else {
                return "\(key) answers \(response.status.code) \(said)"
            }
            return nil
        } catch {
            return "\(key) cannot be reached: \(reason(for: error))"
        }
    }
}
