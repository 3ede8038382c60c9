public import Foundation
import Records
package import Synchronization

/// One record: a type, an address and fields, with what the relay knows about it.
///
/// A reference type as in CloudKit: whoever holds it sees its changes. Made by a program or fetched from a database,
/// changed through its subscripts, and sent by one of the save calls, which send only what was changed since and bring
/// this same object up to date. Two objects of one record are not equal, as with CloudKit: compare their `recordID`s. Safe to
/// use from several threads; each single access is atomic.
open class CKRecord: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked only because the class can be inherited from: all state is behind `state`, a Mutex.

    /// The name of a kind of records.
    public typealias RecordType = String
    /// The name of a field.
    public typealias FieldKey = String
    /// A record's address.
    public typealias ID = CKRecordID
    /// A link to a record.
    public typealias Reference = CKReference

    /// The record types that CloudKit itself uses.
    public enum SystemType {
        /// The users of a container.
        public static let userRecord: CKRecord.RecordType = CKRecordTypeUserRecord
        /// A share.
        public static let share: CKRecord.RecordType = CKRecordTypeShare
    }

    /// The names under which queries and sort orders know the fields that every record has.
    public enum SystemFieldKey {
        /// The record's name.
        public static let recordID: CKRecord.FieldKey = "recordID"
        /// When it was made.
        public static let creationDate: CKRecord.FieldKey = "creationDate"
        /// Who made it.
        public static let creatorUserRecordID: CKRecord.FieldKey = "creatorUserRecordID"
        /// When it was last changed.
        public static let modificationDate: CKRecord.FieldKey = "modificationDate"
        /// Who last changed it.
        public static let lastModifiedUserRecordID: CKRecord.FieldKey = "lastModifiedUserRecordID"
        /// The record above it.
        public static let parent: CKRecord.FieldKey = "parent"
        /// The share that it is the root of.
        public static let share: CKRecord.FieldKey = "share"
    }

    package let state: Mutex<RecordState>

    /// Makes a new record.
    ///
    /// - Parameters:
    ///   - recordType: A letter, then letters, digits and underscores.
    ///   - recordID: Left out, a new UUID in the default zone.
    public init(recordType: CKRecord.RecordType, recordID: CKRecord.ID = CKRecord.ID()) {
        state = Mutex(RecordState(type: recordType, id: recordID))
    }

    /// Makes a new record with a new UUID for its name.
    public convenience init(recordType: CKRecord.RecordType, zoneID: CKRecordZone.ID) {
        self.init(recordType: recordType, recordID: CKRecord.ID(zoneID: zoneID))
    }

    package init(state: RecordState) {
        self.state = Mutex(state)
    }

    /// Reads what `encode(with:)` or `encodeSystemFields(with:)` wrote; `nil` if the archive holds neither.
    public required init?(coder: NSCoder) {
        guard let decoded = RecordState(coder: coder) else { return nil }
        state = Mutex(decoded)
    }

    /// Secure coding is supported.
    open class var supportsSecureCoding: Bool { true }

    /// Writes the record whole: system fields, values, and which of them were changed since the last save.
    open func encode(with coder: NSCoder) {
        state.withLock { $0 }.encode(with: coder)
    }

    /// Writes what identifies the record and its version, without values: what a program keeps to save changes later.
    open func encodeSystemFields(with coder: NSCoder) {
        #if os(Linux)
            // A binary archive puts its parts in another order each time there, and programs compare what they kept.
            (coder as? NSKeyedArchiver)?.outputFormat = .xml
        #endif
        state.withLock { $0 }.encodeSystemFields(with: coder)
    }

    /// An independent copy, values and pending changes included.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKRecord(state: state.withLock { $0 })
    }

    // MARK: System fields

    /// The record's kind.
    open var recordType: CKRecord.RecordType { state.withLock { $0.type } }
    /// The record's address.
    open var recordID: CKRecord.ID { state.withLock { $0.id } }
    /// Names the version that this record was fetched or last saved as; `nil` before.
    open var recordChangeTag: String? { state.withLock { $0.changeTag } }
    /// When the relay first stored it.
    open var creationDate: Date? { state.withLock { $0.created }.map { Date($0.at) } }
    /// When the relay last stored it.
    open var modificationDate: Date? { state.withLock { $0.modified }.map { Date($0.at) } }
    /// Who made it; the record name is `CKCurrentUserDefaultName` where that is known to be the current user.
    open var creatorUserRecordID: CKRecord.ID? {
        state.withLock { $0.created }.map { CKRecord.ID(recordName: $0.by.recordName) }
    }
    /// Who last changed it; the record name is `CKCurrentUserDefaultName` where that is known to be the current user.
    open var lastModifiedUserRecordID: CKRecord.ID? {
        state.withLock { $0.modified }.map { CKRecord.ID(recordName: $0.by.recordName) }
    }

    /// The record above this one in a hierarchy that is shared as a whole; always in the same zone.
    ///
    /// One of another zone is not taken, and makes the next save fail with `invalidArguments`.
    open var parent: CKRecord.Reference? {
        get { state.withLock { $0.parentReference } }
        set { state.withLock { $0.setParent(to: newValue?.recordID) } }
    }

    /// The share that this record is the root of.
    open var share: CKRecord.Reference? {
        state.withLock { state in
            state.share.map {
                CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: state.id.zoneID), action: .none)
            }
        }
    }

    /// Puts this record below another one, or below none.
    open func setParent(_ parentRecord: CKRecord?) {
        let target = parentRecord?.recordID
        state.withLock { $0.setParent(to: target) }
    }

    /// Puts this record below the one of that address, or below none.
    open func setParent(_ parentRecordID: CKRecord.ID?) {
        state.withLock { $0.setParent(to: parentRecordID) }
    }

    /// Type and address, for logs; no values.
    open override var description: String {
        state.withLock { "<CKRecord: \($0.type) \($0.id), tag \($0.changeTag ?? "none")>" }
    }
}
