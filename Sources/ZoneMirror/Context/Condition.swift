import Foundation
public import GRDB
import Synchronization

/// A condition on the objects of an entity, made with operators on key paths.
///
///     \Note.done == false && .hasPrefix(\.title, "Buy")
///
/// Text is compared byte by byte. A missing value is less than any other, and equal only to `nil`.
public struct Condition<T: SyncedRecord>: Sendable {
    let sql: String
    let arguments: [DatabaseValue]
    /// Evaluates the condition for an object that is not in the file yet; `nil` if only SQLite can.
    let test: (@Sendable (T) -> Bool)?
    /// The error that occurred when the condition was created.
    let problem: MirrorError?

    init(
        _ sql: String,
        _ arguments: [DatabaseValue] = [],
        problem: MirrorError? = nil,
        test: (@Sendable (T) -> Bool)?
    ) {
        self.sql = sql
        self.arguments = arguments
        self.problem = problem
        self.test = test
    }

    /// Creates a condition from SQL over the entity's columns.
    ///
    /// It does not find objects that the context has not saved yet.
    ///
    /// - Parameters:
    ///   - text: The expression after `WHERE`, with a question mark for each argument.
    ///   - arguments: The values of the question marks.
    /// - Returns: The condition.
    public static func sql(_ text: String, _ arguments: any DatabaseValueConvertible & Sendable...) -> Condition {
        Condition("(\(text))", arguments.map(\.databaseValue), test: nil)
    }

    /// Matches the objects with these names.
    public static func ids(_ names: [RecordName]) -> Condition {
        let wanted = Set(names)
        // Passed as one argument, because a statement has a maximum number of arguments.
        let list = String(decoding: (try? JSONEncoder().encode(names.map(\.text))) ?? Data("[]".utf8), as: UTF8.self)
        return Condition("id IN (SELECT value FROM json_each(?))", [list.databaseValue]) { wanted.contains($0.id) }
    }

    static func compare<V: Encodable & Sendable>(
        _ path: any KeyPath<T, V> & Sendable,
        _ operation: String,
        _ value: V,
        _ test: @escaping @Sendable (V, V) -> Bool
    ) -> Condition {
        do {
            let column = try PropertyNames.name(of: path).quoted
            var operand = try RowEncoder.column(value)
            if value is Date? { operand = ExactDate.inSQL(operand) }
            if operand.isNull {
                let isEqual = operation == "="
                return Condition("\(column) IS \(isEqual ? "" : "NOT ")NULL") { test($0[keyPath: path], value) }
            }
            let comparison = operation == "<>" ? "IS NOT" : operation
            return Condition("\(column) \(comparison) ?", [operand]) { test($0[keyPath: path], value) }
        } catch {
            return Condition("0", problem: MirrorError(from: error), test: nil)
        }
    }

    /// Matches if both conditions do.
    public static func && (a: Condition, b: Condition) -> Condition { a.joined(b, "AND") { $0 && $1 } }
    /// Matches if at least one condition does.
    public static func || (a: Condition, b: Condition) -> Condition { a.joined(b, "OR") { $0 || $1 } }

    /// Matches if the condition does not.
    public static prefix func ! (a: Condition) -> Condition {
        var negated: (@Sendable (T) -> Bool)?
        if let test = a.test { negated = { !test($0) } }
        return Condition("NOT coalesce(\(a.sql), 0)", a.arguments, problem: a.problem, test: negated)
    }

    private func joined(
        _ other: Condition,
        _ word: String,
        _ join: @escaping @Sendable (Bool, Bool) -> Bool
    ) -> Condition {
        let (first, second) = (test, other.test)
        var test: (@Sendable (T) -> Bool)?
        if let first, let second { test = { join(first($0), second($0)) } }
        return Condition(
            "(\(sql) \(word) \(other.sql))",
            arguments + other.arguments,
            problem: problem ?? other.problem,
            test: test
        )
    }
}

/// Matches objects whose property equals the value.
public func == <T: SyncedRecord, V: Encodable & Equatable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "=", value) { $0 == $1 } }

/// Matches objects whose property differs from the value.
public func != <T: SyncedRecord, V: Encodable & Equatable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<>", value) { $0 != $1 } }

/// Matches objects whose property is less than the value.
public func < <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<", value) { $0 < $1 } }

/// Matches objects whose property is less than or equal to the value.
public func <= <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<=", value) { $0 <= $1 } }

/// Matches objects whose property is greater than the value.
public func > <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, ">", value) { $0 > $1 } }

/// Matches objects whose property is greater than or equal to the value.
public func >= <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, ">=", value) { $0 >= $1 } }

/// Matches objects whose link points to the target.
public func == <T: SyncedRecord, Target: SyncedRecord>(
    path: any KeyPath<T, ToOne<Target>> & Sendable,
    target: Target
) -> Condition<T> { .compare(path, "=", ToOne(target.id)) { $0 == $1 } }

extension Condition {
    /// Matches objects whose text property has the prefix.
    public static func hasPrefix(_ path: any KeyPath<T, String> & Sendable, _ text: String) -> Condition {
        do {
            let column = try PropertyNames.name(of: path).quoted
            // SQLite counts code points; Swift counts grapheme clusters.
            let length = text.unicodeScalars.count.databaseValue
            return Condition("substr(\(column), 1, ?) = ?", [length, text.databaseValue]) {
                $0[keyPath: path].utf8.starts(with: text.utf8)
            }
        } catch {
            return Condition("0", problem: MirrorError(from: error), test: nil)
        }
    }
}

/// A sort criterion for fetched objects.
public struct SortKey<T: SyncedRecord>: Sendable {
    let sql: String
    let problem: MirrorError?
    /// Whether the first object goes before the second; `nil` if the key does not order them.
    let precedes: @Sendable (T, T) -> Bool?

    /// Sorts in ascending order.
    public static func ascending<V: Comparable & Encodable & Sendable>(_ path: any KeyPath<T, V> & Sendable) -> SortKey
    {
        make(path, "ASC") { $0[keyPath: path] == $1[keyPath: path] ? nil : $0[keyPath: path] < $1[keyPath: path] }
    }

    /// Sorts in descending order.
    public static func descending<V: Comparable & Encodable & Sendable>(_ path: any KeyPath<T, V> & Sendable) -> SortKey
    {
        make(path, "DESC") { $0[keyPath: path] == $1[keyPath: path] ? nil : $0[keyPath: path] > $1[keyPath: path] }
    }

    private static func make<V: Encodable & Sendable>(
        _ path: any KeyPath<T, V> & Sendable,
        _ word: String,
        _ precedes: @escaping @Sendable (T, T) -> Bool?
    ) -> SortKey {
        do {
            return SortKey(sql: "\(try PropertyNames.name(of: path).quoted) \(word)", problem: nil, precedes: precedes)
        } catch {
            return SortKey(sql: "id", problem: MirrorError(from: error), precedes: precedes)
        }
    }
}

/// A fetch request.
public struct FetchRequest<T: SyncedRecord>: Sendable {
    /// The condition for objects; `nil` means all.
    public var predicate: Condition<T>?
    /// The sort order; objects are sorted by name if empty.
    public var sorts: [SortKey<T>] = []
    /// The maximum number of objects; a negative number means 0.
    public var limit: Int?
    /// The number of objects to skip; a negative number means 0.
    public var offset = 0
    /// The stores to search; `nil` means all that hold the entity.
    public var affectedStores: [StoreID]?
    /// Whether objects marked as deleted are found.
    public var includesSoftDeleted = false
    /// Whether unsaved changes of the context are included.
    public var includesPendingChanges = true

    /// Creates a fetch request.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition for objects. The default is all.
    ///   - sorts: The sort order.
    public init(_ type: T.Type = T.self, _ predicate: Condition<T>? = nil, sortedBy sorts: SortKey<T>...) {
        self.predicate = predicate
        self.sorts = sorts
    }
}

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
        _ table: TableLayout,
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
    private static func different(_ column: ColumnLayout, from value: DatabaseValue) -> DatabaseValue? {
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
