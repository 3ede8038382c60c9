import Foundation
package import Records

/// Somebody who runs the relay and signs in to its console: no user of any container.
package struct Operator: Hashable, Sendable {
    package var id: Int64
    /// What they sign in with: an e-mail address or any other name.
    package var name: String
    /// Whom a public database says their changes are by.
    package var user: UserID
    package var created: Timestamp

    package init(id: Int64, name: String, user: UserID, created: Timestamp) {
        self.id = id
        self.name = name
        self.user = user
        self.created = created
    }

    /// A name as it is kept and compared: trimmed, lower-case, each letter in its one composed form, 1 to 128 bytes without
    /// control characters; `nil` if it cannot be one.
    package static func canonicalName(_ text: String) -> String? {
        guard let name = PersonName.part(text)?.lowercased(), !name.isEmpty else { return nil }
        return name.precomposedStringWithCanonicalMapping
    }
}

/// One-time links to the console: `K7Q2-9M4D-XW3P`, 60 random bits in letters that nobody mixes up.
package enum OperatorLink {
    /// How long one can be used.
    package static let lifetime = Duration.seconds(15 * 60)

    private static let alphabet = Array("23456789ABCDEFGHJKLMNPQRSTVWXYZ0".utf8)

    /// Of 12 random bytes.
    package static func code(_ bytes: [UInt8]) -> String {
        let letters = bytes.map { alphabet[Int($0 & 31)] }
        return stride(from: 0, to: letters.count, by: 4)
            .map { String(decoding: letters[$0..<min($0 + 4, letters.count)], as: UTF8.self) }
            .joined(separator: "-")
    }

    /// As it was made, whatever a person typed between the letters.
    package static func canonical(_ text: String) -> String {
        let letters = text.uppercased().utf8.filter { $0.isASCIIAlphanumeric }.prefix(12)
        return stride(from: 0, to: letters.count, by: 4)
            .map { String(decoding: Array(letters)[$0..<min($0 + 4, letters.count)], as: UTF8.self) }
            .joined(separator: "-")
    }
}

/// How long somebody stays signed in to the console.
package struct OperatorSessionRules: Hashable, Sendable {
    /// After the last use.
    package var idle = Duration.seconds(2 * 3600)
    /// After the sign-in, used or not.
    package var longest = Duration.seconds(12 * 3600)

    package init() {}

    /// Whether a session of then is still good.
    package func isGood(created: Timestamp, used: Timestamp, at now: Timestamp) -> Bool {
        now < used + idle && now < created + longest
    }
}

/// Something that was done to the relay by whoever runs it.
package struct AuditEntry: Hashable, Sendable {
    /// Grows; 0 before it is written.
    package var number: Int64 = 0
    package var at: Timestamp
    /// An operator's name.
    package var actor: String
    /// `zone.delete`, `schema.promote`: noun and verb.
    package var action: String
    package var home: ContainerEnvironment?
    /// What it was done to.
    package var subject: String
    /// What else there is to know; never the contents of a record, and no secret.
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
