import Foundation
import Records
import Synchronization

extension CKRecord {
    /// A field's value, read and set; setting `nil` clears the field.
    ///
    /// What every record has is read by its name too, such as `modificationDate`, where the program has no field of that name.
    public subscript(key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? {
        get { state.withLock { $0.object(for: key) } ?? systemField(key) }
        set { state.withLock { $0.set(newValue, for: key) } }
    }

    /// A field's value as one type; `nil` when the field is absent or holds another type.
    public subscript<T: CKRecordValueProtocol>(key: CKRecord.FieldKey) -> T? {
        get { (state.withLock { $0.object(for: key) } ?? systemField(key)) as? T }
        set { state.withLock { $0.set(newValue, for: key) } }
    }

    /// A field's value.
    public func object(forKey key: CKRecord.FieldKey) -> (any CKRecordValue)? { self[key] }

    /// Sets a field's value, or clears it.
    public func setObject(_ object: (any CKRecordValue)?, forKey key: CKRecord.FieldKey) { self[key] = object }

    /// A field's value, as key-value coding has it.
    public func value(forKey key: CKRecord.FieldKey) -> Any? { self[key] }

    /// What every record has, by its name.
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

    /// Sets a field's value; one that no field can hold makes the next save fail with `invalidArguments`.
    public func setValue(_ value: Any?, forKey key: CKRecord.FieldKey) {
        state.withLock { $0.set(value, for: key) }
    }

    /// Sets several fields.
    public func setValuesForKeys(_ values: [CKRecord.FieldKey: Any]) {
        for (key, value) in values { setValue(value, forKey: key) }
    }

    /// The values of some fields, as key-value coding has it; what has none is `NSNull`.
    public func dictionaryWithValues(forKeys keys: [CKRecord.FieldKey]) -> [CKRecord.FieldKey: Any] {
        Dictionary(keys.map { ($0, value(forKey: $0) ?? NSNull()) }) { first, _ in first }
    }

    /// The names of all fields that have a value, sorted.
    public func allKeys() -> [CKRecord.FieldKey] { state.withLock { $0.fields.keys.sorted() } }

    /// The names of the fields set or cleared since the record was made, fetched or saved, sorted.
    public func changedKeys() -> [CKRecord.FieldKey] { state.withLock { $0.edits.keys.sorted() } }

    /// The words of all string fields, in lower case: what a search over the whole record would match.
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

/// Over the names of the fields that have a value, with the values.
extension CKRecord: Sequence {
    /// Walks over name and value of each field, sorted by name.
    public func makeIterator() -> CKRecordKeyValueIterator { CKRecordKeyValueIterator(self) }
}
