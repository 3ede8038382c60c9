public import Foundation
import Records
import Wire

/// A shared zone: who may see and change what is in it.
///
/// A value: changes take effect with `persistUpdatedShare`.
public struct MirroredShare: Hashable, Sendable, Identifiable {
    /// What somebody may do.
    public enum Permission: String, Hashable, Sendable, CaseIterable {
        /// Nothing.
        case none = "NONE"
        /// Read.
        case readOnly = "READ_ONLY"
        /// Read and write.
        case readWrite = "READ_WRITE"
    }

    /// Who somebody is to the share.
    public enum Role: String, Hashable, Sendable, CaseIterable {
        /// Whose data it is.
        case owner = "OWNER"
        /// May change the participants too.
        case administrator = "ADMINISTRATOR"
        /// Was invited.
        case privateUser = "USER"
        /// Came by the public link.
        case publicUser = "PUBLIC_USER"
    }

    /// Somebody who takes part, or is invited to.
    public struct Participant: Hashable, Sendable {
        /// Names the participant in this share; `nil` until the share has been saved.
        public internal(set) var id: String?
        /// Who they are to the share.
        public var role = Role.privateUser
        /// What they may do.
        public var permission: Permission
        /// They have joined.
        public internal(set) var hasAccepted = false
        /// Their user record name, where it is to be known.
        public internal(set) var user: String?
        /// The address that the invitation went to.
        public internal(set) var emailAddress: String?
        /// Their name, where it is to be known.
        public internal(set) var displayName: String?
    }

    /// The zone's name.
    public let zoneName: String
    /// The owner's user record name.
    public let ownerName: String
    /// Whether the share is the current user's own.
    public let isOwner: Bool
    /// What the current user may do.
    public let currentUserPermission: Permission
    /// The link to hand out; stable while the share lives.
    public let url: URL?
    /// What people see as its name.
    public var title: String?
    /// What anybody with the link may do.
    public var publicPermission: Permission
    /// All who take part, the owner first.
    public internal(set) var participants: [Participant]
    let changeTag: String?

    /// Names the share among all of this container.
    public var id: String { "\(ownerName)/\(zoneName)" }

    /// Reads a share record of an answer.
    init(_ json: JSONValue, in zone: ZoneID) throws(JSONError) {
        zoneName = zone.zoneName
        changeTag = try json["recordChangeTag"]?.string()
        url = try (json["url"]?.string()).flatMap { URL(string: $0) }
        publicPermission = try Self.permission(json["publicPermission"])
        let current = json["currentUserParticipant"]
        currentUserPermission = try Self.permission(current?["permission"])
        isOwner = try current?["type"]?.string() == Role.owner.rawValue
        var participants: [Participant] = []
        for element in try json["participants"]?.elements() ?? [] { participants.append(try Self.participant(element)) }
        self.participants = participants
        ownerName = participants.first { $0.role == .owner }?.user ?? zone.owner.recordName
        let fields = json["fields"]
        var title: String?
        for (name, field) in try fields?.members() ?? [] where name == "cloudkit.title" {
            title = try field["value"]?.string()
        }
        self.title = title
    }

    private static func permission(_ json: JSONValue?) throws(JSONError) -> Permission {
        try (json?.string()).flatMap { Permission(rawValue: $0) } ?? .none
    }

    private static func participant(_ json: JSONValue) throws(JSONError) -> Participant {
        var participant = Participant(permission: try permission(json["permission"]))
        participant.id = try json["participantId"]?.string()
        participant.role = try (json["type"]?.string()).flatMap { Role(rawValue: $0) } ?? .privateUser
        participant.hasAccepted = try json["acceptanceStatus"]?.string() == "ACCEPTED"
        let identity = json["userIdentity"]
        participant.user = try identity?["userRecordName"]?.string()
        participant.emailAddress = try identity?["lookupInfo"]?["emailAddress"]?.string()
        let given = try identity?["nameComponents"]?["givenName"]?.string()
        let family = try identity?["nameComponents"]?["familyName"]?.string()
        let name = [given, family].compactMap { $0 }.joined(separator: " ")
        participant.displayName = name.isEmpty ? nil : name
        return participant
    }

    // MARK: Changes

    /// Invites somebody by e-mail address; the invitation binds whoever signs in by it.
    ///
    /// Not while there is a public link: the relay refuses that.
    public mutating func addParticipant(emailAddress: String, permission: Permission) {
        var participant = Participant(permission: permission)
        participant.emailAddress = emailAddress
        participants.append(participant)
    }

    /// Invites a user by their record name.
    public mutating func addParticipant(user: String, permission: Permission) {
        var participant = Participant(permission: permission)
        participant.user = user
        participants.append(participant)
    }

    /// Takes somebody out.
    public mutating func removeParticipant(_ participant: Participant) {
        participants.removeAll { $0.role != .owner && $0.id == participant.id && $0.user == participant.user }
    }

    /// Changes what somebody may do.
    public mutating func setPermission(_ permission: Permission, for participant: Participant) {
        for index in participants.indices where participants[index].id == participant.id {
            participants[index].permission = permission
        }
    }

    /// Who would lose their invitation or their access by a change of the public permission.
    public func effectsOfChangingPublicPermission(to permission: Permission) -> [Participant] {
        switch (publicPermission, permission) {
        case (.none, .none): []
        case (.none, _): participants.filter { $0.role == .privateUser && !$0.hasAccepted }
        case (_, .none): participants.filter { $0.role == .publicUser }
        default: []
        }
    }

    // MARK: The wire

    /// The operation that makes or changes the share record.
    ///
    /// Wire reference 4.9.
    func operation(tag: String?) -> [UInt8] {
        var writer = JSONWriter(reserving: 512)
        writer.object { operation in
            operation.member("operationType", tag == nil ? "create" : "update")
            operation.key("record")
            operation.object { record in
                record.member("recordName", Self.recordName)
                record.member("recordType", Share.recordType)
                if let tag { record.member("recordChangeTag", tag) }
                record.member("publicPermission", publicPermission.rawValue)
                record.key("participants")
                record.array(participants.filter { tag != nil || $0.role != .owner }) { Self.write($1, to: &$0) }
                record.key("fields")
                record.object { fields in
                    guard let title else { return }
                    fields.key("cloudkit.title")
                    FieldCodec.write(.string(title), to: &fields)
                }
            }
        }
        return writer.bytes
    }

    /// The record of a share of a whole zone.
    static let recordName = "cloudkit.zoneshare"

    private static func write(_ participant: Participant, to writer: inout JSONWriter) {
        writer.object { writer in
            if let id = participant.id { writer.member("participantId", id) }
            writer.member("type", participant.role.rawValue)
            writer.member("permission", participant.permission.rawValue)
            writer.member("acceptanceStatus", participant.hasAccepted ? "ACCEPTED" : "INVITED")
            writer.key("userIdentity")
            writer.object { identity in
                identity.key("lookupInfo")
                identity.object { lookup in
                    if let address = participant.emailAddress {
                        lookup.member("emailAddress", address)
                    } else if let user = participant.user {
                        lookup.member("userRecordName", user)
                    }
                }
            }
        }
    }

    /// A share that is to be made.
    init(newIn zone: ZoneID, title: String?, publicPermission: Permission) {
        zoneName = zone.zoneName
        ownerName = zone.owner.recordName
        isOwner = true
        currentUserPermission = .readWrite
        url = nil
        self.title = title
        self.publicPermission = publicPermission
        participants = []
        changeTag = nil
    }

    var zone: ZoneID { isOwner ? ZoneID(zoneName) : ZoneID(zoneName, owner: UserID(ownerName)) }

    /// Reads what the store keeps of a zone's share.
    init?(cached: [UInt8], in zone: ZoneID) {
        guard let document = try? JSONDocument(parsing: cached, limits: .response),
            let share = try? MirroredShare(document.root, in: zone)
        else { return nil }
        self = share
    }
}

/// What a link leads to, before one joins.
public struct ShareMetadata: Hashable, Sendable {
    /// The link.
    public let url: URL
    /// The share's title.
    public let title: String?
    /// The owner's name, where the relay tells it.
    public let ownerName: String?
    /// What the current user would be allowed to do.
    public let permission: MirroredShare.Permission
    /// The current user has joined already.
    public let hasAccepted: Bool
}
