import Foundation
package import Records

/// A person who operates the relay and signs in to its console; not a user of any container.
package struct Operator: Hashable, Sendable {
    package var id: Int64
    /// The sign-in name: an e-mail address or any other name.
    package var name: String
    /// The user to whom changes in public databases are attributed.
    package var user: UserID
    package var created: Timestamp

    package init(id: Int64, name: String, user: UserID, created: Timestamp) {
        self.id = id
        self.name = name
        self.user = user
        self.created = created
    }

    /// Returns a name as it is stored and compared: trimmed, lower-case and NFC-normalized; `nil` if it is invalid.
    ///
    /// A name has 1 to 128 bytes and no control characters.
    package static func canonicalName(_ text: String) -> String? {
        guard let name = PersonName.part(text)?.lowercased(), !name.isEmpty else { return nil }
        return name.precomposedStringWithCanonicalMapping
    }
}

/// One-time sign-in codes for the console: `K7Q2-9M4D-XW3P`, 60 random bits in an unambiguous alphabet.
package enum OperatorLink {
    /// How long a code is valid.
    package static let lifetime = Duration.seconds(15 * 60)

    private static let alphabet = Array("23456789ABCDEFGHJKLMNPQRSTVWXYZ0".utf8)

    /// Encodes 12 random bytes as a code.
    package static func code(_ bytes: [UInt8]) -> String {
        let letters = bytes.map { alphabet[Int($0 & 31)] }
        return stride(from: 0, to: letters.count, by: 4)
            .map { String(decoding: letters[$0..<min($0 + 4, letters.count)], as: UTF8.self) }
            .joined(separator: "-")
    }

    /// Returns a code in its canonical form, whatever separators a person typed.
    package static func canonical(_ text: String) -> String {
        let letters = text.uppercased().utf8.filter { $0.isASCIIAlphanumeric }.prefix(12)
        return stride(from: 0, to: letters.count, by: 4)
            .map { String(decoding: Array(letters)[$0..<min($0 + 4, letters.count)], as: UTF8.self) }
            .joined(separator: "-")
    }
}

/// The lifetime of console sessions.
package struct OperatorSessionRules: Hashable, Sendable {
    /// Maximum time since the last use.
    package var idle = Duration.seconds(2 * 3600)
    /// Maximum time since the sign-in.
    package var longest = Duration.seconds(12 * 3600)

    package init() {}

    /// Returns whether a session is still valid.
    package func isGood(created: Timestamp, used: Timestamp, at now: Timestamp) -> Bool {
        now < used + idle && now < created + longest
    }
}

/// An administrative action, as recorded in the audit log.
package struct AuditEntry: Hashable, Sendable {
    /// Increases with each entry; 0 before the entry is stored.
    package var number: Int64 = 0
    package var at: Timestamp
    /// The operator's name.
    package var actor: String
    /// A noun and a verb, such as `zone.delete` or `schema.promote`.
    package var action: String
    package var home: ContainerEnvironment?
    /// The object of the action.
    package var subject: String
    /// Further details; never record contents or secrets.
    package var detail: String

    package init(
        at: Timestamp,
        actor: String,
        action: String,
        home: ContainerEnvironment? = nil,
        subject: String = "",
        detail: String = ""
    ) {
        self.at = at
        self.actor = actor
        self.action = action
        self.home = home
        self.subject = subject
        self.detail = detail
    }
}
