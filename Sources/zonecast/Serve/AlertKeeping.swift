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

    var receivers: [AlertSender.Receiver] { sender.receivers }

    /// Tells everybody; gives why somebody was not reached, `nil` if all were.
    func send(_ message: AlertMessage) async -> String? {
        var faults: [String] = []
        for receiver in receivers {
            if let fault = await send(message, to: receiver) { faults.append(fault) }
        }
        return faults.isEmpty ? nil : faults.joined(separator: "; ")
    }

    /// The same for one of them.
    func send(_ message: AlertMessage, to receiver: AlertSender.Receiver) async -> String? {
        await sender.send(
            AlertSender.Message(
                state: message.state.rawValue,
                rule: message.rule,
                title: message.name,
                text: message.text,
                relay: relay,
                at: message.at.iso8601
            ),
            to: receiver
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
            var lines: [AlertSender.Receiver: Line] = [:]
            while (try? await Task.sleep(for: interval)) != nil {
                let news = watch.look(at: look(), now: TimeSource.system.now())
                for message in news where message.state == .firing { logger.warning("Alert. \(message.text)") }
                // Each has a line of their own: one who cannot be reached keeps nothing from the others.
                for receiver in post.receivers { await tell(receiver, news, &lines[receiver, default: Line()]) }
            }
        }
        await post.end()
    }

    /// What one receiver has still to hear.
    private struct Line {
        var waiting: [AlertMessage] = []
        var isFailing = false
    }

    private func tell(_ receiver: AlertSender.Receiver, _ news: [AlertMessage], _ line: inout Line) async {
        line.waiting = Array((line.waiting + news).suffix(Self.capacity))
        while let message = line.waiting.first {
            if let fault = await post.send(message, to: receiver) {
                if !line.isFailing { logger.error("Alerts do not arrive, and are tried again: \(fault)") }
                line.isFailing = true
                return
            }
            line.isFailing = false
            line.waiting.removeFirst()
        }
    }
}

/// Says where operators' own limits and silences cannot be used, at the start and whenever that is new.
struct AlertBookLook: Service {
    let data: String
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var told: String?
            repeat {
                let fault = fault()
                if let fault, fault != told { logger.error("\(fault)") }
                told = fault
            } while (try? await Task.sleep(for: .seconds(60))) != nil
        }
    }

    private func fault() -> String? {
        do throws(BackupFailure) {
            _ = try AlertBook.read(from: data)
            return nil
        } catch {
            return error.description
        }
    }
}
