package import Records

/// A client's changes to a share, sent beside the fields of a share record.
///
/// Omitted members stay unchanged. See Wire.md, "Shares".
package struct ShareInput: Sendable {
    /// The root record of a hierarchy, with the change tag that the client has.
    package var root: (name: String, changeTag: String?)?
    /// The root record's zone, if the client names it.
    package var rootZone: ZoneID?
    package var publicPermission: Share.Permission?
    /// All participants, including the owner; omitted ones are removed.
    package var participants: [ParticipantInput]?
    package var accessRequests: AccessRequestsInput?

    /// Creates an input without changes.
    package init() {}

    package init(_ json: JSONValue) throws(JSONError) {
        if let record = json["forRecord"] {
            root = (try record.required("recordName").string(), try record["recordChangeTag"]?.string())
            rootZone = try record["zoneID"].map(ZoneIDCodec.read)
        }
        publicPermission = try json["publicPermission"].map(Self.publicPermission)
        accessRequests = try json["accessRequests"].map { json throws(JSONError) in try AccessRequestsInput(json) }
        guard let list = json["participants"] else { return }
        var participants: [ParticipantInput] = []
        for element in try list.elements() { participants.append(try ParticipantInput(element)) }
        self.participants = participants
    }

    /// `UNKNOWN` is valid in responses only, since the public permission must not be guessed.
    private static func publicPermission(_ json: JSONValue) throws(JSONError) -> Share.Permission {
        guard let permission = try ParticipantInput.permission(json) else {
            throw json.mismatch("NONE, READ_ONLY or READ_WRITE")
        }
        return permission
    }
}

/// Changes to access requests; an extension of Apple's wire format.
package struct AccessRequestsInput: Sendable {
    package var isAllowed: Bool?
    /// User record names, also in the other two lists.
    package var denied: [String]
    package var blocked: [String]
    package var unblocked: [String]

    package init(_ json: JSONValue) throws(JSONError) {
        isAllowed = try json["allowed"]?.bool()
        denied = try json["deny"].map(stringArray) ?? []
        blocked = try json["block"].map(stringArray) ?? []
        unblocked = try json["unblock"].map(stringArray) ?? []
    }
}

/// A participant in a client's request.
package struct ParticipantInput: Sendable {
    package var id: String?
    package var role: Share.Role?
    package var permission: Share.Permission?
    /// Whether the participant is to be removed.
    package var isRemoved: Bool
    /// Whether the first user who opens this participant's link becomes the participant; an extension of Apple's wire
    /// format.
    package var isOneTimeLink: Bool
    package var emailAddress: String?
    package var phoneNumber: String?
    package var userRecordName: String?

    package init(_ json: JSONValue) throws(JSONError) {
        id = try json["participantId"]?.string()
        permission = try json["permission"].flatMap(Self.permission)
        role = nil
        if let type = json["type"], try type.string() != "UNKNOWN" {
            guard let role = Share.Role(word: try type.string()) else {
                throw type.mismatch("OWNER, ADMINISTRATOR, USER or PUBLIC_USER")
            }
            self.role = role
        }
        isOneTimeLink = try json["oneTimeLink"]?.bool() ?? false
        isRemoved = try json["acceptanceStatus"]?.string() == "REMOVED"
        let identity = json["userIdentity"]
        let lookup = identity?["lookupInfo"]
        emailAddress = try lookup?["emailAddress"]?.string()
        phoneNumber = try lookup?["phoneNumber"]?.string()
        userRecordName = try (lookup?["userRecordName"] ?? identity?["userRecordName"])?.string()
    }

    /// Returns `nil` for `UNKNOWN`.
    static func permission(_ json: JSONValue) throws(JSONError) -> Share.Permission? {
        let word = try json.string()
        guard word != "UNKNOWN" else { return nil }
        guard let permission = Share.Permission(word: word) else {
            throw json.mismatch("NONE, READ_ONLY or READ_WRITE")
        }
        return permission
    }
}
