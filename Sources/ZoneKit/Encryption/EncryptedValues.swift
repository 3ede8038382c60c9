import Foundation
import Synchronization

extension CKRecord {
    /// The fields that only the user's own devices, and those a record is shared with, can read.
    ///
    /// With `RelayEndpoint.encryptionKey` they are encrypted before they leave this machine, and the relay keeps what it
    /// cannot read; a value whose key this user does not have reads as `nil`. **Without it they go to the relay as they are**,
    /// marked as encrypted fields: nobody can search or sort by them, but whoever runs the relay could read them.
    ///
    /// A field is in here or in the record itself, never in both. References and assets cannot be encrypted.
    public var encryptedValues: any CKRecordKeyValueSetting & Sendable { EncryptedValues(record: self) }
}

/// The encrypted part of a record.
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
