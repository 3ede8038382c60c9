import Foundation
import RelayGateways

/// Who is told when the relay is not well.
extension ConfigurationKeys {
    static let alerts: [ConfigurationKey] = [
        .text(
            "alerts.webhook",
            \.alerts.webhook,
            "an address beginning with https://, or http:// on this machine",
            "Gets a JSON message by POST when an alert begins, daily while it lasts, and when it ends; its member text is what chat programs show.",
            read: { $0 ?? "" },
            parse: { address($0) }
        ).secret,
        .text(
            "alerts.ntfy",
            \.alerts.ntfy,
            "a topic's address like https://ntfy.sh/my-relay",
            "The same as a message to an ntfy topic, so that a phone rings; choose a topic that nobody guesses.",
            read: { $0 ?? "" },
            parse: { address($0) }
        ).secret,
        .text(
            "alerts.token-file",
            \.alerts.tokenFile,
            "the path of a file, from / on",
            "Whose one line is shown to both as a bearer token.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("/") ? .some($0) : nil }
        ),
        .text(
            "alerts.mail-to",
            \.alerts.mailTo,
            "mail addresses with commas between",
            "The same by mail to these.",
            read: { $0.joined(separator: ",") },
            parse: { text in
                let addresses = text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                return !addresses.isEmpty && addresses.allSatisfy(MailReceivers.isAddress) ? addresses : nil
            }
        ),
        .text(
            "alerts.mail-from",
            \.alerts.mailFrom,
            "a mail address",
            "Whom such mail is from; by default zonecast at this machine's name.",
            read: { $0 ?? "" },
            parse: { MailReceivers.isAddress($0) ? .some($0) : nil }
        ),
        .text(
            "alerts.mail-server",
            \.alerts.mailServer,
            "a host and port of this machine, like 127.0.0.1:25",
            "The mail server that delivers it: one on this machine, which takes mail without signing in.",
            read: { $0 },
            parse: { MailReceivers.server($0) == nil ? nil : $0 }
        ),
        .seconds(
            "alerts.interval",
            \.alerts.interval,
            1...3600,
            "Between two looks; an alert is told once it is there in two of them."
        ),
    ]

    private static func address(_ text: String) -> String?? {
        AlertSender.Settings.admits(text) ? .some(text) : nil
    }
}
