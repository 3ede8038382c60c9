import Foundation
import GRDB
import Synchronization

/// Finds the name of the property that a key path refers to.
///
/// Swift has no API for this. So objects are decoded in which a single property differs from its default; the one for
/// which the key path's value differs has the name. Done once for each path.
enum PropertyNames {
    /// Sendable because a key path is immutable.
    private struct Path: Hashable, @unchecked Sendable {
        let path: AnyKeyPath
    }

    private static let known = Mutex<[Path: String]>([:])

    static func name<T: SyncedRecord, V>(of path: KeyPath<T, V>) throws(MirrorError) -> String {
        let key = Path(path: path)
        if let name = known.withLock({ $0[key] }) { return name }
        let name = try find(path)
        known.withLock { $0[key] = name }
        return name
    }

    private static func find<T: SyncedRecord, V>(_ path: KeyPath<T, V>) throws(MirrorError) -> String {
        if V.self == RecordName.self { return "id" }
        let model = MirrorModel(T.self)
        guard let table = model.tables(in: nil).first(where: { $0.name == T.entityName }) else { throw unknown(T.self) }
        let plain = table.columns.map { $0.attribute?.defaultValue ?? .null }
        for (position, column) in table.columns.enumerated() {
            guard let other = different(column, from: plain[position]) else { continue }
            var changed = plain
            changed[position] = other
            if try differs(path, table, plain, changed) { return column.name }
        }
        throw unknown(T.self)
    }

    private static func differs<T: SyncedRecord, V>(
        _ path: KeyPath<T, V>,
        _ table: TableForm,
        _ plain: [DatabaseValue],
        _ changed: [DatabaseValue]
    ) throws(MirrorError) -> Bool {
        var reader = RowReader<T>(table)
        guard let first = try? reader.read("probe", plain), let second = try? reader.read("probe", changed)
        else { return false }
        return text(first[keyPath: path]) != text(second[keyPath: path])
    }

    private static func text(_ value: some Any) -> String { String(reflecting: value) }

    /// Returns another value of the column's type.
    private static func different(_ column: ColumnForm, from value: DatabaseValue) -> DatabaseValue? {
        guard let attribute = column.attribute else { return "probe-link".databaseValue }
        switch attribute.type {
        case .string: return ((String.fromDatabaseValue(value) ?? "") + "probe").databaseValue
        case .integer: return ((Int64.fromDatabaseValue(value) ?? 0) == 1 ? 2 : 1).databaseValue
        case .boolean: return (!(Bool.fromDatabaseValue(value) ?? false)).databaseValue
        case .double, .date: return ((Double.fromDatabaseValue(value) ?? 0) + 1).databaseValue
        case .data: return Data([1, 2, 3]).databaseValue
        case .uuid: return UUID().uuidString.databaseValue
        case .uri: return "probe://probe".databaseValue
        case .transformable, .undefined, .objectID: return nil
        }
    }

    private static func unknown<T: SyncedRecord>(_ type: T.Type) -> MirrorError {
        MirrorError(
            .unknownProperty,
            "The key path leads to no stored property of \(T.entityName) that a fetch can compare. Use Condition.sql."
        )
    }

    /// Returns the name of a to-many relationship.
    static func name<T: SyncedRecord, Target>(of path: KeyPath<T, ToMany<Target>>) throws(MirrorError) -> String {
        let model = MirrorModel(T.self)
        guard let table = model.tables(in: nil).first(where: { $0.name == T.entityName }) else { throw unknown(T.self) }
        let plain = table.columns.map { $0.attribute?.defaultValue ?? .null }
        var reader = RowReader<T>(table)
        guard let probe = try? reader.read("probe", plain) else { throw unknown(T.self) }
        let name = probe[keyPath: path].name
        guard !name.isEmpty else { throw unknown(T.self) }
        return name
    }
}
