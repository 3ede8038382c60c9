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
            ZoneLoss(word: try former["reason"]?.string())
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
