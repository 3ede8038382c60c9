package import GRDB
import GRDBSQLite

/// A prepared statement of one connection, used through SQLite's C functions.
///
/// The relay's hot paths bind and read a dozen columns per row, where boxed values would cost as much again as SQLite
/// itself. The statement belongs to the connection's cache: use it within one access, and call `reset` at the end.
package struct SQL: RowColumns {
    private let handle: OpaquePointer
    private let database: Database

    package init(_ text: String, in database: Database) throws {
        self.init(try database.cachedStatement(sql: text).sqliteStatement, of: database)
    }

    init(_ handle: OpaquePointer, of database: Database) {
        self.handle = handle
        self.database = database
    }

    // MARK: Binding, parameters counted from 1

    func bind(_ index: Int32, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }
    func bind(_ index: Int32, _ value: UInt64) { sqlite3_bind_int64(handle, index, Int64(bitPattern: value)) }
    func bind(_ index: Int32, _ value: Bool) { sqlite3_bind_int64(handle, index, value ? 1 : 0) }

    func bind(_ index: Int32, _ value: Double) { sqlite3_bind_double(handle, index, value) }

    func bind(_ index: Int32, _ value: String?) {
        guard var value else {
            sqlite3_bind_null(handle, index)
            return
        }
        value.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) {
                _ = sqlite3_bind_text(handle, index, $0.baseAddress ?? Self.nothing, Int32(text.count), Self.copied)
            }
        }
    }

    func bind(_ index: Int32, blob value: [UInt8]?) {
        guard let value else {
            sqlite3_bind_null(handle, index)
            return
        }
        value.withUnsafeBytes { bytes in
            _ = sqlite3_bind_blob64(
                handle,
                index,
                bytes.baseAddress ?? UnsafeRawPointer(Self.nothing),
                UInt64(bytes.count),
                Self.copied
            )
        }
    }

    /// Binds text without copying it: the bytes must stay in place until the statement is reset.
    func bind(_ index: Int32, borrowedText text: UnsafeBufferPointer<UInt8>) {
        text.withMemoryRebound(to: CChar.self) {
            _ = sqlite3_bind_text(handle, index, $0.baseAddress ?? Self.nothing, Int32(text.count), nil)
        }
    }

    func bind(_ index: Int32, borrowedBlob bytes: UnsafeRawBufferPointer) {
        let start = bytes.baseAddress ?? UnsafeRawPointer(Self.nothing)
        _ = sqlite3_bind_blob64(handle, index, start, UInt64(bytes.count), nil)
    }

    /// Makes SQLite copy a value before the call returns.
    private static var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
    /// An address for empty values, since a null pointer would bind NULL.
    ///
    /// Points to static memory.
    private static var nothing: UnsafePointer<CChar> {
        UnsafeRawPointer(StaticString("").utf8Start).assumingMemoryBound(to: CChar.self)
    }

    // MARK: Stepping

    /// Advances to the next row; returns `false` after the last one.
    func step() throws -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw failure()
        }
    }

    /// Runs a statement that returns no rows, and resets it.
    func run() throws {
        defer { reset() }
        while try step() {}
    }

    func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    private func failure() -> DatabaseError {
        let code = sqlite3_extended_errcode(database.sqliteConnection)
        return DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: String(cString: sqlite3_errmsg(database.sqliteConnection))
        )
    }

    // MARK: Columns of the current row, counted from 0

    package func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func real(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }
    /// Returns one of SQLite's five types, such as `SQLITE_INTEGER`.
    func valueType(_ column: Int32) -> Int32 { sqlite3_column_type(handle, column) }
    package func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// Returns a text column's UTF-8 without copying it.
    ///
    /// Valid until the next step, or until the column is read as another type.
    package func borrowedText(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
        guard let start = sqlite3_column_text(handle, column) else { return UnsafeBufferPointer(start: nil, count: 0) }
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    /// Returns a blob without copying it; valid as long as `borrowedText`.
    package func borrowedBlob(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
        let start = sqlite3_column_blob(handle, column)?.assumingMemoryBound(to: UInt8.self)
        return UnsafeBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column)))
    }
}

/// The columns of a row, counted from 0.
package protocol RowColumns {
    func int(_ column: Int32) -> Int64
    func isNull(_ column: Int32) -> Bool
    func borrowedText(_ column: Int32) -> UnsafeBufferPointer<UInt8>
    func borrowedBlob(_ column: Int32) -> UnsafeBufferPointer<UInt8>
}

extension RowColumns {
    package func unsigned(_ column: Int32) -> UInt64 { UInt64(bitPattern: int(column)) }
    package func bool(_ column: Int32) -> Bool { int(column) != 0 }
    package func text(_ column: Int32) -> String { String(decoding: borrowedText(column), as: UTF8.self) }
    package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }
    package func blob(_ column: Int32) -> [UInt8] { Array(borrowedBlob(column)) }
}

/// Passes rows to a closure from inside a statement, which calls the SQL function `visit` with their columns.
///
/// This takes a quarter of SQLite's time for a row less than stepping to it and asking for each column. In the
/// statement, `CASE WHEN condition THEN visit(...) END` is the last condition of a scan in the wanted order: SQLite
/// evaluates the result only if the condition is true (sqlite.org/lang_expr.html, "The CASE expression"). `visit` is
/// true for the row that ends the scan.
package final class RowVisitor {
    /// The statements that it runs; GRDB has a type with the name `SQL` too.
    package typealias Statement = SQL

    private var body: ((Row) -> Bool)?

    /// The arguments of `visit`.
    package struct Row: RowColumns {
        fileprivate let values: UnsafeMutablePointer<OpaquePointer?>

        package func int(_ column: Int32) -> Int64 { sqlite3_value_int64(values[Int(column)]) }
        package func isNull(_ column: Int32) -> Bool { sqlite3_value_type(values[Int(column)]) == SQLITE_NULL }

        package func borrowedText(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
            let value = values[Int(column)]
            let start = sqlite3_value_text(value)
            return UnsafeBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_value_bytes(value)))
        }

        package func borrowedBlob(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
            let value = values[Int(column)]
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return UnsafeBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_value_bytes(value)))
        }
    }

    /// Adds `visit` with so many arguments to a connection, which keeps this object until it closes.
    package init(_ database: Database, columns: Int32) throws {
        let status = sqlite3_create_function_v2(
            database.sqliteConnection,
            "visit",
            columns,
            SQLITE_UTF8 | SQLITE_DIRECTONLY,
            Unmanaged.passRetained(self).toOpaque(),
            { context, _, values in
                guard let visitor = sqlite3_user_data(context), let values else { return }
                let body = Unmanaged<RowVisitor>.fromOpaque(visitor).takeUnretainedValue().body
                sqlite3_result_int(context, body?(Row(values: values)) == false ? 1 : 0)
            },
            nil,
            nil,
            { visitor in visitor.map { Unmanaged<RowVisitor>.fromOpaque($0).release() } }
        )
        guard status == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: status)) }
    }

    /// Runs a statement and resets it; `body` returns whether to continue with the next row.
    package func visit(_ statement: SQL, _ body: (Row) throws -> Bool) throws {
        try withoutActuallyEscaping(body) { body in
            // Not `nil` if a visit has begun another one.
            let outer = self.body
            var failure: (any Error)?
            self.body = { row in
                do {
                    return try body(row)
                } catch {
                    failure = error
                    return false
                }
            }
            defer {
                self.body = outer
                statement.reset()
            }
            _ = try statement.step()
            if let failure { throw failure }
        }
    }
}
