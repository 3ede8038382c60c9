import Foundation
public import GRDB

/// Which objects of an entity to find: made with operators on key paths.
///
///     \Note.done == false && .hasPrefix(\.title, "Buy")
///
/// Text is compared byte by byte. An absent value is less than any other, and equal to none but `nil`.
public struct Condition<T: SyncedRecord>: Sendable {
    let sql: String
    let arguments: [DatabaseValue]
    /// The same for an object that is not in the file yet; `nil` where only SQLite can tell.
    let test: (@Sendable (T) -> Bool)?
    /// What kept the condition from being made.
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

    /// A condition in SQL over the entity's columns.
    ///
    /// Objects that a context has not saved yet are not found by it.
    ///
    /// - Parameters:
    ///   - text: What follows `WHERE`, with a question mark for each argument.
    ///   - arguments: The values of the question marks.
    /// - Returns: The condition.
    public static func sql(_ text: String, _ arguments: any DatabaseValueConvertible & Sendable...) -> Condition {
        Condition("(\(text))", arguments.map(\.databaseValue), test: nil)
    }

    /// The objects of these names.
    public static func ids(_ names: [RecordName]) -> Condition {
        let wanted = Set(names)
        // One argument, since a statement takes only so many.
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

    /// Both hold.
    public static func && (a: Condition, b: Condition) -> Condition { a.joined(b, "AND") { $0 && $1 } }
    /// One holds, or both.
    public static func || (a: Condition, b: Condition) -> Condition { a.joined(b, "OR") { $0 || $1 } }

    /// It does not hold.
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

/// Objects whose property has this value.
public func == <T: SyncedRecord, V: Encodable & Equatable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "=", value) { $0 == $1 } }

/// Objects whose property has another value.
public func != <T: SyncedRecord, V: Encodable & Equatable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<>", value) { $0 != $1 } }

/// Objects whose property is smaller.
public func < <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<", value) { $0 < $1 } }

/// Objects whose property is smaller or the same.
public func <= <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, "<=", value) { $0 <= $1 } }

/// Objects whose property is greater.
public func > <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, ">", value) { $0 > $1 } }

/// Objects whose property is greater or the same.
public func >= <T: SyncedRecord, V: Encodable & Comparable & Sendable>(
    path: any KeyPath<T, V> & Sendable,
    value: V
) -> Condition<T> { .compare(path, ">=", value) { $0 >= $1 } }

/// Objects whose link leads to this one.
public func == <T: SyncedRecord, Target: SyncedRecord>(
    path: any KeyPath<T, ToOne<Target>> & Sendable,
    target: Target
) -> Condition<T> { .compare(path, "=", ToOne(target.id)) { $0 == $1 } }

extension Condition {
    /// Objects whose text begins with this one.
    public static func hasPrefix(_ path: any KeyPath<T, String> & Sendable, _ text: String) -> Condition {
        do {
            let column = try PropertyNames.name(of: path).quoted
            // SQLite counts code points where Swift counts what a person sees as one character.
            let length = text.unicodeScalars.count.databaseValue
            return Condition("substr(\(column), 1, ?) = ?", [length, text.databaseValue]) {
                $0[keyPath: path].utf8.starts(with: text.utf8)
            }
        } catch {
            return Condition("0", problem: MirrorError(from: error), test: nil)
        }
    }
}

/// What fetched objects are sorted by.
public struct SortKey<T: SyncedRecord>: Sendable {
    let sql: String
    let problem: MirrorError?
    /// Whether the first goes before the second; `nil` where they are the same to it.
    let precedes: @Sendable (T, T) -> Bool?

    /// From small to great.
    public static func ascending<V: Comparable & Encodable & Sendable>(_ path: any KeyPath<T, V> & Sendable) -> SortKey
    {
        make(path, "ASC") { $0[keyPath: path] == $1[keyPath: path] ? nil : $0[keyPath: path] < $1[keyPath: path] }
    }

    /// From great to small.
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

/// What to fetch.
public struct FetchRequest<T: SyncedRecord>: Sendable {
    /// Which objects; `nil`: all.
    public var predicate: Condition<T>?
    /// In what order; without any, by name.
    public var sorts: [SortKey<T>] = []
    /// How many at most; a number below 0 is as good as 0.
    public var limit: Int?
    /// How many of the first to leave out; a number below 0 is as good as 0.
    public var offset = 0
    /// The stores to look in; `nil`: all that hold the entity.
    public var affectedStores: [StoreID]?
    /// Objects marked as deleted are found too.
    public var includesSoftDeleted = false
    /// Changes of the context that are not saved yet count.
    public var includesPendingChanges = true

    /// Says what to fetch.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: Which objects; left out, all.
    ///   - sorts: In what order.
    public init(_ type: T.Type = T.self, _ predicate: Condition<T>? = nil, sortedBy sorts: SortKey<T>...) {
        self.predicate = predicate
        self.sorts = sorts
    }
}
