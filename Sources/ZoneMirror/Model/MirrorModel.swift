import Foundation
import GRDB

/// All entities of an application, and which of them belong together in one store.
public struct MirrorModel: Hashable, Sendable {
    /// The entities by name.
    public private(set) var entities: [String: Entity]
    /// The entities' names in the order of their declaration.
    public private(set) var names: [String]
    /// Named sets of entities; a store description without a configuration holds all.
    public var configurations: [String: Set<String>]
    /// The Swift types of entities, where the model was made of those.
    private var types: [String: EntityType] = [:]

    /// A model of Swift types.
    ///
    /// - Parameters:
    ///   - types: The entities.
    ///   - configurations: Named sets of entities.
    public init(_ types: any SyncedRecord.Type..., configurations: [String: Set<String>] = [:]) {
        self.init(entities: types.map { Self.read($0) }, configurations: configurations)
        for type in types { self.types[type.entityName] = EntityType(type: type) }
    }

    /// A model of entities described one by one, for programs that have no Swift types for them.
    ///
    /// - Parameters:
    ///   - entities: The entities; of two with one name the last counts.
    ///   - configurations: Named sets of entities.
    public init(entities: [Entity], configurations: [String: Set<String>] = [:]) {
        self.entities = Dictionary(entities.map { ($0.name, $0) }) { $1 }
        var seen: Set<String> = []
        names = entities.map(\.name).filter { seen.insert($0).inserted }
        self.configurations = configurations
    }

    private static func read<T: SyncedRecord>(_ type: T.Type) -> Entity { TypeReader.entity(of: type) }

    /// The names of a configuration's entities, in the order of their declaration; all without a configuration.
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
    /// The properties of an object whose values in its row cannot be read, in the order of the entity.
    func unreadProperties(of row: [DatabaseValue], _ table: TableForm) -> [String] {
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

extension ColumnForm {
    /// Whether a value in the file is one of the column's type, as far as that says without a Swift type.
    fileprivate func canHold(_ value: DatabaseValue) -> Bool {
        guard RecordMapping.fieldValue(value, self) != nil else { return false }
        return switch attribute?.type {
        case .uri: String.fromDatabaseValue(value).flatMap { URL(string: $0) } != nil
        case .uuid: String.fromDatabaseValue(value).flatMap { UUID(uuidString: $0) } != nil
        default: true
        }
    }
}

/// A table of a store: an entity's own, or one of pairs between two entities.
struct TableForm: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case entity(Entity)
        case pairs(PairForm)
    }

    let name: String
    let kind: Kind
    /// All but `id`, which comes first in the file.
    let columns: [ColumnForm]
    /// Where each column stands.
    let index: [String: Int]
    /// The statements that every part of the mirror uses, made once.
    let sql: TableSQL
    /// The positions of the columns that hold links.
    let links: [Int]
    /// The positions of the columns in which the later edit wins.
    let timed: [Int]
    /// The positions of the columns that hold dates.
    let dates: [Int]
    /// The position of the link to the record's parent.
    let parent: Int?

    init(name: String, kind: Kind, columns: [ColumnForm]) {
        self.name = name
        self.kind = kind
        self.columns = columns
        index = Dictionary(columns.enumerated().map { ($0.element.name, $0.offset) }) { first, _ in first }
        sql = TableSQL(name, columns)
        links = columns.indices.filter { columns[$0].link != nil }
        timed = columns.indices.filter { columns[$0].lastEditWins }
        dates = columns.indices.filter { columns[$0].isDate }
        parent = columns.firstIndex { $0.link?.isParent == true }
    }

    var entity: Entity? {
        if case .entity(let entity) = kind { entity } else { nil }
    }
}

/// One column of a table.
struct ColumnForm: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case attribute(Attribute)
        /// Holds the name of an object of that entity.
        case link(Relationship)
    }

    let name: String
    let kind: Kind
    /// The other entity's column that leads back, where there is place for one at both ends.
    var back: String?

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

/// A link of many to many: which ends, in the order that the relay's records name them.
struct PairForm: Hashable, Sendable {
    struct End: Hashable, Sendable {
        let entity: String
        let relationship: String
    }

    /// The end whose entity comes first in the alphabet; its objects stand in the column `source`.
    let first: End
    let second: End

    var tableName: String { "\(first.entity)_\(first.relationship)" }

    /// The column in which the objects of one end stand.
    func column(of relationship: String, in entity: String) -> String {
        first.entity == entity && first.relationship == relationship ? "source" : "target"
    }

    /// What the row of two objects is called: two devices that link the same two write the same record.
    func name(of source: String, _ target: String) -> String {
        let text = "\(tableName).\(source).\(target)"
        return text.utf8.count <= 255 ? text : ShortName.of(text)
    }
}

extension MirrorModel {
    /// The tables of a configuration.
    func tables(in configuration: String?) -> [TableForm] {
        let members = entityNames(in: configuration).compactMap { entities[$0] }
        let pairs = members.flatMap { self.pairs(of: $0) }
        var seen: Set<PairForm> = []
        return members.map(table) + pairs.filter { seen.insert($0).inserted }.map(Self.table)
    }

    private func table(_ entity: Entity) -> TableForm {
        let attributes = entity.attributes.map { ColumnForm(name: $0.name, kind: .attribute($0)) }
        let links = entity.relationships.filter { !$0.isToMany }.map { link in
            let back = inverse(of: link).flatMap { $0.isToMany ? nil : $0.name }
            return ColumnForm(name: link.name, kind: .link(link), back: back)
        }
        return TableForm(name: entity.name, kind: .entity(entity), columns: attributes + links)
    }

    private static func table(_ pairs: PairForm) -> TableForm {
        func column(_ name: String, _ end: PairForm.End) -> ColumnForm {
            var link = Relationship(name, to: end.entity, isToMany: false, inverse: nil)
            // A pair without one of its ends means nothing.
            link.deleteRule = .cascade
            return ColumnForm(name: name, kind: .link(link))
        }
        return TableForm(
            name: pairs.tableName,
            kind: .pairs(pairs),
            columns: [column("source", pairs.first), column("target", pairs.second)]
        )
    }

    /// The relationship that leads back.
    func inverse(of relationship: Relationship) -> Relationship? {
        guard let name = relationship.inverse else { return nil }
        return entities[relationship.destination]?.relationships.first { $0.name == name }
    }

    /// The pair table behind a relationship of many to many; `nil` for all others.
    func pair(_ relationship: Relationship, of entity: String) -> PairForm? {
        guard relationship.isToMany, let back = inverse(of: relationship), back.isToMany else { return nil }
        let here = PairForm.End(entity: entity, relationship: relationship.name)
        let there = PairForm.End(entity: relationship.destination, relationship: back.name)
        let isFirst = (here.entity, here.relationship) <= (there.entity, there.relationship)
        return isFirst ? PairForm(first: here, second: there) : PairForm(first: there, second: here)
    }

    private func pairs(of entity: Entity) -> [PairForm] {
        entity.relationships.compactMap { pair($0, of: entity.name) }
    }
}
