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
        countsRemaining: Bool = false
    ) -> [UInt8] {
        body { object in
            object.key("zones")
            object.array(CollectionOfOne(zone)) { list, zone in
                list.object { entry in
                    zoneID(zone, &entry)
                    if let token { entry.member("syncToken", token) }
                    if let limit { entry.member("resultsLimit", limit) }
                    if countsRemaining { entry.member("countRemaining", true) }
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
    /// `reason` is the reason for the deletions; `operationID` is an idempotency key, as for records.
    package static func modify(
        creating: [ZoneID],
        deleting: [ZoneID],
        of scope: DatabaseScope,
        reason: ZoneDeletionReason = .deleted,
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
                    if operation.0 == "delete", let word = reason.word { $0.member("reason", word) }
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

/// Decoding of requests that this client has encoded and stored across restarts.
extension ClientRequest {
    /// Decodes an element of `operations` as encoded by `operation`.
    ///
    /// Shares and untyped lists are not decoded. Throws if it is not an operation.
    package static func write(_ operation: JSONValue) throws(JSONError) -> Write {
        let word = try operation.required("operationType")
        guard let type = OperationType(rawValue: try word.string()) else { throw word.mismatch("a type of operation") }
        let record = try operation.required("record")
        var write = Write(
            type,
            try record.required("recordName").string(),
            recordType: try record["recordType"]?.string(),
            changeTag: try record["recordChangeTag"]?.string()
        )
        if let parent = record["parent"] { write.parent = .some(try parent["recordName"]?.string()) }
        guard let fields = record["fields"] else { return write }
        let (values, encrypted) = try ClientResponse.fields(fields)
        for (name, _) in try fields.members() { write.fields.updateValue(values[name], forKey: name) }
        write.encrypted = encrypted
        return write
    }

    /// Decodes all operations of a `records/modify` request, in order.
    package static func writes(_ body: [UInt8]) throws(JSONError) -> [Write] {
        var writes: [Write] = []
        let document = try JSONDocument(parsing: body, limits: .response)
        for operation in try document.root.required("operations").elements() { writes.append(try write(operation)) }
        return writes
    }
}

extension ClientRequest {
    /// `records/query` with a query encoded by `encode(_:)`; without `zone`, it covers all zones of the database.
    package static func query(
        _ query: [UInt8],
        in zone: ZoneID?,
        desiredKeys: [String]?,
        limit: Int?,
        marker: String?
    ) -> [UInt8] {
        body { object in
            if let zone { zoneID(zone, &object) } else { object.member("zoneWide", true) }
            if let limit { object.member("resultsLimit", limit) }
            if let marker { object.member("continuationMarker", marker) }
            keys(desiredKeys, &object)
            object.key("query")
            object.raw(query)
        }
    }

    /// Encodes the `query` object alone, which a cursor keeps because every page's request contains it.
    package static func encode(_ query: Query) -> [UInt8] {
        body { object in
            object.member("recordType", query.recordType)
            if !query.filters.isEmpty {
                object.key("filterBy")
                object.array(query.filters) { write($1, to: &$0) }
            }
            if !query.sorts.isEmpty {
                object.key("sortBy")
                object.array(query.sorts) { write($1, to: &$0) }
            }
        }
    }

    private static func write(_ sort: Query.Sort, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("fieldName", sort.field.name)
            object.member("ascending", sort.isAscending)
            if let place = sort.relativeLocation {
                object.key("relativeLocation")
                FieldCodec.write(.location(place), to: &object)
            }
        }
    }

    private static func write(_ filter: Query.Filter, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("comparator", filter.comparator.rawValue)
            if filter.field != .anySearchable { object.member("fieldName", filter.field.name) }
            object.key("fieldValue")
            let values = filter.values.map { operand($0, of: filter.field) }
            if let first = values.first, !filter.comparator.takesList {
                FieldCodec.write(first, to: &object)
            } else if case .scalar(let element)? = values.first?.type {
                FieldCodec.write(.list(element, values), to: &object)
            } else {
                FieldCodec.write(.list(.string, []), to: &object)
            }
            if let distance = filter.distance {
                object.key("distance")
                object.double(distance)
            }
        }
    }

    /// Returns the filter's value in its wire form: records and users are compared as references.
    private static func operand(_ value: FieldValue, of field: Query.Field) -> FieldValue {
        switch (field, value) {
        case (.system(.recordName), .string(let name)), (.system(.createdBy), .string(let name)),
            (.system(.modifiedBy), .string(let name)):
            .reference(Reference(recordName: name))
        default: value
        }
    }
}

extension ClientRequest {
    /// The members of a share record besides its fields.
    ///
    /// See Wire.md, "Saving records".
    package struct ShareWrite: Hashable, Sendable {
        /// The root record, with its change tag unless it is saved in the same request.
        ///
        /// `nil` for a zone-wide share, and for an existing share.
        package var root: (name: String, changeTag: String?)?
        package var publicPermission: String?
        /// All participants, new ones without an ID; `nil` leaves them unchanged.
        package var participants: [ClientShare.Participant]?
        /// Changes to access requests; `nil` for none.
        package var accessRequests: AccessRequestsWrite?

        package init() {}

        package static func == (a: ShareWrite, b: ShareWrite) -> Bool {
            a.root?.name == b.root?.name && a.root?.changeTag == b.root?.changeTag
                && a.publicPermission == b.publicPermission && a.participants == b.participants
                && a.accessRequests == b.accessRequests
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(root?.name)
            hasher.combine(root?.changeTag)
            hasher.combine(publicPermission)
            hasher.combine(participants)
            hasher.combine(accessRequests)
        }

        func write(to record: inout JSONWriter) {
            if let root {
                record.key("forRecord")
                record.object { object in
                    object.member("recordName", root.name)
                    if let tag = root.changeTag { object.member("recordChangeTag", tag) }
                }
            }
            if let publicPermission { record.member("publicPermission", publicPermission) }
            if let participants {
                record.key("participants")
                record.array(participants) { $1.write(to: &$0) }
            }
            if let accessRequests {
                record.key("accessRequests")
                accessRequests.write(to: &record)
            }
        }
    }

    /// Changes to a share's access requests; the lists contain user record names.
    package struct AccessRequestsWrite: Hashable, Sendable {
        package var isAllowed: Bool?
        package var denied: [String] = []
        package var blocked: [String] = []
        package var unblocked: [String] = []

        package init() {}

        func write(to record: inout JSONWriter) {
            record.object { object in
                if let isAllowed { object.member("allowed", isAllowed) }
                object.key("deny")
                object.array(denied) { $0.string($1) }
                object.key("block")
                object.array(blocked) { $0.string($1) }
                object.key("unblock")
                object.array(unblocked) { $0.string($1) }
            }
        }
    }

    /// `records/resolve` and `records/accept`.
    ///
    /// See Wire.md, "Accepting shares".
    package static func shares(
        _ shortGUIDs: [String],
        fetchingRoots: Bool = false,
        rootKeys: [String]? = nil
    ) -> [UInt8] {
        body { object in
            object.key("shortGUIDs")
            object.array(shortGUIDs) { list, value in
                list.object { entry in
                    entry.member("value", value)
                    guard fetchingRoots else { return }
                    entry.member("shouldFetchRootRecord", true)
                    guard let rootKeys else { return }
                    entry.key("rootRecordDesiredKeys")
                    entry.array(rootKeys) { $0.string($1) }
                }
            }
        }
    }

    /// `users/discover`.
    ///
    /// See Wire.md, "User operations".
    package static func discover(_ lookups: [ClientIdentity.Lookup]) -> [UInt8] {
        body { object in
            object.key("lookupInfos")
            object.array(lookups) { $1.write(to: &$0) }
        }
    }
}

extension ClientRequest {
    /// `subscriptions/lookup`.
    package static func lookup(subscriptions ids: [String]) -> [UInt8] {
        body { object in
            object.key("subscriptions")
            object.array(ids) { list, id in list.object { $0.member("subscriptionID", id) } }
        }
    }

    /// `subscriptions/modify`: creations first, then deletions.
    package static func modify(creating: [Subscription], deleting: [String]) -> [UInt8] {
        body { object in
            object.key("operations")
            object.open(UInt8(ascii: "["))
            for subscription in creating {
                operation("create", &object) { write(subscription, to: &$0) }
            }
            for id in deleting {
                operation("delete", &object) { $0.object { $0.member("subscriptionID", id) } }
            }
            object.close(UInt8(ascii: "]"))
        }
    }

    private static func operation(
        _ type: String,
        _ writer: inout JSONWriter,
        _ subscription: (inout JSONWriter) -> Void
    ) {
        writer.object {
            $0.member("operationType", type)
            $0.key("subscription")
            subscription(&$0)
        }
    }

    private static func write(_ subscription: Subscription, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("subscriptionID", subscription.id)
            switch subscription.kind {
            case .database: object.member("subscriptionType", "database")
            case .zone(let zone):
                object.member("subscriptionType", "zone")
                if let zone { zoneID(zone, &object) }
            case .query(let query): write(query, to: &object)
            }
            if let type = subscription.recordType { object.member("recordType", type) }
            if let info = subscription.notificationInfo {
                object.key("notificationInfo")
                object.raw(info)
            }
        }
    }

    private static func write(_ query: SubscribedQuery, to object: inout JSONWriter) {
        object.member("subscriptionType", "query")
        object.member("zoneWide", query.zone == nil)
        if let zone = query.zone { zoneID(zone, &object) }
        object.key("query")
        object.raw(query.json)
        object.key("firesOn")
        object.array(RecordEvents.words.filter { query.firesOn.contains($0.event) }) { $0.string($1.word) }
        object.member("firesOnce", query.firesOnce)
    }
}

extension ClientRequest {
    /// `assets/upload`: requests upload URLs, each for a field of a record.
    ///
    /// See Wire.md, "Asset operations".
    package static func uploads(
        _ fields: [UploadField],
        in zone: ZoneID
    ) -> [UInt8] {
        body { object in
            zoneID(zone, &object)
            object.key("tokens")
            object.array(fields) { list, field in
                list.object {
                    $0.member("recordName", field.recordName)
                    $0.member("recordType", field.recordType)
                    $0.member("fieldName", field.fieldName)
                    $0.member("fileChecksum", field.asset.fileChecksum)
                    $0.member("size", field.asset.size)
                }
            }
        }
    }

    /// A field whose asset will be uploaded.
    package struct UploadField: Sendable {
        package var recordName: String
        package var recordType: String
        package var fieldName: String
        /// The asset's checksum and size: a relay that already has it needs no upload.
        package var asset: Asset

        package init(recordName: String, recordType: String, fieldName: String, asset: Asset) {
            self.recordName = recordName
            self.recordType = recordType
            self.fieldName = fieldName
            self.asset = asset
        }
    }

    /// `assets/rereference` for one field's asset.
    package static func rereference(_ recordName: String, _ fieldName: String, in zone: ZoneID) -> [UInt8] {
        body { object in
            zoneID(zone, &object)
            object.key("assets")
            object.array(CollectionOfOne(recordName)) { list, name in
                list.object {
                    $0.member("recordName", name)
                    $0.member("fieldName", fieldName)
                }
            }
        }
    }
}

extension ClientResponse {
    /// Decodes the relay's response to an upload.
    package static func uploadedAsset(_ json: JSONValue) throws(JSONError) -> Asset {
        var asset = Asset(
            fileChecksum: try json.required("fileChecksum").string(),
            size: try json.required("size").int64()
        )
        asset.receipt = try json["receipt"]?.string()
        asset.referenceChecksum = try json["referenceChecksum"]?.string()
        asset.wrappingKey = try json["wrappingKey"]?.string()
        return asset
    }
}

extension ClientRequest {
    /// `users/signin` with an account of the relay.
    package static func signIn(emailAddress: String, password: String) -> [UInt8] {
        body { object in
            object.member("emailAddress", emailAddress)
            object.member("password", password)
            object.member("keepSignedIn", true)
        }
    }

    /// `users/signin` with an identity token of a trusted foreign issuer.
    package static func signIn(identityToken: String) -> [UInt8] {
        body { object in
            object.member("identityToken", identityToken)
            object.member("keepSignedIn", true)
        }
    }
}
