package import Records

/// Decoders of the relay's responses.
///
/// See Wire.md, "Operations", and Errors.md, "Error dictionary".
package enum ClientResponse {
    /// The failure of a request or of one of its items.
    package struct Failure: Hashable, Sendable {
        package var error: RelayError
        /// The request's ID in the relay's log.
        package var uuid: String?
        /// In a conflict: the relay's current record.
        package var serverRecord: Record?
        /// In a conflict of a share: the share's participants and permissions.
        package var serverShare: ClientShare?

        package init(error: RelayError, uuid: String? = nil, serverRecord: Record? = nil) {
            self.error = error
            self.uuid = uuid
            self.serverRecord = serverRecord
        }
    }

    /// Decodes a failed item or a failed request; returns `nil` if `json` is neither.
    ///
    /// `zone` is the zone of a conflict's record.
    package static func failure(_ json: JSONValue, zone: ZoneID?) throws(JSONError) -> Failure? {
        guard let word = try json["serverErrorCode"]?.string() else { return nil }
        var error = RelayError(ErrorCode(rawValue: word) ?? .internalError, try json["reason"]?.string() ?? word)
        error.fineCode = try (json["ckErrorCode"]?.string()).flatMap { FineErrorCode(rawValue: $0) }
        error.retryAfter = seconds(json["retryAfter"])
        error.redirectURL = try json["redirectURL"]?.string()
        error.formerZone = try json["formerZone"].map { (former) throws(JSONError) in
            ZoneDeletionReason(word: try former["reason"]?.string())
        }
        var failure = Failure(error: error, uuid: try json["uuid"]?.string())
        if let server = json["serverRecord"] {
            let record = try record(server, zone: zone)
            failure.serverRecord = record
            if record.type == shareType { failure.serverShare = try ClientShare(server) }
        }
        return failure
    }

    /// Some relays send the seconds as a string.
    private static func seconds(_ json: JSONValue?) -> Duration? {
        guard let json else { return nil }
        let number = (try? json.double()) ?? (try? json.string()).flatMap { Double($0) }
        return number.flatMap { Duration(waitOf: $0) }
    }

    /// An entry of a `records` array.
    package enum RecordEntry: Sendable {
        case record(Record)
        /// A share with its participants and permissions.
        case share(Record, ClientShare)
        case deleted(name: String, type: String?, zone: ZoneID?)
        case failed(name: String?, Failure)
    }

    /// Decodes a `records` array one entry at a time.
    ///
    /// `zone` is the zone of all records; if `nil`, each entry names its own.
    package static func records(
        _ json: JSONValue,
        zone: ZoneID?,
        _ body: (RecordEntry) -> Void
    ) throws(JSONError) {
        try visitRecords(json, zone: zone) { entry, _ in body(entry) }
    }

    /// Decodes a `records` array, passing each entry with its JSON.
    package static func visitRecords(
        _ json: JSONValue,
        zone: ZoneID?,
        _ body: (RecordEntry, JSONValue) -> Void
    ) throws(JSONError) {
        guard let list = json["records"] else { return }
        for entry in try list.elements() {
            if let failure = try failure(entry, zone: zone) {
                body(.failed(name: try entry["recordName"]?.string(), failure), entry)
            } else if try entry["deleted"]?.bool() == true {
                let home = if let zone { zone } else { try self.zone(of: entry) }
                let name = try entry.required("recordName").string()
                body(.deleted(name: name, type: try entry["recordType"]?.string(), zone: home), entry)
            } else {
                let record = try record(entry, zone: zone)
                body(record.type == shareType ? .share(record, try ClientShare(entry)) : .record(record), entry)
            }
        }
    }

    /// The record type of shares.
    package static let shareType = "cloudkit.share"

    /// Returns the zone that an entry names.
    package static func zone(of json: JSONValue) throws(JSONError) -> ZoneID? {
        guard let zone = json["zoneID"] else { return nil }
        return try ZoneIDCodec.read(zone)
    }

    /// Decodes a live record.
    package static func record(_ json: JSONValue, zone: ZoneID?) throws(JSONError) -> Record {
        let named = if let zone { zone } else { try self.zone(of: json) }
        let home = named ?? ZoneID(ZoneID.defaultName)
        var record = Record(
            id: RecordID(try json.required("recordName").string(), in: home),
            type: try json.required("recordType").string(),
            changeTag: try json["recordChangeTag"]?.string()
        )
        record.created = try stamp(json["created"])
        record.modified = try stamp(json["modified"])
        record.parent = try json["parent"]?.required("recordName").string()
        record.share = try json["share"]?.required("recordName").string()
        if let fields = json["fields"] { (record.fields, record.encryptedFields) = try self.fields(fields) }
        return record
    }

    /// Decodes a `fields` object; fields of unknown types are left out.
    package static func fields(_ json: JSONValue) throws(JSONError) -> ([String: FieldValue], encrypted: Set<String>) {
        let members = try json.members()
        var values = [String: FieldValue](minimumCapacity: members.count)
        var encrypted: Set<String> = []
        for (name, field) in members {
            guard let value = field["value"] else { continue }
            let tag = try (field["type"]?.string()).flatMap { FieldType(tag: $0) }
            guard let type = tag ?? FieldCodec.inferredType(of: value) else { continue }
            guard let read = try? FieldCodec.read(value, as: type) else {
                throw value.mismatch("a value of type \(type.tag)")
            }
            values[name] =
                FieldCodec.isRefined(type)
                ? FieldCodec.refine(read, by: field[FieldCodec.exactSeconds]) : read
            if try field["isEncrypted"]?.bool() == true { encrypted.insert(name) }
        }
        return (values, encrypted)
    }

    private static func stamp(_ json: JSONValue?) throws(JSONError) -> Record.Stamp? {
        guard let json else { return nil }
        return Record.Stamp(
            at: Timestamp(milliseconds: try json.required("timestamp").int64()),
            by: UserID(try json.required("userRecordName").string()),
            deviceID: try json["deviceID"]?.string() ?? ""
        )
    }
}

extension ClientResponse {
    /// A zone in a response.
    ///
    /// See Wire.md, "Zones".
    package struct Zone: Hashable, Sendable {
        package var id: ZoneID
        /// `nil` for zones without a change feed.
        package var syncToken: String?
        package var isAtomic: Bool
        package var isEligibleForZoneShare: Bool
        package var isEligibleForHierarchicalShare: Bool
        /// The record name of the zone-wide share, if there is one and the relay reports it.
        package var share: String?

        package init(
            id: ZoneID,
            syncToken: String? = nil,
            isAtomic: Bool = true,
            isEligibleForZoneShare: Bool = true,
            isEligibleForHierarchicalShare: Bool = true,
            share: String? = nil
        ) {
            self.id = id
            self.syncToken = syncToken
            self.isAtomic = isAtomic
            self.isEligibleForZoneShare = isEligibleForZoneShare
            self.isEligibleForHierarchicalShare = isEligibleForHierarchicalShare
            self.share = share
        }
    }

    /// An entry of a `zones` array.
    package enum ZoneEntry: Hashable, Sendable {
        case zone(Zone)
        case deleted(ZoneID, ZoneDeletionReason)
        case failed(ZoneID?, Failure)
    }

    /// Decodes the `zones` array of a response.
    package static func zones(_ json: JSONValue) throws(JSONError) -> [ZoneEntry] {
        guard let list = json["zones"] else { return [] }
        var result: [ZoneEntry] = []
        for entry in try list.elements() {
            let id = try zone(of: entry)
            if let failure = try failure(entry, zone: id) {
                result.append(.failed(id, failure))
            } else if try entry["deleted"]?.bool() == true {
                let reason = ZoneDeletionReason(word: try entry["reason"]?.string())
                result.append(.deleted(try ZoneIDCodec.read(entry.required("zoneID")), reason))
            } else {
                result.append(.zone(try zone(entry)))
            }
        }
        return result
    }

    private static func zone(_ json: JSONValue) throws(JSONError) -> Zone {
        Zone(
            id: try ZoneIDCodec.read(json.required("zoneID")),
            syncToken: try json["syncToken"]?.string(),
            isAtomic: try json["atomic"]?.bool() ?? false,
            isEligibleForZoneShare: try json["isEligibleForZoneShare"]?.bool() ?? false,
            isEligibleForHierarchicalShare: try json["isEligibleForHierarchicalShare"]?.bool() ?? false,
            share: try json["share"]?["recordName"]?.string()
        )
    }

    /// The position and continuation of a page of a change feed.
    ///
    /// See Wire.md, "Change feeds".
    package struct PageEnd: Hashable, Sendable {
        package var syncToken: String
        package var moreComing: Bool
        /// The number of remaining records, if requested and known.
        package var remaining: Int?
    }

    package static func pageEnd(_ json: JSONValue) throws(JSONError) -> PageEnd {
        PageEnd(
            syncToken: try json.required("syncToken").string(),
            moreComing: try json["moreComing"]?.bool() ?? false,
            remaining: try (json["remaining"]?.int64()).map { Int($0) }
        )
    }

    /// An entry of a `subscriptions` array.
    ///
    /// See Wire.md, "Subscriptions".
    package enum SubscriptionEntry: Hashable, Sendable {
        case subscription(Subscription)
        case deleted(String)
        case failed(String?, Failure)
    }

    /// Decodes the `subscriptions` array; unknown kinds are left out.
    package static func subscriptions(_ json: JSONValue) throws(JSONError) -> [SubscriptionEntry] {
        guard let list = json["subscriptions"] else { return [] }
        var result: [SubscriptionEntry] = []
        for entry in try list.elements() {
            if let failure = try failure(entry, zone: nil) {
                result.append(.failed(try entry["subscriptionID"]?.string(), failure))
                continue
            }
            let id = try entry.required("subscriptionID").string()
            let info = entry["notificationInfo"].map { Array($0.rawBytes) }
            let kind: Subscription.Kind
            switch try entry["subscriptionType"]?.string() {
            case nil:
                result.append(.deleted(id))
                continue
            case "database": kind = .database
            case "zone": kind = .zone(try zone(of: entry))
            case "query": kind = .query(try query(entry))
            default: continue
            }
            let type = try entry["recordType"]?.string()
            let found = Subscription(id: id, kind: kind, recordType: type, notificationInfo: info)
            result.append(.subscription(found))
        }
        return result
    }

    private static func query(_ entry: JSONValue) throws(JSONError) -> SubscribedQuery {
        let query = try entry.required("query")
        var events = RecordEvents()
        for word in try entry["firesOn"]?.elements() ?? [] {
            let text = try word.string()
            if let event = RecordEvents.words.first(where: { $0.word == text })?.event { events.insert(event) }
        }
        return SubscribedQuery(
            recordType: try query.required("recordType").string(),
            json: Array(query.rawBytes),
            zone: try zone(of: entry),
            firesOn: events,
            firesOnce: try entry["firesOnce"]?.bool() ?? false
        )
    }
}

extension ClientResponse {
    /// A share in the responses to `records/resolve` and `records/accept`.
    ///
    /// See Wire.md, "Accepting shares".
    package struct ShareMetadata: Sendable {
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

    package enum ShareMetadataEntry: Sendable {
        case found(ShareMetadata)
        case failed(Failure)
    }

    /// Decodes the `results` array, in the order of the request.
    package static func shareMetadataEntries(_ json: JSONValue) throws(JSONError) -> [ShareMetadataEntry] {
        var entries: [ShareMetadataEntry] = []
        for entry in try json["results"]?.elements() ?? [] {
            if let failure = try failure(entry, zone: nil) {
                entries.append(.failed(failure))
            } else {
                entries.append(.found(try shareMetadata(entry)))
            }
        }
        return entries
    }

    private static func shareMetadata(_ json: JSONValue) throws(JSONError) -> ShareMetadata {
        let zone = try ZoneIDCodec.read(json.required("zoneID"))
        var thing = ShareMetadata(
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
