package import Records

/// Encoders of a client's request bodies.
///
/// See Wire.md, "Operations".
package enum ClientRequest {
    /// An operation of `records/modify`.
    package struct Write: Hashable, Sendable {
        package var type: OperationType
        package var recordName: String
        package var recordType: String?
        package var changeTag: String?
        /// The fields to write; `nil` clears a field.
        package var fields: [String: FieldValue?]
        /// The fields whose empty lists have the type that the relay knows; other values of these fields have their own type.
        package var untypedLists: Set<String> = []
        /// The fields whose values are encrypted.
        package var encrypted: Set<String> = []
        /// `.some(nil)` clears the parent; `nil` leaves it unchanged.
        package var parent: String??
        /// Whether the relay should create a link, because the record will be shared.
        package var createsShortGUID = false
        /// Set if the record is a share.
        package var share: ShareWrite?

        package init(
            _ type: OperationType,
            _ recordName: String,
            recordType: String? = nil,
            changeTag: String? = nil,
            fields: [String: FieldValue?] = [:],
            parent: String?? = nil
        ) {
            self.type = type
            self.recordName = recordName
            self.recordType = recordType
            self.changeTag = changeTag
            self.fields = fields
            self.parent = parent
        }
    }

    /// `records/modify`.
    ///
    /// All records are in `zone`. `operationID` is an idempotency key: a repeated request takes effect once.
    package static func modify(
        _ writes: [Write],
        in zone: ZoneID,
        atomically isAtomic: Bool,
        desiredKeys: [String]? = nil,
        operationID: String? = nil
    ) -> [UInt8] {
        body(reserving: 128 + writes.count * 256) { object in
            zoneID(zone, &object)
            object.member("atomic", isAtomic)
            if let operationID { object.member("operationID", operationID) }
            keys(desiredKeys, &object)
            object.key("operations")
            object.array(writes) { operation($1, to: &$0) }
        }
    }

    /// Writes an element of `operations`.
    package static func operation(_ write: Write, to writer: inout JSONWriter) {
        writer.object { operation in
            operation.member("operationType", write.type.rawValue)
            operation.key("record")
            record(write, &operation)
        }
    }

    private static func record(_ write: Write, _ writer: inout JSONWriter) {
        writer.object { record in
            record.member("recordName", write.recordName)
            if let type = write.recordType { record.member("recordType", type) }
            if let tag = write.changeTag { record.member("recordChangeTag", tag) }
            guard !write.type.isDelete else { return }
            if write.createsShortGUID { record.member("createShortGUID", true) }
            write.share?.write(to: &record)
            if let parent = write.parent {
                record.key("parent")
                if let parent { record.object { $0.member("recordName", parent) } } else { record.null() }
            }
            record.key("fields")
            record.object { fields in
                for (name, value) in write.fields {
                    fields.key(name)
                    let isEncrypted = write.encrypted.contains(name)
                    if case .list(_, let elements)? = value, elements.isEmpty, write.untypedLists.contains(name) {
                        FieldCodec.writeUntypedList(isEncrypted: isEncrypted, to: &fields)
                    } else if let value {
                        FieldCodec.write(value, isEncrypted: isEncrypted, to: &fields)
                    } else {
                        fields.object { entry in
                            entry.key("value")
                            entry.null()
                        }
                    }
                }
            }
        }
    }

    /// `records/lookup`.
    package static func lookup(_ names: [String], in zone: ZoneID, desiredKeys: [String]?) -> [UInt8] {
        body { object in
            zoneID(zone, &object)
            keys(desiredKeys, &object)
            object.key("records")
            object.array(names) { list, name in list.object { $0.member("recordName", name) } }
        }
    }

    /// `changes/database`.
    ///
    /// Without a limit, the relay uses its own.
    package static func databaseChanges(since token: String?, limit: Int?) -> [UInt8] {
        body { object in
            if let token { object.member("syncToken", token) }
            if let limit { object.member("resultsLimit", limit) }
        }
    }

    /// `changes/zone` for one zone.
    package static func zoneChanges(
        in zone: ZoneID,
        since token: String?,
        desiredKeys: [String]?,
        limit: Int?,
        countsRest: Bool = false
    ) -> [UInt8] {
        body { object in
            object.key("zones")
            object.array(CollectionOfOne(zone)) { list, zone in
                list.object { entry in
                    zoneID(zone, &entry)
                    if let token { entry.member("syncToken", token) }
                    if let limit { entry.member("resultsLimit", limit) }
                    if countsRest { entry.member("countRemaining", true) }
                    keys(desiredKeys, &entry)
                }
            }
        }
    }

    /// `zones/lookup`.
    package static func lookup(zones: [ZoneID]) -> [UInt8] {
        body { object in
            object.key("zones")
            object.array(zones) { list, zone in self.zone(zone, &list) }
        }
    }

    /// `zones/modify`: creations first, then deletions, which in the shared database are `leave`, an extension of
    /// CloudKit.
    ///
    /// `loss` is the reason for the deletions; `operationID` is an idempotency key, as for records.
    package static func modify(
        creating: [ZoneID],
        deleting: [ZoneID],
        of scope: DatabaseScope,
        loss: ZoneLoss = .deleted,
        operationID: String? = nil
    ) -> [UInt8] {
        let end = scope == .shared ? "leave" : "delete"
        let operations = creating.map { ("create", $0) } + deleting.map { (end, $0) }
        return body { object in
            if let operationID { object.member("operationID", operationID) }
            object.key("operations")
            object.array(operations) { list, operation in
                list.object {
                    $0.member("operationType", operation.0)
                    if operation.0 == "delete", let word = loss.word { $0.member("reason", word) }
                    $0.key("zone")
                    $0.object { zoneID(operation.1, &$0) }
                }
            }
        }
    }

    /// `records/move`, an extension of CloudKit; creates the destination if it does not exist.
    package static func move(
        _ names: [String],
        from: ZoneID,
        to: ZoneID,
        deletesSource: Bool = false,
        operationID: String
    ) -> [UInt8] {
        body(reserving: 256 + names.count * 64) { object in
            object.member("operationID", operationID)
            zoneID(from, &object)
            object.key("destinationZoneID")
            zone(to, &object)
            object.member("createDestination", true)
            if deletesSource { object.member("deleteSource", true) }
            object.key("records")
            object.array(names) { list, name in list.object { $0.member("recordName", name) } }
        }
    }

    // MARK: Parts

    static func body(reserving capacity: Int = 256, _ content: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(reserving: capacity)
        writer.object(content)
        return writer.bytes
    }

    static func zoneID(_ zone: ZoneID, _ writer: inout JSONWriter) {
        writer.key("zoneID")
        self.zone(zone, &writer)
    }

    /// Omits the owner if it is the caller, whose name only the relay knows for certain.
    private static func zone(_ zone: ZoneID, _ writer: inout JSONWriter) {
        writer.object {
            $0.member("zoneName", zone.zoneName)
            if zone.owner != .caller { $0.member("ownerRecordName", zone.owner.recordName) }
        }
    }

    static func keys(_ desiredKeys: [String]?, _ writer: inout JSONWriter) {
        guard let desiredKeys else { return }
        writer.key("desiredKeys")
        writer.array(desiredKeys) { $0.string($1) }
    }
}
