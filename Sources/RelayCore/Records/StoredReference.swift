package import Records

/// A reference that affects the deletion of its target, indexed by target.
///
/// References with the action `NONE` have no effect and are not stored.
package struct StoredReference: Hashable, Sendable {
    package enum Kind: Int, Hashable, Sendable {
        /// Deletes the source with the target.
        case deleteSelf = 1
        /// Blocks the deletion of the target.
        case validate = 2
        /// Blocks the deletion of the target; given by the source's `parent`.
        case parent = 3
    }

    package var kind: Kind
    /// The name of the referenced record.
    package var target: String
    /// The name of the referencing record, and the field with the reference; empty for the parent.
    package var source: String
    package var field: String

    package init(_ kind: Kind, to target: String, from source: String, field: String) {
        self.kind = kind
        self.target = target
        self.source = source
        self.field = field
    }

    /// Returns `nil` for a reference without effect.
    package init?(_ reference: Reference, from source: String, field: String) {
        switch reference.action {
        case .none: return nil
        case .deleteSelf: self.init(.deleteSelf, to: reference.recordName, from: source, field: field)
        case .validate: self.init(.validate, to: reference.recordName, from: source, field: field)
        }
    }

    package static func parent(_ target: String, of source: String) -> StoredReference {
        StoredReference(.parent, to: target, from: source, field: "")
    }

    /// The maximum number of DELETE_SELF references to one record.
    ///
    /// See Wire.md, "Limits".
    package static let mostDeleteSelf = 750
}
