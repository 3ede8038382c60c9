import Foundation
public import GRDB

/// A value type that a mirror stores: a struct with a default for each property.
///
///     struct Note: SyncedRecord {
///         var id = RecordName()
///         var title = ""
///         var done = false
///         var folder = ToOne<Folder>(inverse: "notes")
///     }
///
/// Each stored property is a column of the entity's table and a field of its record. Properties are strings, numbers,
/// Booleans, dates, data, UUIDs, URLs, optionals of these, `ToOne` and `ToMany` links, or any other codable value, which
/// is stored as JSON. The coding keys must be the properties' names.
public protocol SyncedRecord: Codable, Identifiable, Sendable where ID == RecordName {
    /// The object's name, which is also its record's name.
    var id: RecordName { get set }
    /// Creates an object with the default of every property.
    init()
    /// The entity's name; by default the type's name.
    static var entityName: String { get }
    /// Adds to the entity's description what its properties do not show, such as encryption and delete rules.
    static func describe(_ entity: inout Entity)
}

extension SyncedRecord {
    /// The type's name.
    public static var entityName: String { String(describing: Self.self) }

    /// Adds nothing.
    public static func describe(_ entity: inout Entity) {}
}

/// A to-one relationship.
///
/// Stores the other object's name only; a context returns the object. Two are equal if they point to the same object.
public struct ToOne<Target: SyncedRecord>: Hashable, Codable, Sendable {
    /// The name of the object at the other end.
    public var target: RecordName?
    let inverse: String?
    let deleteRule: DeleteRule
    /// The property's name, known in fetched objects.
    let name: String

    /// Creates a link with the information that the model needs about it.
    ///
    /// - Parameters:
    ///   - target: The name of the object at the other end.
    ///   - inverse: The inverse property of the other entity; needed in the property's default.
    ///   - deleteRule: What happens to the other object when this one is deleted.
    public init(_ target: RecordName? = nil, inverse: String? = nil, deleteRule: DeleteRule = .nullify) {
        self.target = target
        self.inverse = inverse
        self.deleteRule = deleteRule
        name = ""
    }

    /// Creates a link to an object.
    public init(_ target: Target) { self.init(target.id) }

    /// Decodes a link.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // A link stays within its store; another store may have an object with the same name.
        let source = (decoder as? ValueDecoder)?.source
        target = container.decodeNil() ? nil : RecordName(try container.decode(String.self), linkedFrom: source)
        name = decoder.codingPath.last?.stringValue ?? ""
        inverse = nil
        deleteRule = .nullify
    }

    /// Encodes the other object's name, or `nil`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let target { try container.encode(target.text) } else { try container.encodeNil() }
    }

    /// Returns whether both point to the same object.
    public static func == (a: ToOne, b: ToOne) -> Bool { a.target == b.target }
    /// Hashes the target.
    public func hash(into hasher: inout Hasher) { hasher.combine(target) }
}

/// A to-many relationship.
///
/// Stores nothing: the link is stored in the other side's `ToOne`, or in a join table if both sides are `ToMany`. A
/// context returns the objects, and adds and removes links.
public struct ToMany<Target: SyncedRecord>: Hashable, Codable, Sendable {
    let inverse: String?
    let deleteRule: DeleteRule
    /// The property's name, known in fetched objects.
    let name: String

    /// Creates a relationship with the information that the model needs about it.
    ///
    /// - Parameters:
    ///   - inverse: The inverse property of the other entity.
    ///   - deleteRule: What happens to the objects at the other end when this one is deleted.
    public init(inverse: String, deleteRule: DeleteRule = .nullify) {
        self.inverse = inverse
        self.deleteRule = deleteRule
        name = ""
    }

    /// Takes the property's name from the coding path.
    public init(from decoder: any Decoder) throws {
        name = decoder.codingPath.last?.stringValue ?? ""
        inverse = nil
        deleteRule = .nullify
    }

    /// Encodes `nil`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encodeNil()
    }

    /// Always `true`, because the value stores nothing.
    public static func == (a: ToMany, b: ToMany) -> Bool { true }
    /// Hashes nothing.
    public func hash(into hasher: inout Hasher) {}
}

/// A relationship with any target, for code that reads a type's properties.
protocol LinkProperty {
    /// The store of the object at the other end, if known.
    var store: StoreID? { get }
    func relationship(named name: String) -> Relationship
}

extension ToOne: LinkProperty {
    var store: StoreID? { target?.origin?.store }

    func relationship(named name: String) -> Relationship {
        var relationship = Relationship(name, to: Target.entityName, isToMany: false, inverse: inverse)
        relationship.deleteRule = deleteRule
        return relationship
    }
}

extension ToMany: LinkProperty {
    var store: StoreID? { nil }

    func relationship(named name: String) -> Relationship {
        var relationship = Relationship(name, to: Target.entityName, isToMany: true, inverse: inverse)
        relationship.deleteRule = deleteRule
        return relationship
    }
}

/// The name of an object and its record: a new UUID unless the application chooses another name.
///
/// The name of a fetched object also remembers the row that it was read from, so that a later `update` knows what was
/// changed. The name in a link of a fetched object remembers the store. Equality and encoding ignore this.
public struct RecordName: Hashable, Codable, Sendable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The text of the name.
    public let text: String
    /// Where the object, or a link to it, was read; `nil` for a name that the application created.
    let origin: Origin?

    /// Creates a new unique name.
    public init() { self.init(UUID().uuidString) }

    /// Creates a name from a text, for example from a key, so that every device derives the same name.
    ///
    /// - Parameter text: 1 to 255 printable ASCII characters. In a mirrored store each name is unique, whatever the
    ///   object's entity.
    public init(_ text: String) {
        self.text = text
        origin = nil
    }

    /// Creates a name from a literal.
    public init(stringLiteral text: String) { self.init(text) }

    init(_ text: String, origin: Origin?) {
        self.text = text
        self.origin = origin
    }

    /// Creates the name in a link of an object that was read.
    init(_ text: String, linkedFrom source: Origin?) {
        self.init(text, origin: source.map { Origin(store: $0.store, name: text, row: nil, files: $0.files) })
    }

    /// Decodes a name.
    public init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }

    /// Encodes the name.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The text of the name.
    public var description: String { text }

    /// Returns whether two names have the same text.
    public static func == (a: RecordName, b: RecordName) -> Bool { a.text == b.text }
    /// Compares the texts of two names.
    public static func < (a: RecordName, b: RecordName) -> Bool { a.text < b.text }
    /// Hashes the text of the name.
    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

extension RecordName: DatabaseValueConvertible {
    /// The name as a text, for the application's own queries.
    public var databaseValue: DatabaseValue { text.databaseValue }

    /// Creates a name from a query's result.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> RecordName? {
        String.fromDatabaseValue(value).map { RecordName($0) }
    }
}

/// A row as it was read: its store and values.
final class Origin: Sendable {
    let store: StoreID
    let name: String
    /// The values; `nil` if only a link to the object was read.
    let row: [DatabaseValue]?
    /// The files of the stores at that time, because another user's objects are different ones.
    let files: [StoreID: String]

    init(store: StoreID, name: String, row: [DatabaseValue]?, files: [StoreID: String]) {
        self.store = store
        self.name = name
        self.row = row
        self.files = files
    }
}
