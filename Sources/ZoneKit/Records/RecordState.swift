import Foundation
package import Records

/// From where a record's assets are downloaded.
package struct AssetSource: Sendable {
    package var keeper: AssetKeeper
    package var scope: DatabaseScope

    package init(keeper: AssetKeeper, scope: DatabaseScope) {
        self.keeper = keeper
        self.scope = scope
    }
}

/// What a `CKRecord` holds: the record, and what was changed in it since the relay last saw it.
package struct RecordState: Sendable {
    /// One field's change.
    package struct Edit: Sendable {
        /// What the relay has, or had when the record was fetched.
        package var original: FieldValue?
        /// Counts all changes of this record, so that one made while a save is under way is not taken for saved.
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
    /// Fields to be sent, by name; a name without a value in `fields` was cleared.
    package private(set) var edits: [String: Edit] = [:]
    /// How often anything was changed here.
    package private(set) var editCount: UInt64 = 0
    package private(set) var parentEdit: UInt64?
    /// The record is the root of a share that was not saved yet.
    package private(set) var asksForLink = false
    /// Dates as the program set them: `fields` has them to the millisecond, and a program expects to read its own.
    private var exactDates: [String: Date] = [:]
    /// Assets as the program set them, by field; one that was fetched is in `fields` only.
    package private(set) var assets: [String: [CKAsset]] = [:]
    /// From where fetched assets come.
    package var assetSource: AssetSource?
    /// Fields that are encrypted; `nil` for the many records without.
    var secrets: SecretFields?
    /// Fields set to an empty list of no type: `fields` has some type for them, and the relay is told of none.
    package private(set) var untypedLists: Set<String> = []
    /// Fields holding what cannot be sent, with the name of its type; saving such a record fails.
    package private(set) var unsendable: [String: String] = [:]
    /// The name of the zone of a parent that is in another one than the record; saving such a record fails.
    private(set) var strayParentZone: String?

    package init(type: String, id: CKRecord.ID) {
        self.type = type
        self.id = id
    }

    /// A record as it came from the relay.
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

    /// Takes the encrypted fields out of the plain ones.
    private mutating func takeSealed(_ names: Set<String>) -> [String: FieldValue] {
        var sealed: [String: FieldValue] = [:]
        for name in names { sealed[name] = fields.removeValue(forKey: name) }
        return sealed
    }

    package var parentReference: CKRecord.Reference? {
        parent.map { CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: id.zoneID), action: .none) }
    }

    package func object(for key: String) -> (any CKRecordValueProtocol)? {
        if let date = exactDates[key] { return date }
        guard let field = fields[key] else { return nil }
        guard field.type.isAsset else { return field.object(in: id.zoneID) }
        let found = assets[key] ?? fetchedAssets(field, key)
        return field.type == .scalar(.asset) ? found.first : found
    }

    private func fetchedAssets(_ field: FieldValue, _ key: String) -> [CKAsset] {
        let origin = AssetOrigin(scope: assetSource?.scope ?? .private, record: id.record, field: key)
        return field.assets.map { CKAsset($0, origin: origin, keeper: assetSource?.keeper) }
    }

    // MARK: Changes

    package mutating func set(_ value: Any?, for key: String) {
        unsendable[key] = nil
        if let value, FieldValue.hasEndlessDate(value) {
            unsendable[key] = FieldValue.endlessDateWords
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
        if let words = field.unsendableWords {
            unsendable[key] = words
            return
        }
        markUntyped(key, emptyType == nil && FieldValue.isUntypedList(value))
        replace(key, with: field)
    }

    mutating func markUntyped(_ key: String, _ isUntyped: Bool) {
        if isUntyped { untypedLists.insert(key) } else { untypedLists.remove(key) }
    }

    /// What the list in a field is of, or was when the relay last saw it.
    private func listType(of key: String) -> FieldType.Scalar? {
        let here = untypedLists.contains(key) ? nil : fields[key]
        for case .list(let type, _)? in [here, edits[key]?.original] { return type }
        return nil
    }

    /// Puts in a value that an archive holds: it counts as the relay's, and is not sent.
    mutating func takeOver(_ value: Any, for key: String) {
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

    /// Puts the record below one of its own zone, where else it cannot be, or below none.
    mutating func setParent(to target: CKRecord.ID?) {
        strayParentZone = target.flatMap { isInOwnZone($0) ? nil : $0.zoneID.zoneName }
        if strayParentZone == nil { setParent(target?.recordName) }
    }

    /// The current user may be named in two ways.
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

    /// A share of this record has been made, and is to be saved together with it.
    package mutating func beginSharing(_ share: String) {
        self.share = share
        asksForLink = true
    }

    /// Puts back the names of the untyped lists that an archive remembers.
    mutating func restoreUntypedLists(_ names: [String]) { untypedLists = Set(names) }

    /// Puts back the assets that an archive remembers.
    mutating func restore(_ assets: [CKAsset], for key: String) { self.assets[key] = assets }

    /// Puts back the changes that an archive remembers.
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

    /// The record as it was before its pending changes.
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
        ancestor.strayParentZone = nil
        ancestor.untypedLists = []
        return ancestor
    }

    /// Takes over what the relay made of a save: version and dates, and which changes need not be sent again.
    ///
    /// `sent` is the `editCount` when the request was made; what was changed after it is still to be sent. With `isWhole` the
    /// relay has told all that the record has: what it leaves out was taken away elsewhere.
    package mutating func saved(as record: Record, sent: UInt64, isWhole: Bool = false) {
        changeTag = record.changeTag
        created = record.created ?? created
        modified = record.modified
        share = record.share
        asksForLink = false
        let ours = Set(edits.filter { $0.value.number <= sent }.keys)
        edits = edits.filter { $0.value.number > sent }
        for (key, edit) in edits { edits[key] = Edit(original: record.fields[key], number: edit.number) }
        if secrets != nil || !record.encryptedFields.isEmpty {
            var kept = secrets ?? SecretFields()
            kept.edits = kept.edits.filter { $0.value.number > sent }
            kept.sealed = record.fields.filter { record.encryptedFields.contains($0.key) }
            secrets = kept
        }
        untypedLists = untypedLists.filter { edits[$0] != nil || secrets?.edits[$0] != nil }
        if let parentEdit, parentEdit <= sent { self.parentEdit = nil }
        takeOver(record, besides: ours)
        if isWhole { letGo(whatIsNotIn: record) }
    }

    /// Takes over the values that the relay has, where nothing is still to be sent; `ours` have just come from here.
    private mutating func takeOver(_ record: Record, besides ours: Set<String>) {
        for (key, value) in record.fields where edits[key] == nil && !record.encryptedFields.contains(key) {
            let checksums = [value, fields[key]].map { $0?.assets.map(\.fileChecksum) ?? [] }
            // Another file than the one that was put in here.
            if checksums[0] != checksums[1], !ours.contains(key) { assets[key] = nil }
            fields[key] = value
            if let exact = exactDates[key], value != .timestamp(Timestamp(exact)) { exactDates[key] = nil }
        }
    }

    private mutating func letGo(whatIsNotIn record: Record) {
        for key in fields.keys where record.fields[key] == nil && edits[key] == nil {
            fields[key] = nil
            assets[key] = nil
            exactDates[key] = nil
        }
        if parentEdit == nil { parent = record.parent }
    }
}
