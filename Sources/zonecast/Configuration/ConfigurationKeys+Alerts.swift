import Foundation
import RelayGateways

/// Settings of the webhook that receives alerts.
extension ConfigurationKeys {
    static let alerts: [ConfigurationKey] = [
        .text(
            "alerts.webhook",
            \.alerts.webhook,
            "an address beginning with https://, or http:// on this machine",
            "The address that receives alerts: a POST with JSON when an alert begins, daily while it lasts, and when it ends.",
            read: { $0 ?? "" },
            parse: { AlertSender.Settings.admits($0) ? .some($0) : nil }
        ).secret,
        .text(
            "alerts.format",
            \.alerts.format,
            AlertSender.Format.allCases.map(\.rawValue).joined(separator: " or "),
            "The body of that message: one object for Slack (its text) and ntfy (templates), or a list for Alertmanager's /api/v2/alerts.",
            read: { $0.rawValue },
            parse: { AlertSender.Format(rawValue: $0) }
        ),
        .text(
            "alerts.token-file",
            \.alerts.tokenFile,
            "the absolute path of a file",
            "A file with one line: the bearer token for the webhook.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .seconds(
            "alerts.interval",
            \.alerts.interval,
            1...3600,
            "The time between two checks; an alert is sent after two positive checks in a row."
        ),
    ]
}
