package import Records

extension ClientResponse {
    /// A share in the responses to `records/resolve` and `records/accept`.
    ///
    /// See Wire.md, "Accepting shares".
    package struct SharedThing: Sendable {
        package var shortGUID: String
        package var containerIdentifier: String
        /// `private` if the caller is the owner, otherwise `shared`.
        package var scope: DatabaseScope
        package var zone: ZoneID
        package var rootRecordName: String?
        package var rootRecord: Record?
        /// The share record with its participants and permissions; `nil` if the relay omits it.
        package var share: (record: Record, details: ClientShare)?
        package var owner: ClientIdentity
        package var participantType: String
        package var participantStatus: String
        package var participantPermission: String
    }

    package enum SharedThingEntry: Sendable {
        case found(SharedThing)
        case failed(Failure)
    }

    /// Decodes the `results` array, in the order of the request.
    package static func sharedThings(_ json: JSONValue) throws(JSONError) -> [SharedThingEntry] {
        var entries: [SharedThingEntry] = []
        for entry in try json["results"]?.elements() ?? [] {
            if let failure = try failure(entry, zone: nil) {
                entries.append(.failed(failure))
            } else {
                entries.append(.found(try sharedThing(entry)))
            }
        }
        return entries
    }

    private static func sharedThing(_ json: JSONValue) throws(JSONError) -> SharedThing {
        let zone = try ZoneIDCodec.read(json.required("zoneID"))
        var thing = SharedThing(
            shortGUID: try json.required("shortGUID").required("value").string(),
            containerIdentifier: try json["containerIdentifier"]?.string() ?? "",
            scope: try json["databaseScope"]?.string() == "PRIVATE" ? .private : .shared,
            zone: zone,
            rootRecordName: try json["rootRecordName"]?.string(),
            owner: try identity(json["ownerIdentity"]),
            participantType: try json["participantType"]?.string() ?? "UNKNOWN",
            participantStatus: try json["participantStatus"]?.string() ?? "UNKNOWN",
            participantPermission: try json["participantPermission"]?.string() ?? "UNKNOWN"
        )
        if let root = json["rootRecord"] { thing.rootRecord = try record(root, zone: zone) }
        if let share = json["share"] { thing.share = (try record(share, zone: zone), try ClientShare(share)) }
        return thing
    }

    private static func identity(_ json: JSONValue?) throws(JSONError) -> ClientIdentity {
        guard let json else { return ClientIdentity() }
        return try ClientIdentity(json)
    }

    /// Decodes the results of `records/requestaccess`, one per link; `nil` if the access was requested.
    package static func requestFailures(_ json: JSONValue) throws(JSONError) -> [Failure?] {
        var failures: [Failure?] = []
        for entry in try json["results"]?.elements() ?? [] { failures.append(try failure(entry, zone: nil)) }
        return failures
    }

    /// Decodes the `users` array.
    ///
    /// See Wire.md, "User operations".
    package static func users(_ json: JSONValue) throws(JSONError) -> [ClientIdentity] {
        var users: [ClientIdentity] = []
        for entry in try json["users"]?.elements() ?? [] { users.append(try ClientIdentity(entry)) }
        return users
    }
}
