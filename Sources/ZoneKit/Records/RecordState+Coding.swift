package import Foundation
import Records
import Wire

/// Archiving of records: the system fields as one JSON object, the values in the relay's JSON format.
extension RecordState {
    /// Encodes the system fields, the values, and the names of the fields that have not been saved.
    ///
    /// Also encodes the original values of those fields, so that a conflict after a restart still has an ancestor
    /// record.
    package func encode(with coder: NSCoder) {
        encodeSystemFields(with: coder)
        coder.encode(Self.archive(fields), forKey: "Fields")
        let kept = assets.mapValues { $0.map(KeptAsset.init) }
        if !kept.isEmpty, let json = try? JSONEncoder().encode(kept) { coder.encode(json as NSData, forKey: "Assets") }
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
            let kept = try? JSONDecoder().decode([String: [KeptAsset]].self, from: Data(json))
        {
            for (key, kept) in kept { restoreAssets(kept, for: key) }
        } else if let json = coder.bytes("AssetFiles"),
            // The older format, which contains only files that the app added.
            let files = try? JSONDecoder().decode([String: [String]].self, from: Data(json))
        {
            for (key, paths) in files { restoreAssets(paths.map(KeptAsset.init(path:)), for: key) }
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

    private mutating func restoreAssets(_ kept: [KeptAsset], for key: String) {
        // The stored asset of each field; an unsaved file of the app has none.
        let stored = fields[key]?.assets ?? []
        let found = kept.enumerated().compactMap { place, kept in
            kept.asset(stored: stored.indices.contains(place) ? stored[place] : nil)
        }
        restore(found, for: key)
    }

    private mutating func restoreSecrets(_ sealed: [String: FieldValue], from coder: NSCoder) {
        var kept = SecretFields(sealed: sealed)
        for (name, value) in coder.bytes("SecretFields").flatMap(Self.unarchive) ?? [:] {
            kept.edits[name] = (value, countEdit())
        }
        for name in Self.names(in: coder.text("ClearedSecrets") ?? "") { kept.edits[name] = (nil, countEdit()) }
        // Decrypts the sealed values as soon as the zone's key is available.
        kept.keyring = coder.text("SecretsContainer").flatMap { ConfiguredRelays.connection(for: $0)?.zoneKeys }
        secrets = kept
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
private struct KeptAsset: Codable {
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
        source = asset.keeper.map { AssetSource(keeper: $0, scope: origin.scope).archived }
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
        return CKAsset(stored, origin: origin, keeper: source.flatMap(AssetSource.init(archived:))?.keeper)
    }
}

extension AssetSource {
    /// The scope and the container, by which any process can find the files of an archived record.
    fileprivate var archived: String { "\(scope.pathName) \(keeper.connection.container)" }

    /// Returns `nil` if no relay is configured for the container.
    fileprivate init?(archived text: String) {
        let words = text.split(separator: " ", maxSplits: 1).map(String.init)
        guard words.count == 2, let scope = DatabaseScope(pathName: words[0]),
            let keeper = ConfiguredRelays.connection(for: words[1])?.caller.assets
        else { return nil }
        self.init(keeper: keeper, scope: scope)
    }
}
