public import Foundation
package import Records

/// A link to another record, kept in a field.
///
/// Known to programs as `CKRecord.Reference`.
///
/// Immutable, equal by value.
public final class CKReference: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// What happens to the holder when the target is deleted.
    public typealias Action = CKRecord.ReferenceAction

    /// The record that the link leads to.
    public let recordID: CKRecord.ID
    /// What happens to the holder when that record is deleted.
    public let action: CKRecord.ReferenceAction

    /// Makes a link by address.
    public init(recordID: CKRecord.ID, action: CKRecord.ReferenceAction) {
        self.recordID = recordID
        self.action = action
    }

    /// Makes a link to a record at hand.
    public convenience init(record: CKRecord, action: CKRecord.ReferenceAction) {
        self.init(recordID: record.recordID, action: action)
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let recordID = coder.object(CKRecord.ID.self, "RecordID"),
            let action = CKRecord.ReferenceAction(
                rawValue: UInt(bitPattern: max(coder.number("Action"), coder.number("ReferenceAction")))
            )
        else { return nil }
        self.recordID = recordID
        self.action = action
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes address and action.
    public func encode(with coder: NSCoder) {
        coder.encode(recordID, forKey: "RecordID")
        coder.encode(Int(bitPattern: action.rawValue), forKey: "Action")
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal by value.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKReference else { return false }
        return recordID == other.recordID && action == other.action
    }

    /// Agrees with `isEqual(_:)`.
    public override var hash: Int { recordID.hash }

    /// Target and action, for logs.
    public override var description: String { "<CKReference: \(recordID), \(action)>" }
}

extension CKRecord {
    /// What happens to the holder of a reference when its target is deleted.
    public enum ReferenceAction: UInt, Sendable {
        /// Nothing: the reference dangles.
        case none = 0
        /// The holder is deleted too. At most 750 such references may lead to one record.
        case deleteSelf = 1
    }
}

extension CKReference {
    /// The link as the modules below know it; a target in the holder's `zone` needs no zone of its own on the wire.
    package func value(in zone: CKRecordZone.ID) -> Reference {
        Reference(
            recordName: recordID.recordName,
            action: action == .deleteSelf ? .deleteSelf : .none,
            zone: recordID.zoneID == zone ? nil : recordID.zoneID.zone
        )
    }

    /// A link as it stood in a record of `zone`.
    ///
    /// The wire may name the holder's own zone with its owner's record name where this side says "current user".
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
