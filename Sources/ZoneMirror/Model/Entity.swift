import Foundation
package import GRDB

/// The kind of value that an attribute holds.
public enum AttributeType: String, Hashable, Sendable, CaseIterable {
    /// Text.
    case string
    /// A whole number of up to 64 bits.
    case integer
    /// A number with a fraction.
    case double
    /// Yes or no.
    case boolean
    /// A moment, kept exactly.
    case date
    /// Bytes.
    case data
    /// A UUID, as text on the relay.
    case uuid
    /// An address, as text on the relay.
    case uri
    /// Any other codable value, as JSON.
    case transformable
    /// Not said; refused in a mirrored store.
    case undefined
    /// Another object's local identity; refused in a mirrored store.
    case objectID
}

/// One stored property of an entity.
public struct Attribute: Hashable, Sendable {
    /// The property's name, and its column's.
    public var name: String
    /// What it holds.
    public var type: AttributeType
    /// Whether it may hold nothing.
    public var isOptional: Bool
    /// Whether there is a value for an object that says nothing.
    public var hasDefault: Bool
    /// Kept encrypted by the relay.
    public var isEncrypted = false
    /// Has an index of its own in the local file.
    public var isIndexed = false
    /// Its last value stays in the history when the object is deleted.
    public var preservesValueOnDeletion = false
    /// Where a pending change meets a newer record, the later edit of this attribute wins, whatever the store's policy.
    ///
    /// By the clocks of the devices that made the edits; the times travel in a field of the record beside the others.
    public var lastEditWins = false

    package var defaultValue: DatabaseValue = .null

    /// Says what an attribute is.
    ///
    /// - Parameters:
    ///   - name: The property's name.
    ///   - type: What it holds.
    ///   - isOptional: Whether it may hold nothing.
    ///   - hasDefault: Whether there is a value for an object that says nothing.
    public init(_ name: String, _ type: AttributeType, isOptional: Bool = true, hasDefault: Bool = false) {
        self.name = name
        self.type = type
        self.isOptional = isOptional
        self.hasDefault = hasDefault
        if hasDefault, !isOptional { defaultValue = type.zero }
    }
}

extension AttributeType {
    /// What stands for "nothing yet" where there has to be something.
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
    /// They lose the link.
    case nullify
    /// They are deleted too.
    case cascade
    /// Nothing.
    case noAction
    /// The deletion is refused; not possible in a mirrored store.
    case deny
}

/// A link from one entity to another.
public struct Relationship: Hashable, Sendable {
    /// The property's name.
    public var name: String
    /// The other entity.
    public var destination: String
    /// Whether it leads to any number of objects.
    public var isToMany: Bool
    /// The relationship that leads back.
    public var inverse: String?
    /// Whether it may be empty.
    public var isOptional = true
    /// Whether the other end has an order.
    public var isOrdered = false
    /// What happens to the other end.
    public var deleteRule = DeleteRule.nullify
    /// Sharing an object does not follow this link.
    public var stopsSharing = false
    /// The object at the other end is the record's parent on the relay, as shares of a record with its children need it;
    /// only for a link to one object.
    public var isParent = false
    /// Where a pending change meets a newer record, the later edit of this link wins; only for a link to one object.
    public var lastEditWins = false

    /// Says what a relationship is.
    ///
    /// - Parameters:
    ///   - name: The property's name.
    ///   - destination: The other entity.
    ///   - isToMany: Whether it leads to any number of objects.
    ///   - inverse: The relationship that leads back.
    public init(_ name: String, to destination: String, isToMany: Bool, inverse: String?) {
        self.name = name
        self.destination = destination
        self.isToMany = isToMany
        self.inverse = inverse
    }
}

/// One kind of object: its table in the file, and its record type on the relay.
public struct Entity: Hashable, Sendable {
    /// Its name, and its table's.
    public var name: String
    /// The entity that names the record type, where several share one; left out, its own name.
    public var root: String
    /// Its stored properties, in the order of its declaration.
    public var attributes: [Attribute]
    /// Its links.
    public var relationships: [Relationship]
    /// Sets of properties that must be unique together; refused in a mirrored store.
    public var uniquenessConstraints: [[String]] = []
    /// The date attribute that marks an object as deleted where deletion does not travel.
    public var softDeletion: String?
    /// What a person reads as the object's name; the title of a share without one.
    public var displayAttribute: String?

    /// Says what an entity is.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - root: The entity that names the record type; left out, its own name.
    ///   - attributes: Its stored properties.
    ///   - relationships: Its links.
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

    /// Lets the later edit win in every property, each by itself; see `Attribute.lastEditWins`.
    public mutating func letLastEditsWin() {
        for index in attributes.indices { attributes[index].lastEditWins = true }
        for index in relationships.indices where !relationships[index].isToMany {
            relationships[index].lastEditWins = true
        }
    }

    /// Changes what is known of an attribute; does nothing where there is none of that name.
    ///
    /// - Parameters:
    ///   - name: The attribute's name.
    ///   - change: Changes it.
    public mutating func attribute(_ name: String, _ change: (inout Attribute) -> Void) {
        guard let index = attributes.firstIndex(where: { $0.name == name }) else { return }
        change(&attributes[index])
    }

    /// Changes what is known of a relationship; does nothing where there is none of that name.
    ///
    /// - Parameters:
    ///   - name: The relationship's name.
    ///   - change: Changes it.
    public mutating func relationship(_ name: String, _ change: (inout Relationship) -> Void) {
        guard let index = relationships.firstIndex(where: { $0.name == name }) else { return }
        change(&relationships[index])
    }
}
