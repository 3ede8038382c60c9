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
