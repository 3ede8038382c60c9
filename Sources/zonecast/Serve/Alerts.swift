import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOPosix
import Records
import RelayCore
import RelayGateways
import RelayServer
import RelaySystem
import ServiceLifecycle

/// The `alerts` keys of the configuration.
struct AlertSettings: Sendable {
    var webhook: String?
    var format = AlertSender.Format.message
    var tokenFile: String?
    /// The time between two checks.
    var interval = Duration.seconds(60)

    /// Describes the destination without the address, which may be secret; `nil` if no webhook is set.
    var receiver: String? { webhook.map { "webhook at \(URLComponents(string: $0)?.host ?? "?")" } }

    /// Returns the sender's settings, with the token read from its file; `nil` if no webhook is set.
    ///
    /// - Throws: `CommandFailure` if the token file cannot be read or is empty.
    func sender() throws -> AlertSender.Settings? {
        guard let webhook else { return nil }
        var settings = AlertSender.Settings(webhook: webhook, format: format)
        guard let tokenFile else { return settings }
        guard let token = InputFile.word(tokenFile), !token.isEmpty else {
            throw CommandFailure(
                .usage,
                "alerts.token-file: \(tokenFile) holds no token. Put the receiver's token into it."
            )
        }
        settings.token = token
        return settings
    }
}

/// The operator's webhook, with the HTTP client that calls it.
struct AlertWebhook: Sendable {
    private let sender: AlertSender
    private let client: HTTPClient
    /// The relay's name in messages.
    private let relay: String

    /// Returns `nil` if no webhook is set.
    init?(_ settings: AlertSettings, relay: String) throws {
        guard let sender = try settings.sender() else { return nil }
        client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .outgoing(connect: .seconds(5), read: .seconds(5))
        )
        self.sender = AlertSender(sender, client: client)
        self.relay = relay
    }

    /// Sends a message; returns why it did not arrive, or `nil` if it did.
    func send(_ message: AlertMessage) async -> String? {
        await sender.send(
            AlertSender.Message(
                state: message.state.rawValue,
                rule: message.rule,
                title: message.name,
                text: message.text,
                relay: relay,
                at: Date(timeIntervalSince1970: Double(message.at.milliseconds) / 1000)
            )
        )
    }

    func shutDown() async { try? await client.shutdown() }
}

/// Evaluates the alert rules at an interval and sends alerts that begin or end to the webhook.
struct AlertMonitor: Service {
    let webhook: AlertWebhook
    let interval: Duration
    /// The alerts that all relays on the same data have sent; `nil` for the only one.
    let incidents: (any AlertIncidents)?
    let read: @Sendable () -> [AlertReading]
    let logger: Logger

    /// The maximum number of messages queued while the webhook cannot be reached; the oldest are dropped first.
    ///
    /// All rules together send fewer than this in a day.
    private static let capacity = 64

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var watch = AlertWatch(shared: incidents, interval: interval)
            var waiting: [AlertMessage] = []
            var isFailing = false
            while (try? await Task.sleep(for: interval)) != nil {
                // On a thread of its own, since a database may take seconds to answer.
                let looked = try? await BackgroundQueue.run(.utility) { [watch] in
                    var watch = watch
                    return (news: watch.look(at: read(), now: TimeSource.system.now()), watch: watch)
                }
                guard let looked else { continue }
                watch = looked.watch
                let news = looked.news
                for message in news where message.state == .firing { logger.warning("Alert. \(message.text)") }
                waiting = Array((waiting + news).suffix(Self.capacity))
                while let message = waiting.first {
                    if let fault = await webhook.send(message) {
                        if !isFailing { logger.error("Alerts cannot be delivered; the relay retries: \(fault)") }
                        isFailing = true
                        break
                    }
                    isFailing = false
                    waiting.removeFirst()
                }
            }
        }
        await webhook.shutDown()
    }
}

/// Logs an error if the operators' alert limits and mutes cannot be read: at the start, and when the reason changes.
struct AlertOverridesCheck: Service {
    let home: any RelayHome
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
            _ = try home.alertOverrides()
            return nil
        } catch {
            return error.description
        }
    }
}
