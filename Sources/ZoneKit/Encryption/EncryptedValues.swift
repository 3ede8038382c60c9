import Foundation
import Records
import Synchronization

extension CKRecord {
    /// The encrypted fields, which only the user's own devices and the participants of a share can read.
    ///
    /// With `RelayEndpoint.encryptionKey`, the values are encrypted on this device, and the relay cannot read them. A
    /// value whose key the user does not have reads as `nil`. **Without an encryption key, the values are sent
    /// unencrypted**, marked as encrypted fields: queries cannot use them, but the operator of the relay can read them.
    ///
    /// A field is either in here or in the record itself, never in both. References and assets cannot be encrypted.
    public var encryptedValues: any CKRecordKeyValueSetting & Sendable { EncryptedValues(record: self) }
}

/// The encrypted values of a record.
final class EncryptedValues: CKRecordKeyValueSetting, Sendable {
    private let record: CKRecord

    init(record: CKRecord) { self.record = record }

    subscript(key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? {
        get { record.state.withLock { $0.secret(for: key) } }
        set { record.state.withLock { $0.setSecret(newValue, for: key) } }
    }

    func object(forKey key: CKRecord.FieldKey) -> (any CKRecordValue)? { self[key] }

    func setObject(_ object: (any CKRecordValue)?, forKey key: CKRecord.FieldKey) { self[key] = object }

    func allKeys() -> [CKRecord.FieldKey] { record.state.withLock { $0.secretKeys } }

    func changedKeys() -> [CKRecord.FieldKey] { record.state.withLock { $0.changedSecretKeys } }
}

/// The encrypted fields of a record.
package struct SecretFields: Sendable {
    /// The values on the relay.
    var sealed: [String: FieldValue] = [:]
    /// The values that the app has set, `nil` for cleared fields, with the numbers of the edits.
    var edits: [String: (value: FieldValue?, number: UInt64)] = [:]
    /// Decrypts the sealed values.
    var keyring: ZoneKeyring?
}

extension RecordState {
    var secretKeys: [String] {
        let known = Set(secrets?.sealed.keys.map { $0 } ?? [])
        let edited = secrets?.edits ?? [:]
        let cleared = edited.filter { $0.value.value == nil }.keys
        return known.union(edited.keys).subtracting(cleared).sorted()
    }

    var changedSecretKeys: [String] { secrets?.edits.keys.sorted() ?? [] }

    func secret(for key: String) -> (any CKRecordValueProtocol)? {
        guard let secrets else { return nil }
        if let edit = secrets.edits[key] { return edit.value?.object(in: id.zoneID) }
        return openSecret(key)?.object(in: id.zoneID)
    }

    /// Returns the value of an encrypted field; `nil` if it was encrypted on a device and its key is not available.
    private func openSecret(_ key: String) -> FieldValue? {
        guard let secrets, let stored = secrets.sealed[key] else { return nil }
        guard let bytes = stored.sealedBytes else { return stored }
        guard let zoneKey = secrets.keyring?.key(id.zoneID) else { return nil }
        return zoneKey.open(bytes, for: ZoneKey.associatedData(type: type, record: id.recordName, field: key))
    }

    mutating func setSecret(_ value: (any CKRecordValueProtocol)?, for key: String) {
        let number = countEdit()
        var secrets = self.secrets ?? SecretFields()
        markUnsendable(key, nil)
        guard let value else {
            markUntyped(key, false)
            secrets.edits[key] = (nil, number)
            self.secrets = secrets
            return
        }
        if let words = FieldValue.unsupportedReason(value) { return markUnsendable(key, words) }
        let listType = secretListType(of: key)
        guard let field = FieldValue(value, in: id.zoneID, elementType: listType ?? .string), field.canBeSecret else {
            markUnsendable(key, "\(Swift.type(of: value)) to be encrypted")
            return
        }
        if let words = field.unsendableReason { return markUnsendable(key, words) }
        markUntyped(key, listType == nil && FieldValue.isUntypedList(value))
        secrets.edits[key] = (field, number)
        self.secrets = secrets
    }

    /// Returns the element type of the list in an encrypted field, now or on the relay.
    private func secretListType(of key: String) -> FieldType.Scalar? {
        let edited = untypedLists.contains(key) ? nil : secrets?.edits[key]?.value
        for case .list(let type, _)? in [edited, openSecret(key)] { return type }
        return nil
    }

    /// Whether any value was encrypted on a device.
    var hasSealed: Bool { secrets?.sealed.values.contains { $0.sealedBytes != nil } ?? false }

    /// Returns the encrypted fields to save, sealed with the zone's key if there is one.
    func sealedFields(
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        by key: ZoneKey?
    ) throws -> [String: FieldValue?] {
        var fields: [String: FieldValue?] = [:]
        for (name, edit) in secrets?.edits ?? [:] {
            guard let value = edit.value else {
                fields.updateValue(nil, forKey: name)
                continue
            }
            guard let key else {
                fields[name] = value
                continue
            }
            let associatedData = ZoneKey.associatedData(type: type, record: id.recordName, field: name)
            fields[name] = FieldValue(sealed: try key.seal(value, for: associatedData), replacing: value)
        }
        guard policy == .allKeys else { return fields }
        for (name, value) in secrets?.sealed ?? [:] where fields[name] == nil { fields[name] = value }
        return fields
    }
}

extension FieldValue {
    /// Creates the field of a sealed value.
    ///
    /// A sealed text is a string, so that it fits the schema's `ENCRYPTED STRING`.
    init(sealed: [UInt8], replacing value: FieldValue) {
        self = value.text == nil ? .bytes(sealed) : .string(Data(sealed).base64EncodedString())
    }

    /// The sealed bytes; `nil` for a value that was not encrypted on a device.
    var sealedBytes: [UInt8]? {
        switch self {
        case .bytes(let bytes): ZoneKey.isSealed(bytes) ? bytes : nil
        case .string(let text):
            Data(base64Encoded: text).map { [UInt8]($0) }.flatMap { ZoneKey.isSealed($0) ? $0 : nil }
        default: nil
        }
    }

    fileprivate var canBeSecret: Bool {
        switch self {
        case .asset, .reference, .list(.asset, _), .list(.reference, _): false
        default: true
        }
    }
}
