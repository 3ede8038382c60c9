public import Foundation
package import Records

/// A reference to another record, stored in a field; also available as `CKRecord.Reference`.
///
/// References are immutable and compared by value.
public final class CKReference: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The behavior when the referenced record is deleted.
    public typealias Action = CKRecord.ReferenceAction

    /// The ID of the referenced record.
    public let recordID: CKRecord.ID
    /// The behavior when the referenced record is deleted.
    public let action: CKRecord.ReferenceAction

    /// Creates a reference to a record by its ID.
    public init(recordID: CKRecord.ID, action: CKRecord.ReferenceAction) {
        self.recordID = recordID
        self.action = action
    }

    /// Creates a reference to a record.
    public convenience init(record: CKRecord, action: CKRecord.ReferenceAction) {
        self.init(recordID: record.recordID, action: action)
    }

    /// Creates a reference from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let recordID = coder.object(CKRecord.ID.self, "RecordID"),
            let action = CKRecord.ReferenceAction(
                rawValue: UInt(bitPattern: max(coder.number("Action"), coder.number("ReferenceAction")))
            )
        else { return nil }
        self.recordID = recordID
        self.action = action
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the record ID and the action.
    public func encode(with coder: NSCoder) {
        coder.encode(recordID, forKey: "RecordID")
        coder.encode(Int(bitPattern: action.rawValue), forKey: "Action")
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Returns whether two references are equal.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKReference else { return false }
        return recordID == other.recordID && action == other.action
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { recordID.hash }

    /// The referenced record and the action.
    public override var description: String { "<CKReference: \(recordID), \(action)>" }
}

extension CKRecord {
    /// The behavior of a reference when its record is deleted.
    public enum ReferenceAction: UInt, Sendable {
        /// The reference stays and points to a record that does not exist.
        case none = 0
        /// The referencing record is deleted too.
        ///
        /// At most 750 such references can point to one record.
        case deleteSelf = 1
    }
}

extension CKReference {
    /// Returns the reference in its wire form.
    ///
    /// A reference within `zone`, the zone of its record, contains no zone.
    package func value(in zone: CKRecordZone.ID) -> Reference {
        Reference(
            recordName: recordID.recordName,
            action: action == .deleteSelf ? .deleteSelf : .none,
            zone: recordID.zoneID == zone ? nil : recordID.zoneID.zone
        )
    }

    /// Creates a reference that was read from a record in `zone`.
    ///
    /// The relay may name that zone by its owner's record name where the app uses the name of the current user.
    package convenience init(_ reference: Reference, in zone: CKRecordZone.ID) {
        var target = zone
        if let named = reference.zone, named.zoneName != zone.zoneName { target = CKRecordZone.ID(named) }
        self.init(
            recordID: CKRecord.ID(recordName: reference.recordName, zoneID: target),
            action: reference.action == .deleteSelf ? .deleteSelf : .none
        )
    }
}

/// The older name of `CKRecord.ReferenceAction`.
public typealias CKRecord_Reference_Action = CKRecord.ReferenceAction
