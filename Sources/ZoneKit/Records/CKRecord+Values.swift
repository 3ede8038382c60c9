import Foundation
import Records
import Synchronization

extension CKRecord {
    /// The value of a field.
    ///
    /// Set it to `nil` to clear the field. The system fields can be read by their names, such as `modificationDate`,
    /// unless the record has a field with that name.
    public subscript(key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? {
        get { state.withLock { $0.object(for: key) } ?? systemField(key) }
        set { state.withLock { $0.set(newValue, for: key) } }
    }

    /// The value of a field as a type; `nil` if the field has no value or a value of another type.
    public subscript<T: CKRecordValueProtocol>(key: CKRecord.FieldKey) -> T? {
        get { (state.withLock { $0.object(for: key) } ?? systemField(key)) as? T }
        set { state.withLock { $0.set(newValue, for: key) } }
    }

    /// Returns the value of a field.
    public func object(forKey key: CKRecord.FieldKey) -> (any CKRecordValue)? { self[key] }

    /// Sets or clears a field.
    public func setObject(_ object: (any CKRecordValue)?, forKey key: CKRecord.FieldKey) { self[key] = object }

    /// Returns the value of a field, for key-value coding.
    public func value(forKey key: CKRecord.FieldKey) -> Any? { self[key] }

    /// Returns the value of a system field by its name.
    private func systemField(_ key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? {
        switch key {
        case SystemFieldKey.recordID: recordID
        case SystemFieldKey.creationDate: creationDate
        case SystemFieldKey.creatorUserRecordID: creatorUserRecordID
        case SystemFieldKey.modificationDate: modificationDate
        case SystemFieldKey.lastModifiedUserRecordID: lastModifiedUserRecordID
        case SystemFieldKey.parent: parent
        case SystemFieldKey.share: share
        case "recordType": recordType
        case "recordChangeTag": recordChangeTag
        default: nil
        }
    }

    /// Sets a field.
    ///
    /// If the value has an unsupported type, the next save fails with `invalidArguments`.
    public func setValue(_ value: Any?, forKey key: CKRecord.FieldKey) {
        state.withLock { $0.set(value, for: key) }
    }

    /// Sets several fields.
    public func setValuesForKeys(_ values: [CKRecord.FieldKey: Any]) {
        for (key, value) in values { setValue(value, forKey: key) }
    }

    /// Returns the values of some fields, for key-value coding.
    ///
    /// Fields without a value are `NSNull`.
    public func dictionaryWithValues(forKeys keys: [CKRecord.FieldKey]) -> [CKRecord.FieldKey: Any] {
        Dictionary(keys.map { ($0, value(forKey: $0) ?? NSNull()) }) { first, _ in first }
    }

    /// The names of all fields that have a value, sorted.
    public func allKeys() -> [CKRecord.FieldKey] { state.withLock { $0.fields.keys.sorted() } }

    /// The names of the fields set or cleared since the record was created, fetched or saved, sorted.
    public func changedKeys() -> [CKRecord.FieldKey] { state.withLock { $0.edits.keys.sorted() } }

    /// The words of all string fields in lower case, which a full-text search of the record matches.
    public func allTokens() -> [String] {
        let texts = state.withLock { state in
            state.fields.sorted { $0.key < $1.key }.flatMap { Self.texts(in: $0.value) }
        }
        return texts.flatMap { text in
            text.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
        }
    }

    private static func texts(in value: FieldValue) -> [String] {
        switch value {
        case .string(let text): [text]
        case .list(.string, let values): values.flatMap(texts)
        default: []
        }
    }
}

extension CKRecord: CKRecordKeyValueSetting {}

/// Iterates over the names and values of all fields that have a value.
extension CKRecord: Sequence {
    /// Returns an iterator over the fields, sorted by name.
    public func makeIterator() -> CKRecordKeyValueIterator { CKRecordKeyValueIterator(self) }
}
