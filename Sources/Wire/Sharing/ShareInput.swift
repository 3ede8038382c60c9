package import Records

/// What a client wants shared, and with whom, as it says it beside the fields of a share record.
///
/// See Wire.md, "Shares". What it leaves out stays as it is.
package struct ShareInput: Sendable {
    /// The root of a hierarchy, with the change tag that the client knows it by.
    package var root: (name: String, changeTag: String?)?
    /// Where the root is said to be, where anything is said.
    package var rootZone: ZoneID?
    package var publicPermission: Share.Permission?
    /// All of them, the owner too; who is missing is to go.
    package var participants: [ParticipantInput]?
    package var accessRequests: AccessRequestsInput?

    /// Says nothing.
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

    /// `UNKNOWN` is for answers alone: what everybody may do is not to be guessed.
    private static func publicPermission(_ json: JSONValue) throws(JSONError) -> Share.Permission {
        guard let permission = try ParticipantInput.permission(json) else {
            throw json.mismatch("NONE, READ_ONLY or READ_WRITE")
        }
        return permission
    }
}

/// What is to become of requests for access; ours, beside Apple's wire.
package struct AccessRequestsInput: Sendable {
    package var isAllowed: Bool?
    /// Record names of users, as for the other two.
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

/// A participant as a client sends one.
package struct ParticipantInput: Sendable {
    package var id: String?
    package var role: Share.Role?
    package var permission: Share.Permission?
    /// Marked as one who is to go.
    package var isRemoved: Bool
    /// Whoever first opens the link made for this participant; ours, beside Apple's wire.
    package var isForAnybody: Bool
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
        isForAnybody = try json["oneTimeLink"]?.bool() ?? false
        isRemoved = try json["acceptanceStatus"]?.string() == "REMOVED"
        let identity = json["userIdentity"]
        let lookup = identity?["lookupInfo"]
        emailAddress = try lookup?["emailAddress"]?.string()
        phoneNumber = try lookup?["phoneNumber"]?.string()
        userRecordName = try (lookup?["userRecordName"] ?? identity?["userRecordName"])?.string()
    }

    /// `nil` for `UNKNOWN`.
    static func permission(_ json: JSONValue) throws(JSONError) -> Share.Permission? {
        let word = try json.string()
        guard word != "UNKNOWN" else { return nil }
        guard let permission = Share.Permission(word: word) else {
            throw json.mismatch("NONE, READ_ONLY or READ_WRITE")
        }
        return permission
    }
}
