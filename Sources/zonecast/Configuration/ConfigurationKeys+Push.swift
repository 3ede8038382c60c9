import Foundation
import RelayGateways

/// Settings of the push services that wake devices without an open socket.
extension ConfigurationKeys {
    static let pushes: [ConfigurationKey] = [
        .text(
            "push.contact",
            \.push.contact,
            "an address beginning with mailto: or https://",
            "The operator's contact address for push services (VAPID); enables Web Push and UnifiedPush.",
            read: { $0 ?? "" },
            parse: { PushContact.canonical($0).map { .some($0) } }
        ).explained { PushContact.objection(to: $0) },
        .flag(
            "push.ntfy",
            \.push.sendsToNtfy,
            "Send pushes to plain ntfy topics, which are readable by anyone who knows their names."
        ),
        .text(
            "push.hosts",
            \.push.hosts,
            "a comma-separated list of hosts, like push.example or *.push.example",
            "The push services that devices may register; all others are refused, so that devices cannot make the relay call other hosts.",
            read: { $0.joined(separator: ",") },
            parse: { ConfigurationKey.every(ConfigurationKey.items($0), PushHost.canonical) }
        ).explained { ConfigurationKey.items($0).lazy.compactMap(PushHost.objection).first },
        .text(
            "push.trust-file",
            \.push.trustFile,
            "the absolute path of a PEM file",
            "Certificates of your own push services, trusted in addition to the system's.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-file",
            \.push.apnsKeyFile,
            "the absolute path of a .p8 file",
            "The key for Apple's push service, from Apple's developer pages; requires the three keys below.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-id",
            \.push.apnsKeyID,
            "ten letters and digits",
            "The key's identifier.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-team-id",
            \.push.apnsTeamID,
            "ten letters and digits",
            "The identifier of your Apple developer team.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-topics",
            \.push.apnsTopics,
            "a comma-separated list of bundle identifiers, like org.example.notes",
            "The apps that receive pushes through Apple's push service.",
            read: { $0.joined(separator: ",") },
            parse: { list($0) }
        ),
        .text(
            "push.fcm-account-file",
            \.push.fcmAccountFile,
            "the absolute path of a JSON file",
            "A service account's key file from Firebase's console; enables pushes to Android apps.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
    ]

    private static func list(_ text: String) -> [String]? {
        let items = ConfigurationKey.items(text)
        return items.contains { $0.isEmpty || $0.contains { $0 == "/" || $0.isWhitespace } } ? nil : items
    }

    private static func path(_ text: String) -> String?? { text.hasPrefix("/") ? .some(text) : nil }

    private static func identifier(_ text: String) -> String?? {
        text.utf8.count == 10 && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } ? .some(text) : nil
    }
}
