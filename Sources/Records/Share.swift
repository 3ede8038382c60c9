/// What a share record says beside its fields: what is shared, with whom, and who may do what.
///
/// See Wire.md, "Shares". One share is either of a whole custom zone or of a hierarchy: a root record
/// and all that stands below it through `parent`.
package struct Share: Hashable, Sendable {
    /// The record type; some clients write it as Apple's page does.
    package static let recordType = "cloudkit.share"
    package static let misspeltRecordType = "cloudKit.share"
    /// What the share of a whole zone is called.
    package static let zoneWideName = "cloudkit.zoneshare"
    /// Requests that may wait for an answer.
    package static let requesterLimit = 100

    /// What somebody may do with what is shared; the raw values are CloudKit's own numbers.
    package enum Permission: Int, Hashable, Sendable, CaseIterable {
        case none = 1
        case readOnly = 2
        case readWrite = 3

        package var word: String {
            switch self {
            case .none: "NONE"
            case .readOnly: "READ_ONLY"
            case .readWrite: "READ_WRITE"
            }
        }

        package init?(word: String) {
            guard let permission = Self.allCases.first(where: { $0.word == word }) else { return nil }
            self = permission
        }
    }

    /// What somebody is to a share; the raw values are CloudKit's own numbers.
    package enum Role: Int, Hashable, Sendable, CaseIterable {
        case owner = 1
        case administrator = 2
        /// Invited by name.
        case user = 3
        /// Came by a public link.
        case publicUser = 4

        package var word: String {
            switch self {
            case .owner: "OWNER"
            case .administrator: "ADMINISTRATOR"
            case .user: "USER"
            case .publicUser: "PUBLIC_USER"
            }
        }

        package init?(word: String) {
            guard let role = Self.allCases.first(where: { $0.word == word }) else { return nil }
            self = role
        }
    }

    /// The root record's name; `nil`: the whole zone.
    package var root: String?
    /// The secret in the share's link: 128 random bits.
    package var shortGUID: String
    /// What anybody with the link may do; `none`: only those invited come in.
    package var publicPermission: Permission
    /// All but the owner, in the order they came.
    package var participants: [Participant]
    /// Whether somebody with the link who is not invited may ask to be.
    package var allowsAccessRequests = false
    /// Who has asked and waits, in the order they came.
    package var requesters: [UserID] = []
    /// Who may not ask again.
    package var blocked: [UserID] = []

    package init(
        root: String?,
        shortGUID: String,
        publicPermission: Permission = .none,
        participants: [Participant] = []
    ) {
        self.root = root
        self.shortGUID = shortGUID
        self.publicPermission = publicPermission
        self.participants = participants
    }

    /// The participant that is this user; one who has joined before those that are only invited.
    ///
    /// Somebody invited in several ways stands here several times until they join: that they are one person is theirs to tell.
    package func participant(_ user: UserID) -> Participant? {
        participants.first { $0.user == user && $0.hasAccepted } ?? participants.first { $0.user == user }
    }

    /// One of those a share is for, except its owner.
    package struct Participant: Hashable, Sendable {
        /// Never given twice.
        package var id: String
        package var role: Role
        package var permission: Permission
        /// Whether the invitation has been accepted.
        package var hasAccepted: Bool
        /// Who it is; `nil` for somebody invited who has no account yet.
        package var user: UserID?
        /// How the owner named them; `nil` too for whoever first opens a link made for one.
        package var contact: Contact?
        /// Whether they came by asking.
        package var hasAsked = false
        /// When they were added; `nil` in what older relays wrote.
        package var added: Timestamp?

        package init(
            id: String,
            role: Role = .user,
            permission: Permission,
            hasAccepted: Bool = false,
            user: UserID? = nil,
            contact: Contact? = nil
        ) {
            self.id = id
            self.role = role
            self.permission = permission
            self.hasAccepted = hasAccepted
            self.user = user
            self.contact = contact
        }
    }

    /// An address that an invitation went to, in the form in which addresses are compared.
    package enum Contact: Hashable, Sendable {
        case email(String)
        case phone(String)
    }
}

/// A record's place in a share, as it is kept with the record: on the root, and on the share record itself.
package struct ShareMark: Hashable, Sendable {
    package var shortGUID: String
    /// The share record's name; `nil` while there is only a link to be.
    package var record: String?

    package init(shortGUID: String, record: String? = nil) {
        self.shortGUID = shortGUID
        self.record = record
    }

    /// As `text` writes it.
    package init?(_ text: String?) {
        guard let text, let slash = text.firstIndex(of: "/") else { return nil }
        shortGUID = String(text[..<slash])
        let name = text[text.index(after: slash)...]
        record = name.isEmpty ? nil : String(name)
    }

    package var text: String { "\(shortGUID)/\(record ?? "")" }
}
