package import Records

/// A reference that binds the record it leads to, as the store finds it from that end.
///
/// References with the action NONE bind nothing and are not kept.
package struct StoredReference: Hashable, Sendable {
    package enum Kind: Int, Hashable, Sendable {
        /// The source goes when the target goes.
        case deleteSelf = 1
        /// The target stays while the source refers to it.
        case validate = 2
        /// The same, by the source's `parent`.
        case parent = 3
    }

    package var kind: Kind
    /// The record it leads to.
    package var target: String
    /// The record that holds it, and in which field; the parent has no field.
    package var source: String
    package var field: String

    package init(_ kind: Kind, to target: String, from source: String, field: String) {
        self.kind = kind
        self.target = target
        self.source = source
        self.field = field
    }

    /// What the reference binds; `nil` when that is nothing.
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

    /// How many references with DELETE_SELF may lead to one record.
    ///
    /// See Wire.md, "Limits".
    package static let mostDeleteSelf = 750
}
