import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOPosix
import Records
import RelayCore
import RelayGateways
import RelayServer
import RelayStore
import ServiceLifecycle

/// What the configuration says of alerts.
struct AlertChoices: Sendable {
    var webhook: String?
    var ntfy: String?
    var tokenFile: String?
    /// Addresses; none: no mail.
    var mailTo: [String] = []
    var mailFrom: String?
    /// Host and port, on this machine.
    var mailServer = "127.0.0.1:25"
    /// Between two looks.
    var interval = Duration.seconds(60)

    /// Where messages go, in words and without the addresses, which may be secrets; `nil` where they go nowhere.
    var receiver: String? {
        let hosts = [webhook.map { ("webhook", $0) }, ntfy.map { ("ntfy", $0) }].compactMap { $0 }
        var words = hosts.map { "\($0.0) at \(URLComponents(string: $0.1)?.host ?? "?")" }
        if !mailTo.isEmpty { words.append("mail to \(mailTo.joined(separator: ", "))") }
        return words.isEmpty ? nil : words.joined(separator: " and ")
    }

    func settings() throws -> AlertSender.Settings {
        var settings = AlertSender.Settings(webhook: webhook, ntfy: ntfy)
        if !mailTo.isEmpty, let server = MailReceivers.server(mailServer) {
            settings.mail = MailReceivers(to: mailTo, from: mailFrom, host: server.host, port: server.port)
        }
        guard let tokenFile else { return settings }
        let text = FileManager.default.contents(atPath: tokenFile).map { String(decoding: $0, as: UTF8.self) }
        guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "alerts.token-file: \(tokenFile) holds no token. Put the receiver's token into it."
            )
        }
        settings.token = token
        return settings
    }
}

/// Messages on their way to whoever is told of alerts.
struct AlertPost: Sendable {
    private let sender: AlertSender
    private let client: HTTPClient
    /// Which relay it is, for people.
    private let relay: String

    /// `nil` where nobody is told.
    init?(_ choices: AlertChoices, relay: String) throws {
        guard choices.receiver != nil else { return nil }
        let settings = try choices.settings()
        client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(5), read: .seconds(5))
        )
        sender = AlertSender(settings, client: client)
        self.relay = relay
    }

    var sending: @Sendable (AlertMessage) async -> String? { { message in await send(message) } }

    /// Gives why somebody was not reached, `nil` if all were.
    func send(_ message: AlertMessage) async -> String? {
        await sender.send(
            AlertSender.Message(
                state: message.state.rawValue,
                rule: message.rule,
                title: message.name,
                text: message.text,
                relay: relay,
                at: message.at.iso8601
            )
        )
    }

    func end() async { try? await client.shutdown() }
}

/// Looks at the relay's own numbers now and then, and tells somebody when they are not well.
struct AlertKeeping: Service {
    let post: AlertPost
    let interval: Duration
    let look: @Sendable () -> [AlertReading]
    let logger: Logger

    /// What waits for a receiver that cannot be reached: one day's worth of all rules is less.
    private static let capacity = 64

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var watch = AlertWatch()
            var waiting: [AlertMessage] = []
            var isFailing = false
            while (try? await Task.sleep(for: interval)) != nil {
                waiting += watch.look(at: look(), now: TimeSource.system.now())
                waiting = Array(waiting.suffix(Self.capacity))
                while let message = waiting.first {
                    if message.state == .firing { logger.warning("Alert. \(message.text)") }
                    if let fault = await post.send(message) {
                        if !isFailing { logger.error("Alerts do not arrive, and are tried again: \(fault)") }
                        isFailing = true
                        break
                    }
                    isFailing = false
                    waiting.removeFirst()
                }
            }
        }
        await post.end()
    }
}
