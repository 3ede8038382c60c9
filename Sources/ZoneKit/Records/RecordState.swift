package import Foundation
package import Records
import Wire

/// The source from which a record's assets are downloaded.
package struct AssetSource: Sendable {
    package var assetClient: AssetClient
    package var scope: DatabaseScope

    package init(assetClient: AssetClient, scope: DatabaseScope) {
        self.assetClient = assetClient
        self.scope = scope
    }
}

/// The contents of a `CKRecord`: the record, and its changes since the last save or fetch.
package struct RecordState: Sendable {
    /// The change of one field.
    package struct Edit: Sendable {
        /// The value on the relay when the record was fetched or last saved.
        package var original: FieldValue?
        /// The number of the change in this record; changes made during a save have a higher number and stay unsaved.
        package var number: UInt64
    }

    package var type: String
    package var id: CKRecord.ID
    package var changeTag: String?
    package var created: Record.Stamp?
    package var modified: Record.Stamp?
    package var parent: String?
    package var share: String?
    package var fields: [String: FieldValue] = [:]
    /// The unsaved fields by name; a field without a value in `fields` was cleared.
    package private(set) var edits: [String: Edit] = [:]
    /// The number of changes so far.
    package private(set) var editCount: UInt64 = 0
    package private(set) var parentEdit: UInt64?
    /// Whether the record is the root of a share that has not been saved.
    package private(set) var needsShortGUID = false
    /// Dates with the precision that the app has set; `fields` has a precision of milliseconds.
    private var exactDates: [String: Date] = [:]
    /// Assets that the app has set, by field; fetched assets are only in `fields`.
    package private(set) var assets: [String: [CKAsset]] = [:]
    /// The source of fetched assets.
    package var assetSource: AssetSource?
    /// The encrypted fields; `nil` if there are none.
    var secrets: SecretFields?
    /// Fields that were set to an empty list without an element type.
    ///
    /// `fields` has an arbitrary type for them, which is not sent.
    package private(set) var untypedLists: Set<String> = []
    /// Fields with values that cannot be sent, with the type names of the values.
    ///
    /// Saving such a record fails.
    package private(set) var unsendable: [String: String] = [:]
    /// The whole numbers among these values; the app reads them as it has set them.
    ///
    /// For other types of values, the app reads the previous value.
    private var refusedNumbers: [String: UInt64] = [:]
    /// The zone name of a parent in another zone.
    ///
    /// Saving such a record fails.
    private(set) var foreignParentZone: String?

    package init(type: String, id: CKRecord.ID) {
        self.type = type
        self.id = id
    }

    /// Creates the state of a record that was fetched from the relay.
    package init(_ record: Record, id: CKRecord.ID) {
        type = record.type
        self.id = id
        changeTag = record.changeTag
        created = record.created
        modified = record.modified
        parent = record.parent
        share = record.share
        fields = record.fields
        if !record.encryptedFields.isEmpty { secrets = SecretFields(sealed: takeSealed(record.encryptedFields)) }
    }

    /// Removes the encrypted fields from `fields` and returns them.
    private mutating func takeSealed(_ names: Set<String>) -> [String: FieldValue] {
        var sealed: [String: FieldValue] = [:]
        for name in names { sealed[name] = fields.removeValue(forKey: name) }
        return sealed
    }

    package var parentReference: CKRecord.Reference? {
        parent.map { CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: id.zoneID), action: .none) }
    }

    package func object(for key: String) -> (any CKRecordValueProtocol)? {
        if !refusedNumbers.isEmpty, let number = refusedNumbers[key] { return NSNumber(value: number) }
        if let date = exactDates[key] { return date }
        guard let field = fields[key] else { return nil }
        guard field.type.isAsset else { return field.object(in: id.zoneID) }
        let found = assets[key] ?? fetchedAssets(field, key)
        return field.type == .scalar(.asset) ? found.first : found
    }

    private func fetchedAssets(_ field: FieldValue, _ key: String) -> [CKAsset] {
        let origin = AssetOrigin(scope: assetSource?.scope ?? .private, record: id.record, field: key)
        return field.assets.map { CKAsset($0, origin: origin, assetClient: assetSource?.assetClient) }
    }

    // MARK: Changes

    package mutating func set(_ value: Any?, for key: String) {
        unsendable[key] = nil
        refusedNumbers[key] = nil
        if let value, let reason = FieldValue.unsupportedReason(value) {
            unsendable[key] = reason
            refusedNumbers[key] = (value as? NSNumber)?.uint64Value
            return
        }
        exactDates[key] = value as? Date
        assets[key] = (value as? CKAsset).map { [$0] } ?? value as? [CKAsset]
        guard let value else {
            markUntyped(key, false)
            replace(key, with: nil)
            return
        }
        let emptyType = listType(of: key)
        guard let field = FieldValue(value, in: id.zoneID, elementType: emptyType ?? .string) else {
            unsendable[key] = String(describing: Swift.type(of: value))
            return
        }
        if let reason = field.unsendableReason {
            unsendable[key] = reason
            return
        }
        markUntyped(key, emptyType == nil && FieldValue.isUntypedList(value))
        replace(key, with: field)
    }

    mutating func markUntyped(_ key: String, _ isUntyped: Bool) {
        if isUntyped { untypedLists.insert(key) } else { untypedLists.remove(key) }
    }

    /// Returns the element type of the list in a field, now or on the relay.
    private func listType(of key: String) -> FieldType.Scalar? {
        let here = untypedLists.contains(key) ? nil : fields[key]
        for case .list(let type, _)? in [here, edits[key]?.original] { return type }
        return nil
    }

    /// Sets a value from an archive.
    ///
    /// It counts as the relay's value and is not sent.
    mutating func adopt(_ value: Any, for key: String) {
        set(value, for: key)
        edits[key] = nil
    }

    mutating func countEdit() -> UInt64 {
        editCount += 1
        return editCount
    }

    mutating func markUnsendable(_ key: String, _ type: String?) { unsendable[key] = type }

    private mutating func replace(_ key: String, with value: FieldValue?) {
        editCount += 1
        edits[key] = Edit(original: edits[key].map(\.original) ?? fields[key], number: editCount)
        fields[key] = value
    }

    /// Sets the parent, which must be in the record's zone, or removes it.
    mutating func setParent(to target: CKRecord.ID?) {
        foreignParentZone = target.flatMap { isInOwnZone($0) ? nil : $0.zoneID.zoneName }
        if foreignParentZone == nil { setParent(target?.recordName) }
    }

    /// Returns whether a record is in this record's zone.
    ///
    /// The current user has two names.
    private func isInOwnZone(_ target: CKRecord.ID) -> Bool {
        let owners = [target.zoneID.ownerName, id.zoneID.ownerName]
        return target.zoneID.zoneName == id.zoneID.zoneName
            && (owners[0] == owners[1] || owners.contains(CKCurrentUserDefaultName))
    }

    package mutating func setParent(_ name: String?) {
        editCount += 1
        parentEdit = editCount
        parent = name
    }

    /// Sets a new share of this record, which has to be saved together with the record.
    package mutating func beginSharing(_ share: String) {
        self.share = share
        needsShortGUID = true
    }

    /// Restores the names of the untyped lists from an archive.
    mutating func restoreUntypedLists(_ names: [String]) { untypedLists = Set(names) }

    /// Restores the assets from an archive.
    mutating func restore(_ assets: [CKAsset], for key: String) { self.assets[key] = assets }

    /// Restores the changes from an archive.
    package mutating func restoreEdits(
        _ keys: [String],
        originals: [String: FieldValue]
    ) {
        for key in keys {
            editCount += 1
            edits[key] = Edit(original: originals[key], number: editCount)
        }
    }

    // MARK: Saving

    /// The record without its unsaved changes.
    package var ancestor: RecordState {
        var ancestor = self
        for (key, edit) in edits {
            ancestor.fields[key] = edit.original
            ancestor.assets[key] = nil
        }
        ancestor.edits = [:]
        ancestor.secrets?.edits = [:]
        ancestor.exactDates = [:]
        ancestor.unsendable = [:]
        ancestor.refusedNumbers = [:]
        ancestor.foreignParentZone = nil
        ancestor.untypedLists = []
        return ancestor
    }

    /// Adopts the result of a save: version and dates, and which changes no longer need to be sent.
    ///
    /// `sent` is the `editCount` at the time of the request; later changes stay unsaved. If `isWhole` is `true`,
    /// `record` contains all fields, and fields that it lacks were removed by another device.
    package mutating func saved(as record: Record, sent: UInt64, isWhole: Bool = false) {
        changeTag = record.changeTag
        created = record.created ?? created
        modified = record.modified
        share = record.share
        needsShortGUID = false
        let ours = Set(edits.filter { $0.value.number <= sent }.keys)
        edits = edits.filter { $0.value.number > sent }
        for (key, edit) in edits { edits[key] = Edit(original: record.fields[key], number: edit.number) }
        if secrets != nil || !record.encryptedFields.isEmpty {
            var remaining = secrets ?? SecretFields()
            remaining.edits = remaining.edits.filter { $0.value.number > sent }
            remaining.sealed = record.fields.filter { record.encryptedFields.contains($0.key) }
            secrets = remaining
        }
        untypedLists = untypedLists.filter { edits[$0] != nil || secrets?.edits[$0] != nil }
        if let parentEdit, parentEdit <= sent { self.parentEdit = nil }
        adopt(record, besides: ours)
        if isWhole { removeFields(missingIn: record) }
    }

    /// Adopts the relay's values of fields without unsaved changes.
    ///
    /// `ours` contains the fields that this save has sent.
    private mutating func adopt(_ record: Record, besides ours: Set<String>) {
        for (key, value) in record.fields where edits[key] == nil && !record.encryptedFields.contains(key) {
            let checksums = [value, fields[key]].map { $0?.assets.map(\.fileChecksum) ?? [] }
            // The relay has another file than the one that was set here.
            if checksums[0] != checksums[1], !ours.contains(key) { assets[key] = nil }
            fields[key] = value
            if let exact = exactDates[key], value != .timestamp(Timestamp(exact)) { exactDates[key] = nil }
        }
    }

    private mutating func removeFields(missingIn record: Record) {
        for key in fields.keys where record.fields[key] == nil && edits[key] == nil {
            fields[key] = nil
            assets[key] = nil
            exactDates[key] = nil
        }
        if parentEdit == nil { parent = record.parent }
    }
}

/// Archiving of records: the system fields as one JSON object, the values in the relay's JSON format.
extension RecordState {
    /// Encodes the system fields, the values, and the names of the fields that have not been saved.
    ///
    /// Also encodes the original values of those fields, so that a conflict after a restart still has an ancestor
    /// record.
    package func encode(with coder: NSCoder) {
        encodeSystemFields(with: coder)
        coder.encode(Self.archive(fields), forKey: "Fields")
        let archived = assets.mapValues { $0.map(ArchivedAsset.init) }
        if !archived.isEmpty, let json = try? JSONEncoder().encode(archived) {
            coder.encode(json as NSData, forKey: "Assets")
        }
        if let assetSource { coder.encode(assetSource.archived as NSString, forKey: "AssetSource") }
        if parentEdit != nil { coder.encode(true, forKey: "ParentEdited") }
        if let secrets {
            let plain = secrets.edits.compactMapValues(\.value)
            coder.encode(Self.archive(secrets.sealed), forKey: "SealedFields")
            coder.encode(Self.archive(plain), forKey: "SecretFields")
            let cleared = secrets.edits.keys.filter { plain[$0] == nil }.sorted()
            coder.encode(cleared.joined(separator: "\n") as NSString, forKey: "ClearedSecrets")
            if let keyring = secrets.keyring { coder.encode(keyring.container as NSString, forKey: "SecretsContainer") }
        }
        if !untypedLists.isEmpty {
            coder.encode(untypedLists.sorted().joined(separator: "\n") as NSString, forKey: "UntypedLists")
        }
        guard !edits.isEmpty else { return }
        coder.encode(edits.keys.sorted().joined(separator: "\n") as NSString, forKey: "ChangedKeys")
        coder.encode(Self.archive(edits.compactMapValues(\.original)), forKey: "OriginalFields")
    }

    private static func archive(_ fields: [String: FieldValue]) -> NSData {
        let entries = fields.sorted { $0.key < $1.key }.map { FieldsJSON.Entry(name: $0.key, value: $0.value) }
        return Data(FieldsJSON.encode(entries)) as NSData
    }

    /// Decodes the values.
    ///
    /// Returns `false` if there are values and they are damaged.
    private mutating func decodeValues(from coder: NSCoder) -> Bool {
        guard let data = coder.bytes("Fields") else { return true }
        guard let values = Self.unarchive(data) else { return false }
        fields = values
        if let json = coder.bytes("Assets"),
            let archived = try? JSONDecoder().decode([String: [ArchivedAsset]].self, from: Data(json))
        {
            for (key, archived) in archived { restoreAssets(archived, for: key) }
        } else if let json = coder.bytes("AssetFiles"),
            // The older format, which contains only files that the app added.
            let files = try? JSONDecoder().decode([String: [String]].self, from: Data(json))
        {
            for (key, paths) in files { restoreAssets(paths.map(ArchivedAsset.init(path:)), for: key) }
        }
        assetSource = coder.text("AssetSource").flatMap(AssetSource.init(archived:))
        if coder.decodeBool(forKey: "ParentEdited") { setParent(parent) }
        if let sealed = coder.bytes("SealedFields").flatMap(Self.unarchive) { restoreSecrets(sealed, from: coder) }
        restoreUntypedLists(Self.names(in: coder.text("UntypedLists") ?? ""))
        guard let keys = coder.text("ChangedKeys") else { return true }
        guard let data = coder.bytes("OriginalFields"),
            let originals = Self.unarchive(data)
        else { return false }
        restoreEdits(Self.names(in: keys), originals: originals)
        return true
    }

    private mutating func restoreAssets(_ archived: [ArchivedAsset], for key: String) {
        // The stored asset of each field; an unsaved file of the app has none.
        let stored = fields[key]?.assets ?? []
        let found = archived.enumerated().compactMap { place, archived in
            archived.asset(stored: stored.indices.contains(place) ? stored[place] : nil)
        }
        restore(found, for: key)
    }

    private mutating func restoreSecrets(_ sealed: [String: FieldValue], from coder: NSCoder) {
        var archived = SecretFields(sealed: sealed)
        for (name, value) in coder.bytes("SecretFields").flatMap(Self.unarchive) ?? [:] {
            archived.edits[name] = (value, countEdit())
        }
        for name in Self.names(in: coder.text("ClearedSecrets") ?? "") { archived.edits[name] = (nil, countEdit()) }
        // Decrypts the sealed values as soon as the zone's key is available.
        archived.keyring = coder.text("SecretsContainer").flatMap { RelayConfiguration.connection(for: $0)?.zoneKeys }
        secrets = archived
    }

    private static func names(in text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    private static func unarchive(_ bytes: [UInt8]) -> [String: FieldValue]? {
        guard let entries = try? FieldsJSON.decode(bytes) else { return nil }
        return Dictionary(entries.map { ($0.name, $0.value) }) { first, _ in first }
    }

    /// Encodes the system fields as one value.
    ///
    /// Apps compare the archives they have stored, but on Linux an archive orders several values differently each time.
    package func encodeSystemFields(with coder: NSCoder) {
        var writer = JSONWriter()
        writer.object { object in
            object.member("recordType", type)
            object.member("recordName", id.recordName)
            object.member("zoneName", id.zoneID.zoneName)
            object.member("ownerName", id.zoneID.ownerName)
            if let changeTag { object.member("recordChangeTag", changeTag) }
            if let parent { object.member("parent", parent) }
            if let share { object.member("share", share) }
            object.key("created")
            Self.write(created, to: &object)
            object.key("modified")
            Self.write(modified, to: &object)
        }
        coder.encode(Data(writer.bytes) as NSData, forKey: "SystemFields")
    }

    private static func write(_ stamp: Record.Stamp?, to writer: inout JSONWriter) {
        guard let stamp else { return writer.null() }
        writer.object { object in
            object.member("timestamp", stamp.at.milliseconds)
            object.member("userRecordName", stamp.by.recordName)
            object.member("deviceID", stamp.deviceID)
        }
    }

    private init?(systemFields json: [UInt8]) {
        guard let fields = try? JSONDocument(parsing: json, limits: .response).root,
            let type = try? fields.required("recordType").string(),
            let name = try? fields.required("recordName").string(),
            let zone = try? fields.required("zoneName").string(),
            let owner = try? fields.required("ownerName").string()
        else { return nil }
        let zoneID = CKRecordZone.ID(zoneName: zone, ownerName: owner)
        self.init(type: type, id: CKRecord.ID(recordName: name, zoneID: zoneID))
        changeTag = try? fields["recordChangeTag"]?.string()
        parent = try? fields["parent"]?.string()
        share = try? fields["share"]?.string()
        created = fields["created"].flatMap(Self.stamp)
        modified = fields["modified"].flatMap(Self.stamp)
    }

    private static func stamp(_ json: JSONValue) -> Record.Stamp? {
        guard let time = try? json.required("timestamp").int64(),
            let user = try? json.required("userRecordName").string(),
            let device = try? json.required("deviceID").string()
        else { return nil }
        return Record.Stamp(at: Timestamp(milliseconds: time), by: UserID(user), deviceID: device)
    }

    package init?(coder: NSCoder) {
        if let json = coder.bytes("SystemFields") {
            self.init(systemFields: json)
        } else {
            self.init(olderSystemFields: coder)
            #if !canImport(Darwin)
                addAppleFields(from: coder)
            #endif
        }
        guard decodeValues(from: coder) else { return nil }
    }

    /// Creates a state from the older format, which has one value per system field.
    private init?(olderSystemFields coder: NSCoder) {
        #if !canImport(Darwin)
            AppleArchive.read()
        #endif
        guard let type = coder.text("RecordType"), let id = coder.object(CKRecord.ID.self, "RecordID")
        else {
            return nil
        }
        self.init(type: type, id: id)
        changeTag = coder.text("ETag")
        parent = coder.text("Parent")
        share = coder.text("Share")
        created = Self.decodeStamp("Created", from: coder)
        modified = Self.decodeStamp("Modified", from: coder)
    }

    private static func decodeStamp(_ prefix: String, from coder: NSCoder) -> Record.Stamp? {
        guard let user = coder.text(prefix + "User"),
            let device = coder.text(prefix + "Device")
        else { return nil }
        let milliseconds = coder.decodeInt64(forKey: prefix + "Time")
        return Record.Stamp(
            at: Timestamp(milliseconds: milliseconds),
            by: UserID(user),
            deviceID: device
        )
    }
}

/// The archived form of an asset that the app has put into a record.
private struct ArchivedAsset: Codable {
    /// The path of the app's own file.
    ///
    /// All other properties belong to fetched assets.
    var path: String?
    /// The source of the asset; `nil` if unknown.
    var source: String?
    var scope: String?
    var record: String?
    var zone: String?
    var owner: String?
    var field: String?

    init(path: String) { self.path = path }

    init(_ asset: CKAsset) {
        guard let origin = asset.origin else {
            path = asset.fileToUpload?.path
            return
        }
        source = asset.assetClient.map { AssetSource(assetClient: $0, scope: origin.scope).archived }
        scope = origin.scope.pathName
        record = origin.record.recordName
        zone = origin.record.zone.zoneName
        owner = origin.record.zone.owner.recordName
        field = origin.field
    }

    func asset(stored: Asset?) -> CKAsset? {
        if let path { return CKAsset(fileURL: URL(fileURLWithPath: path)) }
        guard let scope = scope.flatMap(DatabaseScope.init(pathName:)), let record, let zone, let owner, let field,
            let stored
        else { return nil }
        let home = ZoneID(zone, owner: UserID(owner))
        let origin = AssetOrigin(scope: scope, record: RecordID(record, in: home), field: field)
        return CKAsset(stored, origin: origin, assetClient: source.flatMap(AssetSource.init(archived:))?.assetClient)
    }
}

extension AssetSource {
    /// The scope and the container, by which any process can find the files of an archived record.
    fileprivate var archived: String { "\(scope.pathName) \(assetClient.connection.container)" }

    /// Returns `nil` if no relay is configured for the container.
    fileprivate init?(archived text: String) {
        let words = text.split(separator: " ", maxSplits: 1).map(String.init)
        guard words.count == 2, let scope = DatabaseScope(pathName: words[0]),
            let assetClient = RelayConfiguration.connection(for: words[1])?.caller.assets
        else { return nil }
        self.init(assetClient: assetClient, scope: scope)
    }
}

extension NSCoder {
    /// Decodes the object for a key, or returns `nil` if there is none.
    ///
    /// Foundation on Linux traps if the key is missing and was not checked before.
    func object<Object: NSObject & NSCoding>(_: Object.Type, _ key: String) -> Object? {
        containsValue(forKey: key) ? decodeObject(of: Object.self, forKey: key) : nil
    }

    /// Decodes the string for a key, or returns `nil` if there is none.
    func text(_ key: String) -> String? { object(NSString.self, key) as String? }

    /// Decodes the data for a key, or returns `nil` if there are none.
    func bytes(_ key: String) -> [UInt8]? { object(NSData.self, key).map { [UInt8]($0 as Data) } }

    /// Decodes the number for a key, or returns 0 if there is none.
    func number(_ key: String) -> Int { containsValue(forKey: key) ? decodeInteger(forKey: key) : 0 }
}
