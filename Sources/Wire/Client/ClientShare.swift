package import Records

/// The members of a share besides its fields, as a client knows them.
///
/// See Wire.md, "Shares".
package struct ClientShare: Hashable, Sendable {
    /// A participant; types, permissions and statuses are strings of the wire format.
    package struct Participant: Hashable, Sendable {
        /// `nil` until the relay has assigned one.
        package var id: String?
        package var type: String
        package var permission: String
        package var acceptanceStatus: String
        package var identity: ClientIdentity
        /// Whether the first user who opens this participant's link becomes the participant.
        package var isOneTimeLink = false
        /// The participant's private link, visible to the owner until it is used.
        package var invitation: String?
        package var hasRequestedAccess = false
        package var added: Timestamp?

        package init(
            id: String? = nil,
            type: String,
            permission: String,
            acceptanceStatus: String,
            identity: ClientIdentity
        ) {
            self.id = id
            self.type = type
            self.permission = permission
            self.acceptanceStatus = acceptanceStatus
            self.identity = identity
        }
    }

    package var publicPermission: String?
    /// All participants, including the owner.
    package var participants: [Participant] = []
    package var owner: Participant?
    package var currentUser: Participant?
    package var shortGUID: String?
    /// The pending access requests, visible to those who can manage the share.
    package var accessRequests = AccessRequests()

    /// The users who request access, and the blocked users.
    package struct AccessRequests: Hashable, Sendable {
        package var isAllowed = false
        package var requesters: [ClientIdentity] = []
        package var blocked: [ClientIdentity] = []

        package init() {}
    }

    package init() {}

    /// Decodes the share from a share record's dictionary.
    package init(_ json: JSONValue) throws(JSONError) {
        publicPermission = try json["publicPermission"]?.string()
        shortGUID = try json["shortGUID"]?.string()
        for entry in try json["participants"]?.elements() ?? [] { participants.append(try Participant(entry)) }
        if let owner = json["owner"] { self.owner = try Participant(owner) }
        if let current = json["currentUserParticipant"] { currentUser = try Participant(current) }
        if let requests = json["accessRequests"] { accessRequests = try AccessRequests(requests) }
    }

    /// Decodes what `json` encoded.
    package init?(json: [UInt8]) {
        guard let document = try? JSONDocument(parsing: json, limits: .response),
            let share = try? ClientShare(document.root)
        else { return nil }
        self = share
    }

    /// The wire format, for local storage.
    package var json: [UInt8] {
        ClientRequest.body { object in
            if let publicPermission { object.member("publicPermission", publicPermission) }
            if let shortGUID { object.member("shortGUID", shortGUID) }
            object.key("participants")
            object.array(participants) { $1.write(to: &$0) }
            if let owner {
                object.key("owner")
                owner.write(to: &object)
            }
            if let currentUser {
                object.key("currentUserParticipant")
                currentUser.write(to: &object)
            }
            if accessRequests != AccessRequests() {
                object.key("accessRequests")
                accessRequests.write(to: &object)
            }
        }
    }
}

extension ClientShare.AccessRequests {
    init(_ json: JSONValue) throws(JSONError) {
        isAllowed = try json["allowed"]?.bool() ?? false
        for entry in try json["requesters"]?.elements() ?? [] { requesters.append(try ClientIdentity(entry)) }
        for entry in try json["blocked"]?.elements() ?? [] { blocked.append(try ClientIdentity(entry)) }
    }

    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.member("allowed", isAllowed)
            object.key("requesters")
            object.array(requesters) { $1.write(to: &$0) }
            object.key("blocked")
            object.array(blocked) { $1.write(to: &$0) }
        }
    }
}

extension ClientShare.Participant {
    package init(_ json: JSONValue) throws(JSONError) {
        id = try json["participantId"]?.string()
        type = try json["type"]?.string() ?? "UNKNOWN"
        permission = try json["permission"]?.string() ?? "UNKNOWN"
        acceptanceStatus = try json["acceptanceStatus"]?.string() ?? "UNKNOWN"
        identity = if let user = json["userIdentity"] { try ClientIdentity(user) } else { ClientIdentity() }
        isOneTimeLink = try json["oneTimeLink"]?.bool() ?? false
        invitation = try json["invitationURL"]?.string()
        hasRequestedAccess = try json["isApprovedRequester"]?.bool() ?? false
        added = try json["dateAdded"].map { json throws(JSONError) in Timestamp(milliseconds: try json.int64()) }
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            if let id { object.member("participantId", id) }
            object.member("type", type)
            object.member("permission", permission)
            object.member("acceptanceStatus", acceptanceStatus)
            object.key("userIdentity")
            identity.write(to: &object)
            if isOneTimeLink { object.member("oneTimeLink", true) }
            if let invitation { object.member("invitationURL", invitation) }
            if hasRequestedAccess { object.member("isApprovedRequester", true) }
            if let added { object.member("dateAdded", added.milliseconds) }
        }
    }
}

/// A user's identity as far as the relay discloses it, with the address used for the lookup.
///
/// See Wire.md, "Users".
package struct ClientIdentity: Hashable, Sendable {
    /// The address or name used to look up a user.
    package struct Lookup: Hashable, Sendable {
        package var emailAddress: String?
        package var phoneNumber: String?
        package var userRecordName: String?

        package init(emailAddress: String? = nil, phoneNumber: String? = nil, userRecordName: String? = nil) {
            self.emailAddress = emailAddress
            self.phoneNumber = phoneNumber
            self.userRecordName = userRecordName
        }
    }

    /// The components of a name, by their keys on the wire.
    package enum NamePart: String, Hashable, Sendable, CaseIterable {
        case namePrefix, givenName, middleName, familyName, nameSuffix, nickname
    }

    package var userRecordName: String?
    package var name: [NamePart: String] = [:]
    package var lookup: Lookup?

    package init(userRecordName: String? = nil, lookup: Lookup? = nil) {
        self.userRecordName = userRecordName
        self.lookup = lookup
    }

    package init(_ json: JSONValue) throws(JSONError) {
        userRecordName = try json["userRecordName"]?.string()
        if let parts = json["nameComponents"] {
            for (key, value) in try parts.members() {
                if let part = NamePart(rawValue: key), !value.isNull { name[part] = try value.string() }
            }
        }
        if let info = json["lookupInfo"] { lookup = try Lookup(info) }
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            if let userRecordName { object.member("userRecordName", userRecordName) }
            if !name.isEmpty {
                object.key("nameComponents")
                object.object { parts in
                    for part in NamePart.allCases {
                        guard let text = name[part] else { continue }
                        parts.key(part.rawValue)
                        parts.string(text)
                    }
                }
            }
            if let lookup {
                object.key("lookupInfo")
                lookup.write(to: &object)
            }
        }
    }
}

extension ClientIdentity.Lookup {
    package init(_ json: JSONValue) throws(JSONError) {
        emailAddress = try json["emailAddress"]?.string()
        phoneNumber = try json["phoneNumber"]?.string()
        userRecordName = try json["userRecordName"]?.string()
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            if let emailAddress { object.member("emailAddress", emailAddress) }
            if let phoneNumber { object.member("phoneNumber", phoneNumber) }
            if let userRecordName { object.member("userRecordName", userRecordName) }
        }
    }
}
