package import Records

/// What a client knows of a share beside its fields.
///
/// See Wire.md, "Shares".
package struct ClientShare: Hashable, Sendable {
    /// Somebody a share is for, in the wire's own words.
    package struct Participant: Hashable, Sendable {
        /// `nil` until the relay has given one.
        package var id: String?
        package var type: String
        package var permission: String
        package var acceptanceStatus: String
        package var identity: ClientIdentity
        /// Whoever first opens the link made for this participant.
        package var isForAnybody = false
        /// The participant's own link, as the owner has it until it is used.
        package var invitation: String?
        package var hasAsked = false
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
    /// The owner included.
    package var participants: [Participant] = []
    package var owner: Participant?
    package var currentUser: Participant?
    package var shortGUID: String?
    /// What those who manage the share know of requests.
    package var accessRequests = AccessRequests()

    /// Who asks for access, and who may not.
    package struct AccessRequests: Hashable, Sendable {
        package var isAllowed = false
        package var requesters: [ClientIdentity] = []
        package var blocked: [ClientIdentity] = []

        package init() {}
    }

    package init() {}

    /// The share that a share record's dictionary describes.
    package init(_ json: JSONValue) throws(JSONError) {
        publicPermission = try json["publicPermission"]?.string()
        shortGUID = try json["shortGUID"]?.string()
        for entry in try json["participants"]?.elements() ?? [] { participants.append(try Participant(entry)) }
        if let owner = json["owner"] { self.owner = try Participant(owner) }
        if let current = json["currentUserParticipant"] { currentUser = try Participant(current) }
        if let requests = json["accessRequests"] { accessRequests = try AccessRequests(requests) }
    }

    /// Reads what `json` wrote.
    package init?(json: [UInt8]) {
        guard let document = try? JSONDocument(parsing: json, limits: .response),
            let share = try? ClientShare(document.root)
        else { return nil }
        self = share
    }

    /// For keeping, in the wire's own form.
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
        isForAnybody = try json["oneTimeLink"]?.bool() ?? false
        invitation = try json["invitationURL"]?.string()
        hasAsked = try json["isApprovedRequester"]?.bool() ?? false
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
            if isForAnybody { object.member("oneTimeLink", true) }
            if let invitation { object.member("invitationURL", invitation) }
            if hasAsked { object.member("isApprovedRequester", true) }
            if let added { object.member("dateAdded", added.milliseconds) }
        }
    }
}

/// A user as far as the relay says, and by what they were looked for.
///
/// See Wire.md, "Users".
package struct ClientIdentity: Hashable, Sendable {
    /// By what a user is looked for.
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

    /// A name in parts, by the wire's own keys.
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
