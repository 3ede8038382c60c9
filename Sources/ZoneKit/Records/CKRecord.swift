public import Foundation
import Records
package import Synchronization

/// A record: a type, an ID and fields, and the metadata that the relay maintains.
///
/// `CKRecord` is a reference type, as in CloudKit. Create a record or fetch it from a database, change it through its
/// subscripts, and save it. A save sends only the fields that have changed, and updates the same object with the
/// relay's response. Two objects of one record are not equal, as in CloudKit; compare their `recordID`s. Records can be
/// used from several threads; each access is atomic.
open class CKRecord: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked only because the class can be subclassed: all state is in `state`, a mutex.

    /// The type of a record type's name.
    public typealias RecordType = String
    /// The type of a field's name.
    public typealias FieldKey = String
    /// The type of a record's ID.
    public typealias ID = CKRecordID
    /// A reference to a record.
    public typealias Reference = CKReference

    /// The record types that the system defines.
    public enum SystemType {
        /// The record type of users.
        public static let userRecord: CKRecord.RecordType = CKRecordTypeUserRecord
        /// The record type of shares.
        public static let share: CKRecord.RecordType = CKRecordTypeShare
    }

    /// The names of the system fields in queries and sort descriptors.
    public enum SystemFieldKey {
        /// The record's ID.
        public static let recordID: CKRecord.FieldKey = "recordID"
        /// The creation date.
        public static let creationDate: CKRecord.FieldKey = "creationDate"
        /// The user who created the record.
        public static let creatorUserRecordID: CKRecord.FieldKey = "creatorUserRecordID"
        /// The date of the last change.
        public static let modificationDate: CKRecord.FieldKey = "modificationDate"
        /// The user who last changed the record.
        public static let lastModifiedUserRecordID: CKRecord.FieldKey = "lastModifiedUserRecordID"
        /// The parent record.
        public static let parent: CKRecord.FieldKey = "parent"
        /// The share of which the record is the root.
        public static let share: CKRecord.FieldKey = "share"
    }

    package let state: Mutex<RecordState>

    /// Creates a record.
    ///
    /// - Parameters:
    ///   - recordType: The record type: a letter, followed by letters, digits and underscores.
    ///   - recordID: The ID. The default is a new UUID in the default zone.
    public init(recordType: CKRecord.RecordType, recordID: CKRecord.ID = CKRecord.ID()) {
        state = Mutex(RecordState(type: recordType, id: recordID))
    }

    /// Creates a record whose name is a new UUID.
    public convenience init(recordType: CKRecord.RecordType, zoneID: CKRecordZone.ID) {
        self.init(recordType: recordType, recordID: CKRecord.ID(zoneID: zoneID))
    }

    package init(state: RecordState) {
        self.state = Mutex(state)
    }

    /// Creates a record from the output of `encode(with:)` or `encodeSystemFields(with:)`; `nil` for any other archive.
    public required init?(coder: NSCoder) {
        guard let decoded = RecordState(coder: coder) else { return nil }
        state = Mutex(decoded)
    }

    /// Whether the class supports secure coding: always `true`.
    open class var supportsSecureCoding: Bool { true }

    /// Encodes the whole record: the system fields, the values, and which of them have changed since the last save.
    open func encode(with coder: NSCoder) {
        state.withLock { $0 }.encode(with: coder)
    }

    /// Encodes the record's identity and version without its values.
    ///
    /// Store them to save changes of the record later.
    open func encodeSystemFields(with coder: NSCoder) {
        #if os(Linux)
            // On Linux, a binary archive has a different order each time, but apps compare the archives they have
            // stored.
            (coder as? NSKeyedArchiver)?.outputFormat = .xml
        #endif
        state.withLock { $0 }.encodeSystemFields(with: coder)
    }

    /// Returns an independent copy with the values and the pending changes.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKRecord(state: state.withLock { $0 })
    }

    // MARK: System fields

    /// The record type.
    open var recordType: CKRecord.RecordType { state.withLock { $0.type } }
    /// The ID of the record.
    open var recordID: CKRecord.ID { state.withLock { $0.id } }
    /// The version with which this record was fetched or last saved; `nil` before.
    open var recordChangeTag: String? { state.withLock { $0.changeTag } }
    /// The time at which the relay first stored the record.
    open var creationDate: Date? { state.withLock { $0.created }.map { Date($0.at) } }
    /// The time at which the relay last stored the record.
    open var modificationDate: Date? { state.withLock { $0.modified }.map { Date($0.at) } }
    /// The user who created the record; the record name is `CKCurrentUserDefaultName` if it is the current user.
    open var creatorUserRecordID: CKRecord.ID? {
        state.withLock { $0.created }.map { CKRecord.ID(recordName: $0.by.recordName) }
    }
    /// The user who last changed the record; the record name is `CKCurrentUserDefaultName` if it is the current user.
    open var lastModifiedUserRecordID: CKRecord.ID? {
        state.withLock { $0.modified }.map { CKRecord.ID(recordName: $0.by.recordName) }
    }

    /// The parent of this record in a hierarchy that is shared as a whole.
    ///
    /// Must be in the same zone. A parent in another zone is not stored, and makes the next save fail with
    /// `invalidArguments`.
    open var parent: CKRecord.Reference? {
        get { state.withLock { $0.parentReference } }
        set { state.withLock { $0.setParent(to: newValue?.recordID) } }
    }

    /// The share of which this record is the root.
    open var share: CKRecord.Reference? {
        state.withLock { state in
            state.share.map {
                CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: state.id.zoneID), action: .none)
            }
        }
    }

    /// Sets the parent record; `nil` removes it.
    open func setParent(_ parentRecord: CKRecord?) {
        let target = parentRecord?.recordID
        state.withLock { $0.setParent(to: target) }
    }

    /// Sets the parent record by its ID; `nil` removes it.
    open func setParent(_ parentRecordID: CKRecord.ID?) {
        state.withLock { $0.setParent(to: parentRecordID) }
    }

    /// The type, the ID and the change tag; contains no values.
    open override var description: String {
        state.withLock { "<CKRecord: \($0.type) \($0.id), tag \($0.changeTag ?? "none")>" }
    }
}

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

/// The ID of a record: its name and its zone; also available as `CKRecord.ID`.
///
/// IDs are immutable. Two IDs are equal if their record names, zone names and zone owners are equal.
public final class CKRecordID: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The record's name, unique within the zone; 1 to 255 ASCII characters.
    public let recordName: String
    /// The zone that contains the record.
    public let zoneID: CKRecordZone.ID

    /// Creates an ID.
    ///
    /// - Parameters:
    ///   - recordName: The record's name. The default is a new UUID.
    ///   - zoneID: The zone. The default is the current user's default zone.
    public init(recordName: String = UUID().uuidString, zoneID: CKRecordZone.ID = .default) {
        self.recordName = recordName
        self.zoneID = zoneID
    }

    /// Creates an ID from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let name = coder.text("RecordName"),
            let zone = coder.object(CKRecordZone.ID.self, "ZoneID")
        else { return nil }
        recordName = name
        zoneID = zone
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the name and the zone.
    public func encode(with coder: NSCoder) {
        coder.encode(recordName as NSString, forKey: "RecordName")
        coder.encode(zoneID, forKey: "ZoneID")
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two IDs are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKRecordID else { return false }
        return self === other || (recordName == other.recordName && zoneID == other.zoneID)
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int {
        var hasher = Hasher()
        hasher.combine(recordName)
        hasher.combine(zoneID.zoneName)
        return hasher.finalize()
    }

    /// The name, the zone and its owner.
    public override var description: String { "\(recordName):(\(zoneID.zoneName):\(zoneID.ownerName))" }
}
