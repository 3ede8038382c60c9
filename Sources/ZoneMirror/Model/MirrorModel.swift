import Foundation
import GRDB

/// The entities of an application and their configurations.
public struct MirrorModel: Hashable, Sendable {
    /// The entities by name.
    public private(set) var entities: [String: Entity]
    /// The entities' names in the order of declaration.
    public private(set) var names: [String]
    /// Named sets of entities; a store description without a configuration uses all entities.
    public var configurations: [String: Set<String>]
    /// The Swift types of entities, if the model was created from types.
    private var types: [String: EntityType] = [:]

    /// Creates a model from Swift types.
    ///
    /// - Parameters:
    ///   - types: The entities.
    ///   - configurations: Named sets of entities.
    public init(_ types: any SyncedRecord.Type..., configurations: [String: Set<String>] = [:]) {
        self.init(entities: types.map { Self.read($0) }, configurations: configurations)
        for type in types { self.types[type.entityName] = EntityType(type: type) }
    }

    /// Creates a model from entity descriptions, for programs without Swift types for them.
    ///
    /// - Parameters:
    ///   - entities: The entities; the last one of each name is used.
    ///   - configurations: Named sets of entities.
    public init(entities: [Entity], configurations: [String: Set<String>] = [:]) {
        self.entities = Dictionary(entities.map { ($0.name, $0) }) { $1 }
        var seen: Set<String> = []
        names = entities.map(\.name).filter { seen.insert($0).inserted }
        self.configurations = configurations
    }

    private static func read<T: SyncedRecord>(_ type: T.Type) -> Entity { TypeReader.entity(of: type) }

    /// Returns the names of a configuration's entities in the order of declaration; all without a configuration.
    public func entityNames(in configuration: String?) -> [String] {
        guard let configuration else { return names }
        let members = configurations[configuration] ?? []
        return names.filter(members.contains)
    }
}

/// An entity's Swift type.
private struct EntityType: Hashable, Sendable {
    let type: any SyncedRecord.Type

    static func == (a: EntityType, b: EntityType) -> Bool { a.type == b.type }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(type)) }
}

extension MirrorModel {
    /// Returns the properties whose values in a row cannot be read, in the entity's order.
    func unreadProperties(of row: [DatabaseValue], _ table: TableLayout) -> [String] {
        func names<T: SyncedRecord>(_ type: T.Type) -> [String] {
            var reader = RowReader<T>(table)
            _ = try? reader.read("unread", row)
            return reader.unread.map(\.property)
        }
        let ofType = types[table.name].map { names($0.type) } ?? []
        return table.columns.indices.filter { position in
            let (column, value) = (table.columns[position], row[position])
            return ofType.contains(column.name)
                || !value.isNull && value != column.attribute?.defaultValue ?? .null && !column.canHold(value)
        }.map { table.columns[$0].name }
    }
}

extension ColumnLayout {
    /// Returns whether the column's type allows a value, as far as that can be decided without a Swift type.
    fileprivate func canHold(_ value: DatabaseValue) -> Bool {
        guard RecordMapping.fieldValue(value, self) != nil else { return false }
        return switch attribute?.type {
        case .uri: String.fromDatabaseValue(value).flatMap { URL(string: $0) } != nil
        case .uuid: String.fromDatabaseValue(value).flatMap { UUID(uuidString: $0) } != nil
        default: true
        }
    }
}

/// A table of a store: an entity's, or a join table of a many-to-many relationship.
struct TableLayout: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case entity(Entity)
        case pairs(JoinTableLayout)
    }

    let name: String
    let kind: Kind
    /// All columns but `id`, which is the first in the file.
    let columns: [ColumnLayout]
    /// Column positions by name.
    let index: [String: Int]
    /// Prepared SQL texts for the table.
    let sql: TableSQL
    /// The positions of columns with links.
    let links: [Int]
    /// The positions of columns whose later edit wins.
    let lastEditWinsColumns: [Int]
    /// The positions of columns with dates.
    let dates: [Int]
    /// The position of the link to the parent record.
    let parent: Int?

    init(name: String, kind: Kind, columns: [ColumnLayout]) {
        self.name = name
        self.kind = kind
        self.columns = columns
        index = Dictionary(columns.enumerated().map { ($0.element.name, $0.offset) }) { first, _ in first }
        sql = TableSQL(name, columns)
        links = columns.indices.filter { columns[$0].link != nil }
        lastEditWinsColumns = columns.indices.filter { columns[$0].lastEditWins }
        dates = columns.indices.filter { columns[$0].isDate }
        parent = columns.firstIndex { $0.link?.isParent == true }
    }

    var entity: Entity? {
        if case .entity(let entity) = kind { entity } else { nil }
    }
}

/// One column of a table.
struct ColumnLayout: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case attribute(Attribute)
        /// A column with the id of an object of the relationship's entity.
        case link(Relationship)
    }

    let name: String
    let kind: Kind
    /// The column of the other entity that is the inverse of a one-to-one relationship.
    var inverseLink: String?

    var link: Relationship? {
        if case .link(let relationship) = kind { relationship } else { nil }
    }

    var attribute: Attribute? {
        if case .attribute(let attribute) = kind { attribute } else { nil }
    }

    var lastEditWins: Bool {
        switch kind {
        case .attribute(let attribute): attribute.lastEditWins
        case .link(let link): link.lastEditWins
        }
    }
}

/// A join table of a many-to-many relationship, with its ends in the order in which the relay's records name them.
struct JoinTableLayout: Hashable, Sendable {
    struct End: Hashable, Sendable {
        let entity: String
        let relationship: String
    }

    /// The end whose entity is first in alphabetical order; its objects are in the column `source`.
    let first: End
    let second: End

    var tableName: String { "\(first.entity)_\(first.relationship)" }

    /// Returns the column with the objects of one end.
    func column(of relationship: String, in entity: String) -> String {
        first.entity == entity && first.relationship == relationship ? "source" : "target"
    }

    /// Returns the id of the row that links two objects, so that two devices that link the same objects write the same
    /// record.
    func name(of source: String, _ target: String) -> String {
        let text = "\(tableName).\(source).\(target)"
        return text.utf8.count <= 255 ? text : ShortName.of(text)
    }
}

extension MirrorModel {
    /// Returns the tables of a configuration.
    func tables(in configuration: String?) -> [TableLayout] {
        let members = entityNames(in: configuration).compactMap { entities[$0] }
        let pairs = members.flatMap { self.pairs(of: $0) }
        var seen: Set<JoinTableLayout> = []
        return members.map(table) + pairs.filter { seen.insert($0).inserted }.map(Self.table)
    }

    private func table(_ entity: Entity) -> TableLayout {
        let attributes = entity.attributes.map { ColumnLayout(name: $0.name, kind: .attribute($0)) }
        let links = entity.relationships.filter { !$0.isToMany }.map { link in
            let inverseLink = inverse(of: link).flatMap { $0.isToMany ? nil : $0.name }
            return ColumnLayout(name: link.name, kind: .link(link), inverseLink: inverseLink)
        }
        return TableLayout(name: entity.name, kind: .entity(entity), columns: attributes + links)
    }

    private static func table(_ pairs: JoinTableLayout) -> TableLayout {
        func column(_ name: String, _ end: JoinTableLayout.End) -> ColumnLayout {
            var link = Relationship(name, to: end.entity, isToMany: false, inverse: nil)
            // A row without one of its ends has no meaning.
            link.deleteRule = .cascade
            return ColumnLayout(name: name, kind: .link(link))
        }
        return TableLayout(
            name: pairs.tableName,
            kind: .pairs(pairs),
            columns: [column("source", pairs.first), column("target", pairs.second)]
        )
    }

    /// Returns the inverse relationship.
    func inverse(of relationship: Relationship) -> Relationship? {
        guard let name = relationship.inverse else { return nil }
        return entities[relationship.destination]?.relationships.first { $0.name == name }
    }

    /// Returns the join table of a many-to-many relationship; `nil` for all others.
    func pair(_ relationship: Relationship, of entity: String) -> JoinTableLayout? {
        guard relationship.isToMany, let inverseLink = inverse(of: relationship), inverseLink.isToMany else {
            return nil
        }
        let here = JoinTableLayout.End(entity: entity, relationship: relationship.name)
        let there = JoinTableLayout.End(entity: relationship.destination, relationship: inverseLink.name)
        let isFirst = (here.entity, here.relationship) <= (there.entity, there.relationship)
        return isFirst ? JoinTableLayout(first: here, second: there) : JoinTableLayout(first: there, second: here)
    }

    private func pairs(of entity: Entity) -> [JoinTableLayout] {
        entity.relationships.compactMap { pair($0, of: entity.name) }
    }
}

/// Reads an entity from a Swift type: the names and types are taken from an object with all defaults.
enum TypeReader {
    static func entity<T: SyncedRecord>(of type: T.Type) -> Entity {
        let example = T()
        var entity = Entity(T.entityName)
        let defaults = (try? RowEncoder.values(of: example) { _, _, _ in true })?.values ?? [:]
        for (label, value) in Mirror(reflecting: example).children {
            guard let label, label != "id" else { continue }
            if let link = value as? any LinkProperty {
                entity.relationships.append(link.relationship(named: label))
                continue
            }
            let (type, isOptional) = kind(of: Swift.type(of: value))
            var attribute = Attribute(label, type, isOptional: isOptional, hasDefault: true)
            let value = defaults[label] ?? (isOptional ? .null : type.zero)
            attribute.defaultValue = type == .date ? ExactDate.inSQL(value) : value
            entity.attributes.append(attribute)
        }
        T.describe(&entity)
        return entity
    }

    private static func kind(of type: Any.Type) -> (AttributeType, isOptional: Bool) {
        if let optional = type as? any OptionalProperty.Type { return (kind(of: optional.wrapped).0, true) }
        switch type {
        case is String.Type: return (.string, false)
        case is Bool.Type: return (.boolean, false)
        case is any BinaryInteger.Type: return (.integer, false)
        case is any BinaryFloatingPoint.Type: return (.double, false)
        case is Date.Type: return (.date, false)
        case is Data.Type: return (.data, false)
        case is UUID.Type: return (.uuid, false)
        case is URL.Type: return (.uri, false)
        case is RecordName.Type: return (.string, false)
        default: return (.transformable, false)
        }
    }
}

/// An optional of any wrapped type.
private protocol OptionalProperty {
    static var wrapped: Any.Type { get }
}

extension Optional: OptionalProperty {
    fileprivate static var wrapped: Any.Type { Wrapped.self }
}
