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
