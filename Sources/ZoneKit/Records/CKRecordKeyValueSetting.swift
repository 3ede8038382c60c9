/// Reading and setting fields by name: a record, or the encrypted part of one.
public protocol CKRecordKeyValueSetting: AnyObject {
    /// A field's value, read and set; setting `nil` clears the field.
    subscript(key: CKRecord.FieldKey) -> (any CKRecordValueProtocol)? { get set }
    /// A field's value.
    func object(forKey key: CKRecord.FieldKey) -> (any CKRecordValue)?
    /// Sets a field's value, or clears it.
    func setObject(_ object: (any CKRecordValue)?, forKey key: CKRecord.FieldKey)
    /// The names of all fields that have a value, sorted.
    func allKeys() -> [CKRecord.FieldKey]
    /// The names of the fields set or cleared since the record was made, fetched or saved, sorted.
    func changedKeys() -> [CKRecord.FieldKey]
}

extension CKRecordKeyValueSetting {
    /// A field's value as one type; `nil` when the field is absent or holds another type.
    public subscript<T: CKRecordValueProtocol>(key: CKRecord.FieldKey) -> T? {
        get { object(forKey: key) as? T }
        set { setObject(newValue, forKey: key) }
    }

    /// A walk over name and value of each field, sorted by name.
    public func makeIterator() -> CKRecordKeyValueIterator { CKRecordKeyValueIterator(self) }
}

/// Walks over name and value of each field of a record, sorted by name.
public struct CKRecordKeyValueIterator: IteratorProtocol {
    /// A field's name and value.
    public typealias Element = (CKRecord.FieldKey, any CKRecordValueProtocol)

    private var pairs: IndexingIterator<[Element]>

    /// A walk over the fields as they are now.
    public init(_ record: any CKRecordKeyValueSetting) {
        pairs = record.allKeys().compactMap { key in record.object(forKey: key).map { (key, $0) } }.makeIterator()
    }

    /// The next field; `nil` after the last.
    public mutating func next() -> Element? { pairs.next() }
}
