import Foundation

/// The address of a database in which relays keep their data: `postgres://USER@HOST1,HOST2/DATABASE`.
///
/// The password may be in it, except on the command line, where every user of the machine could read it. It is never
/// shown.
struct StoreAddress: Hashable, Sendable, CustomStringConvertible {
    static let form = "the address of a PostgreSQL database, like postgres://user@host/database"

    /// With the password, if it has one.
    let url: String

    /// `nil` if the text is no such address.
    init?(_ text: String) {
        guard text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") else { return nil }
        url = text
    }

    /// The address without its password.
    var description: String { Self.withoutPassword(url) }

    var hasPassword: Bool { description != url }

    /// Why the address must not be on a command line; `nil` if it may.
    var objectionToFlag: String? {
        guard hasPassword else { return nil }
        return
            "--store has a password, which every user of this machine can read in the list of processes. Put it in a file that ZONECAST_STORE_PASSWORD_FILE names, or set ZONECAST_STORE."
    }

    /// Returns a text without the password of the address that it is, of a database or not; any other text stays as it
    /// is.
    static func withoutPassword(_ text: String) -> String {
        guard let start = text.range(of: "://")?.upperBound else { return text }
        let isOurs = text.hasPrefix("postgres")
        // A password with an unescaped question mark.
        if isOurs, !text.prefix(while: { $0 != "?" }).contains("@"), let at = text.lastIndex(of: "@"),
            let colon = text[start..<at].firstIndex(of: ":")
        {
            return String(text[..<colon] + text[at...])
        }
        var kept = text[start...].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let end = kept[0].firstIndex(of: "/") ?? kept[0].endIndex
        // A password may contain an @ that its author has not escaped.
        if let at = kept[0].lastIndex(of: "@"), at < end || isOurs,
            let colon = kept[0][..<at].firstIndex(of: ":")
        {
            kept[0].removeSubrange(colon..<at)
        }
        if kept.count > 1, isOurs {
            kept[1] = kept[1].split(separator: "&").filter { !$0.lowercased().hasPrefix("password=") }
                .joined(separator: "&")
            if kept[1].isEmpty { kept.removeLast() }
        }
        return text[..<start] + kept.joined(separator: "?")
    }
}
