import Foundation
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
