import Foundation
package import GRDB

/// The type of an attribute's values.
public enum AttributeType: String, Hashable, Sendable, CaseIterable {
    /// Text.
    case string
    /// An integer of up to 64 bits.
    case integer
    /// A floating-point number.
    case double
    /// A Boolean.
    case boolean
    /// A date, stored exactly.
    case date
    /// Bytes.
    case data
    /// A UUID, as text on the relay.
    case uuid
    /// A URL, as text on the relay.
    case uri
    /// Any other codable value, as JSON.
    case transformable
    /// No type; not allowed in a mirrored store.
    case undefined
    /// Another object's local identity; not allowed in a mirrored store.
    case objectID
}

/// One stored property of an entity.
public struct Attribute: Hashable, Sendable {
    /// The name of the property and its column.
    public var name: String
    /// The type of its values.
    public var type: AttributeType
    /// Whether it may be `nil`.
    public var isOptional: Bool
    /// Whether it has a default value.
    public var hasDefault: Bool
    /// Whether the relay stores it encrypted.
    public var isEncrypted = false
    /// Whether it has an index in the local file.
    public var isIndexed = false
    /// Whether the history keeps its last value when the object is deleted.
    public var preservesValueOnDeletion = false
    /// Whether the later edit of this attribute wins over a conflicting one, whatever the store's merge policy is.
    ///
    /// Edits are dated by the clocks of the devices that made them; the dates are sent in an additional field of the
    /// record.
    public var lastEditWins = false

    package var defaultValue: DatabaseValue = .null

    /// Creates an attribute.
    ///
    /// - Parameters:
    ///   - name: The name of the property.
    ///   - type: The type of its values.
    ///   - isOptional: Whether it may be `nil`.
    ///   - hasDefault: Whether it has a default value.
    public init(_ name: String, _ type: AttributeType, isOptional: Bool = true, hasDefault: Bool = false) {
        self.name = name
        self.type = type
        self.isOptional = isOptional
        self.hasDefault = hasDefault
        if hasDefault, !isOptional { defaultValue = type.zero }
    }
}

extension AttributeType {
    /// The default of a required attribute without a default of its own.
    package var zero: DatabaseValue {
        switch self {
        case .integer, .boolean: 0.databaseValue
        case .double, .date: 0.0.databaseValue
        case .data, .transformable: Data().databaseValue
        case .string, .uuid, .uri, .undefined, .objectID: "".databaseValue
        }
    }
}

/// What happens to the objects at the other end of a relationship when an object is deleted.
public enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// Their link is cleared.
    case nullify
    /// They are deleted too.
    case cascade
    /// Nothing happens.
    case noAction
    /// The deletion fails; not allowed in a mirrored store.
    case deny
}

/// A relationship from one entity to another.
public struct Relationship: Hashable, Sendable {
    /// The name of the property.
    public var name: String
    /// The name of the other entity.
    public var destination: String
    /// Whether it is a to-many relationship.
    public var isToMany: Bool
    /// The name of the inverse relationship.
    public var inverse: String?
    /// Whether it may be empty.
    public var isOptional = true
    /// Whether it is ordered.
    public var isOrdered = false
    /// What happens to the objects at the other end when an object is deleted.
    public var deleteRule = DeleteRule.nullify
    /// Whether sharing an object excludes the objects that this relationship leads to.
    public var stopsSharing = false
    /// Whether the target's record is the parent of the object's record, as needed for sharing a record with its
    /// children; only for to-one relationships.
    public var isParent = false
    /// Whether the later edit of this relationship wins over a conflicting one; only for to-one relationships.
    public var lastEditWins = false

    /// Creates a relationship.
    ///
    /// - Parameters:
    ///   - name: The name of the property.
    ///   - destination: The name of the other entity.
    ///   - isToMany: Whether it is a to-many relationship.
    ///   - inverse: The name of the inverse relationship.
    public init(_ name: String, to destination: String, isToMany: Bool, inverse: String?) {
        self.name = name
        self.destination = destination
        self.isToMany = isToMany
        self.inverse = inverse
    }
}

/// A kind of object, with a table in the file and a record type on the relay.
public struct Entity: Hashable, Sendable {
    /// The name of the entity and its table.
    public var name: String
    /// The entity that names the record type, if several share one; by default the entity's own name.
    public var root: String
    /// The attributes, in the order of declaration.
    public var attributes: [Attribute]
    /// The relationships.
    public var relationships: [Relationship]
    /// Sets of properties that must be unique together; not allowed in a mirrored store.
    public var uniquenessConstraints: [[String]] = []
    /// The date attribute that marks an object as deleted in a public database.
    public var softDeletion: String?
    /// The attribute shown as the object's name, and used as the title of a share without one.
    public var displayAttribute: String?

    /// Creates an entity.
    ///
    /// - Parameters:
    ///   - name: The name of the entity.
    ///   - root: The entity that names the record type. The default is the entity's own name.
    ///   - attributes: The attributes.
    ///   - relationships: The relationships.
    public init(
        _ name: String,
        root: String? = nil,
        attributes: [Attribute] = [],
        relationships: [Relationship] = []
    ) {
        self.name = name
        self.root = root ?? name
        self.attributes = attributes
        self.relationships = relationships
    }

    /// Makes the later edit win in every property on its own; see `Attribute.lastEditWins`.
    public mutating func letLastEditsWin() {
        for index in attributes.indices { attributes[index].lastEditWins = true }
        for index in relationships.indices where !relationships[index].isToMany {
            relationships[index].lastEditWins = true
        }
    }

    /// Changes the description of an attribute; does nothing if there is none of this name.
    ///
    /// - Parameters:
    ///   - name: The attribute's name.
    ///   - change: A closure that changes it.
    public mutating func attribute(_ name: String, _ change: (inout Attribute) -> Void) {
        guard let index = attributes.firstIndex(where: { $0.name == name }) else { return }
        change(&attributes[index])
    }

    /// Changes the description of a relationship; does nothing if there is none of this name.
    ///
    /// - Parameters:
    ///   - name: The relationship's name.
    ///   - change: A closure that changes it.
    public mutating func relationship(_ name: String, _ change: (inout Relationship) -> Void) {
        guard let index = relationships.firstIndex(where: { $0.name == name }) else { return }
        change(&relationships[index])
    }
}
