import Foundation
package import Records

/// The source from which a record's assets are downloaded.
package struct AssetSource: Sendable {
    package var keeper: AssetKeeper
    package var scope: DatabaseScope

    package init(keeper: AssetKeeper, scope: DatabaseScope) {
        self.keeper = keeper
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
    package private(set) var asksForLink = false
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
    private(set) var strayParentZone: String?

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
        return field.assets.map { CKAsset($0, origin: origin, keeper: assetSource?.keeper) }
    }

    // MARK: Changes

    package mutating func set(_ value: Any?, for key: String) {
        unsendable[key] = nil
        refusedNumbers[key] = nil
        if let value, let words = FieldValue.wordsAgainst(value) {
            unsendable[key] = words
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

    /// Returns the element type of the list in a field, now or on the relay.
    private func listType(of key: String) -> FieldType.Scalar? {
        let here = untypedLists.contains(key) ? nil : fields[key]
        for case .list(let type, _)? in [here, edits[key]?.original] { return type }
        return nil
    }

    /// Sets a value from an archive.
    ///
    /// It counts as the relay's value and is not sent.
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

    /// Sets the parent, which must be in the record's zone, or removes it.
    mutating func setParent(to target: CKRecord.ID?) {
        strayParentZone = target.flatMap { isInOwnZone($0) ? nil : $0.zoneID.zoneName }
        if strayParentZone == nil { setParent(target?.recordName) }
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
        asksForLink = true
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
        ancestor.strayParentZone = nil
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

    /// Adopts the relay's values of fields without unsaved changes.
    ///
    /// `ours` contains the fields that this save has sent.
    private mutating func takeOver(_ record: Record, besides ours: Set<String>) {
        for (key, value) in record.fields where edits[key] == nil && !record.encryptedFields.contains(key) {
            let checksums = [value, fields[key]].map { $0?.assets.map(\.fileChecksum) ?? [] }
            // The relay has another file than the one that was set here.
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
