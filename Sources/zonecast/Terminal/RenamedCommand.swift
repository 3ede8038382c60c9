/// A command of an earlier version, which answers with today's spelling.
struct RenamedCommand: Equatable {
    var old: String
    var new: String

    var words: String { "\"\(old)\" is now: \(new). For its options: \(help) --help" }

    /// The new command without its options.
    private var help: String {
        new.split(separator: " ").prefix { !$0.hasPrefix("-") && $0.uppercased() != $0 }.joined(separator: " ")
    }

    /// Returns the renamed command that the arguments begin with; `nil` if there is none.
    static func first(in arguments: [String]) -> RenamedCommand? {
        let words = arguments.prefix { !$0.hasPrefix("-") }
        if words.count == 1, let noun = words.first, let new = single[noun], !arguments.contains("--help") {
            return RenamedCommand(old: "zonecast \(noun)", new: "zonecast \(new)")
        }
        for count in stride(from: min(3, words.count), to: 0, by: -1) {
            let old = words.prefix(count).joined(separator: " ")
            guard let new = names[old] else { continue }
            return RenamedCommand(old: "zonecast \(old)", new: "zonecast \(new)")
        }
        return nil
    }

    /// Old spellings that today are only a noun, which needs a verb.
    private static let single = ["logs": "log show", "alerts": "alert list"]

    /// Old spellings and their replacements; longer spellings win.
    static let names: [String: String] = [
        "watch": "zone changes --follow",
        "issuer": "user issuer",
        "issuer add": "user issuer create",
        "issuer list": "user issuer list",
        "issuer remove": "user issuer delete",
        "issuer check": "user issuer check",
        "key": "token list --kind server",
        "key add": "token create --kind server",
        "key create": "token create --kind server",
        "key list": "token list --kind server",
        "key rotate": "token rotate --kind server",
        "key revoke": "token revoke --kind server",
        "token api": "token",
        "token api create": "token create",
        "token api list": "token list",
        "token api rotate": "token rotate",
        "token api revoke": "token revoke",
        "token server-key": "token list --kind server",
        "token server-key add": "token create --kind server",
        "token server-key create": "token create --kind server",
        "token server-key list": "token list --kind server",
        "token server-key rotate": "token rotate --kind server",
        "token server-key revoke": "token revoke --kind server",
        "token management": "token list --kind management",
        "token management create": "token create --kind management",
        "token management list": "token list --kind management",
        "token management rotate": "token rotate --kind management",
        "token management revoke": "token revoke --kind management",
        "token session": "token list --kind session",
        "token session create": "token create --kind session",
        "token session sign-in": "user sign-in",
        "token session sessions": "token list --kind session",
        "role": "user role",
        "role give": "user role grant",
        "role take": "user role revoke",
        "role list": "user role list",
        "console": "user operator",
        "console link": "user operator create",
        "console operators": "user operator list",
        "console remove": "user operator delete",
        "console audit": "log audit",
        "user add": "user create",
        "user remove": "user delete",
        "user profile": "user edit",
        "user quota": "user edit EMAIL --quota SIZE",
        "user sessions": "token list --kind session --user EMAIL",
        "container usage": "container show",
        "record get": "record show",
        "records get": "record show",
        "record update": "record edit",
        "records update": "record edit",
        "record delete-many": "record delete --type TYPE",
        "records delete-many": "record delete --type TYPE",
        "share participants": "share show",
        "shares participants": "share show",
        "asset gc": "asset clean",
        "assets gc": "asset clean",
        "alert show": "alert list",
        "alerts show": "alert list",
        "alert limit": "alert edit ID --limit NUMBER",
        "alerts limit": "alert edit ID --limit NUMBER",
        "alert mute": "alert edit ID --mute DURATION",
        "alerts mute": "alert edit ID --mute DURATION",
        "storage info": "storage show",
        "push apns": "push set apns",
        "push apns set": "push set apns",
        "push apns show": "push show",
        "push apns test": "push test",
        "push fcm": "push set fcm",
        "push fcm set": "push set fcm",
        "push fcm show": "push show",
        "push fcm test": "push test",
        "push webpush": "push set webpush",
        "push webpush set": "push set webpush",
        "push webpush show": "push show",
        "push webpush test": "push test",
        "push unifiedpush": "push set unifiedpush",
        "push unifiedpush set": "push set unifiedpush",
        "push unifiedpush show": "push show",
        "push unifiedpush test": "push test",
        "push remove": "push delete",
    ]
}
