/// Access to fields by name, for a record or the encrypted values of a record.
public protocol CKRecordKeyValueSetting: AnyObject {
    /// The value of a field.
    ///
    /// Set it to `nil` to clear the field.
    subscript(key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? { get set }
    /// Returns the value of a field.
    func object(forKey key: CKRecord.FieldKey) -> (any CKRecordValue)?
    /// Sets or clears a field.
    func setObject(_ object: (any CKRecordValue)?, forKey key: CKRecord.FieldKey)
    /// The names of all fields that have a value, sorted.
    func allKeys() -> [CKRecord.FieldKey]
    /// The names of the fields set or cleared since the record was created, fetched or saved, sorted.
    func changedKeys() -> [CKRecord.FieldKey]
}

extension CKRecordKeyValueSetting {
    /// The value of a field as a type; `nil` if the field has no value or a value of another type.
    public subscript<T: CKRecordValueProtocol>(key: CKRecord.FieldKey) -> T? {
        get { object(forKey: key) as? T }
        set { setObject(newValue, forKey: key) }
    }

    /// Returns an iterator over the fields, sorted by name.
    public func makeIterator() -> CKRecordKeyValueIterator { CKRecordKeyValueIterator(self) }
}

/// An iterator over the names and values of a record's fields, sorted by name.
public struct CKRecordKeyValueIterator: IteratorProtocol {
    /// The name and the value of a field.
    public typealias Element = (CKRecord.FieldKey, any CKRecordValueProtocol)

    private var pairs: IndexingIterator<[Element]>

    /// Creates an iterator over the fields' current values.
    public init(_ record: any CKRecordKeyValueSetting) {
        pairs = record.allKeys().compactMap { key in record.object(forKey: key).map { (key, $0) } }.makeIterator()
    }

    /// Returns the next field, or `nil` after the last one.
    public mutating func next() -> Element? { pairs.next() }
}
