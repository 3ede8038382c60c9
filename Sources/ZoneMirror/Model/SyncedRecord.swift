/// A plain value that lives in a mirror: a struct with defaults for all its properties.
///
///     struct Note: SyncedRecord {
///         var id = RecordName()
///         var title = ""
///         var done = false
///         var folder = ToOne<Folder>(inverse: "notes")
///     }
///
/// Each stored property is a column of the entity's table and a field of its record. Properties hold text, numbers,
/// yes or no, dates, data, UUIDs, URLs, optionals of these, `ToOne` and `ToMany` links, or any other codable value, which
/// is kept as JSON. The coding keys have to be the properties' own names.
public protocol SyncedRecord: Codable, Identifiable, Sendable where ID == RecordName {
    /// Names the object; on the relay, its record.
    var id: RecordName { get set }
    /// An object with the default of every property.
    init()
    /// The entity's name; left out, the type's.
    static var entityName: String { get }
    /// Says more about the entity than its properties do: what is encrypted, what deletes what.
    static func describe(_ entity: inout Entity)
}

extension SyncedRecord {
    /// The type's own name.
    public static var entityName: String { String(describing: Self.self) }

    /// Nothing more to say.
    public static func describe(_ entity: inout Entity) {}
}

/// A link to one object or none.
///
/// Holds the other object's name only; a context finds the object. Links are equal when they lead to the same object.
public struct ToOne<Target: SyncedRecord>: Hashable, Codable, Sendable {
    /// The object at the other end.
    public var target: RecordName?
    let inverse: String?
    let deleteRule: DeleteRule
    /// The property's name, known for links of a fetched object.
    let name: String

    /// A link, with what the model needs to know about it.
    ///
    /// - Parameters:
    ///   - target: The object at the other end.
    ///   - inverse: The property of the other entity that leads back; needed in the property's default.
    ///   - deleteRule: What happens to the other end when this object is deleted.
    public init(_ target: RecordName? = nil, inverse: String? = nil, deleteRule: DeleteRule = .nullify) {
        self.target = target
        self.inverse = inverse
        self.deleteRule = deleteRule
        name = ""
    }

    /// A link to an object.
    public init(_ target: Target) { self.init(target.id) }

    /// Reads a link.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // A link leads nowhere out of its store, in which there may be another object of that name.
        let holder = (decoder as? ValueDecoder)?.holder
        target = container.decodeNil() ? nil : RecordName(try container.decode(String.self), linkedFrom: holder)
        name = decoder.codingPath.last?.stringValue ?? ""
        inverse = nil
        deleteRule = .nullify
    }

    /// Writes the other object's name, or nothing.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let target { try container.encode(target.text) } else { try container.encodeNil() }
    }

    /// Whether both lead to the same object.
    public static func == (a: ToOne, b: ToOne) -> Bool { a.target == b.target }
    /// Agrees with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(target) }
}

/// A link to any number of objects.
///
/// Holds nothing: the other side's `ToOne` does, or, where both sides are `ToMany`, a table of pairs. A context finds
/// the objects, and adds and removes them.
public struct ToMany<Target: SyncedRecord>: Hashable, Codable, Sendable {
    let inverse: String?
    let deleteRule: DeleteRule
    /// The property's name, known for links of a fetched object.
    let name: String

    /// A link, with what the model needs to know about it.
    ///
    /// - Parameters:
    ///   - inverse: The property of the other entity that leads back.
    ///   - deleteRule: What happens to the objects at the other end when this one is deleted.
    public init(inverse: String, deleteRule: DeleteRule = .nullify) {
        self.inverse = inverse
        self.deleteRule = deleteRule
        name = ""
    }

    /// Takes the property's name from the place in the object.
    public init(from decoder: any Decoder) throws {
        name = decoder.codingPath.last?.stringValue ?? ""
        inverse = nil
        deleteRule = .nullify
    }

    /// Writes nothing.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encodeNil()
    }

    /// All are equal: they hold nothing.
    public static func == (a: ToMany, b: ToMany) -> Bool { true }
    /// Agrees with `==`.
    public func hash(into hasher: inout Hasher) {}
}

/// A link whatever its target, for those who read a type's properties.
protocol LinkProperty {
    /// The store of the object at the other end, where that is known.
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
