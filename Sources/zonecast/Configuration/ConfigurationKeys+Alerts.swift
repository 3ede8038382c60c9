import Foundation
import RelayGateways

/// The webhook that receives alerts.
extension ConfigurationKeys {
    static let alerts: [ConfigurationKey] = [
        .text(
            "alerts.webhook",
            \.alerts.webhook,
            "an address beginning with https://, or http:// on this machine",
            "Gets a JSON message by POST when an alert begins, daily while it lasts, and when it ends.",
            read: { $0 ?? "" },
            parse: { AlertSender.Settings.admits($0) ? .some($0) : nil }
        ).secret,
        .text(
            "alerts.format",
            \.alerts.format,
            AlertSender.Format.allCases.map(\.rawValue).joined(separator: " or "),
            "The body of that message: one object, whose text Slack shows and from which ntfy fills a template, or the list that Alertmanager takes at /api/v2/alerts.",
            read: { $0.rawValue },
            parse: { AlertSender.Format(rawValue: $0) }
        ),
        .text(
            "alerts.token-file",
            \.alerts.tokenFile,
            "the path of a file, from / on",
            "Holds one line that is sent to the webhook as a bearer token.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .seconds(
            "alerts.interval",
            \.alerts.interval,
            1...3600,
            "The time between two checks; an alert is sent once two checks in a row have found it."
        ),
    ]
}
