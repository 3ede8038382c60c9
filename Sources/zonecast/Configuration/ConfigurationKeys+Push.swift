import Foundation

/// Which push services wake devices that have no socket open.
extension ConfigurationKeys {
    static let pushes: [ConfigurationKey] = [
        .text(
            "push.contact",
            \.push.contact,
            "an address beginning with mailto: or https://",
            "Where push services find the relay's operator (VAPID); with it browsers and UnifiedPush are woken.",
            read: { $0 ?? "" },
            parse: { $0.hasPrefix("mailto:") || $0.hasPrefix("https://") ? .some($0) : nil }
        ),
        .flag(
            "push.ntfy",
            \.push.sendsToNtfy,
            "Wake devices by plain ntfy topics, which anybody who knows them may read."
        ),
        .text(
            "push.hosts",
            \.push.hosts,
            "a list of hosts with commas between, like push.example or *.push.example",
            "Push services that devices may name; others are refused, or a device could have the relay call anything.",
            read: { $0.joined(separator: ",") },
            parse: { list($0) }
        ),
        .text(
            "push.trust-file",
            \.push.trustFile,
            "the path of a PEM file, from / on",
            "Certificates of push services of your own, trusted besides those of the system.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-file",
            \.push.apnsKeyFile,
            "the path of a .p8 file, from / on",
            "The key for Apple's push service, from Apple's developer pages; wants the three keys below.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
        .text(
            "push.apns-key-id",
            \.push.apnsKeyID,
            "ten letters and digits",
            "The identifier of that key.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-team-id",
            \.push.apnsTeamID,
            "ten letters and digits",
            "The identifier of your team at Apple.",
            read: { $0 ?? "" },
            parse: { identifier($0) }
        ),
        .text(
            "push.apns-topics",
            \.push.apnsTopics,
            "a list of bundle identifiers with commas between, like org.example.notes",
            "The apps that may be woken by Apple's push service.",
            read: { $0.joined(separator: ",") },
            parse: { list($0) }
        ),
        .text(
            "push.fcm-account-file",
            \.push.fcmAccountFile,
            "the path of a JSON file, from / on",
            "A service account's key file from Firebase's console; with it Android apps are woken.",
            read: { $0 ?? "" },
            parse: { path($0) }
        ),
    ]

    private static func list(_ text: String) -> [String]? {
        let items = text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
        return items.contains { $0.isEmpty || $0.contains { $0 == "/" || $0.isWhitespace } } ? nil : items
    }

    private static func path(_ text: String) -> String?? { text.hasPrefix("/") ? .some(text) : nil }

    private static func identifier(_ text: String) -> String?? {
        text.utf8.count == 10 && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } ? .some(text) : nil
    }
}
