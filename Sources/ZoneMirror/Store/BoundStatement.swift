import Foundation
import GRDB
import GRDBSQLite

/// A cached statement of a connection that is bound, run and read through SQLite's C functions.
///
/// For work that is done once per record: boxed values would cost as much again as SQLite itself. Use it within one
/// database access only; do not store it. Parameters are counted from 1, columns from 0.
struct BoundStatement {
    private let handle: OpaquePointer

    init(_ db: Database, _ sql: String) throws { self.init(try db.cachedStatement(sql: sql)) }

    init(_ statement: Statement) {
        handle = statement.sqliteStatement
        sqlite3_reset(handle)
    }

    func bind(_ index: Int32, _ value: Int64?) {
        if let value { sqlite3_bind_int64(handle, index, value) } else { sqlite3_bind_null(handle, index) }
    }

    func bind(_ index: Int32, _ value: String?) {
        guard var value else {
            sqlite3_bind_null(handle, index)
            return
        }
        value.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) { bytes in
                _ = sqlite3_bind_text(handle, index, bytes.baseAddress ?? Self.nothing, Int32(bytes.count), Self.copied)
            }
        }
    }

    func bind(_ index: Int32, _ value: some ContiguousBytes) {
        value.withUnsafeBytes { bytes in
            let start = bytes.baseAddress ?? UnsafeRawPointer(Self.nothing)
            _ = sqlite3_bind_blob64(handle, index, start, UInt64(bytes.count), Self.copied)
        }
    }

    func bind(_ index: Int32, _ value: DatabaseValue) {
        switch value.storage {
        case .null: sqlite3_bind_null(handle, index)
        case .int64(let number): sqlite3_bind_int64(handle, index, number)
        case .double(let number): sqlite3_bind_double(handle, index, number)
        case .string(let text): bind(index, text)
        case .blob(let data): bind(index, data)
        }
    }

    /// Runs the statement and returns the number of changed rows.
    func run() throws -> Int {
        let code = sqlite3_step(handle)
        let count = Int(sqlite3_changes(sqlite3_db_handle(handle)))
        sqlite3_reset(handle)
        guard code == SQLITE_DONE else { throw failure(code) }
        return count
    }

    /// Returns the first row as `read` converts it, or `nil` if there is none.
    func first<Value>(_ read: (BoundStatement) -> Value) throws -> Value? {
        let code = sqlite3_step(handle)
        defer { sqlite3_reset(handle) }
        switch code {
        case SQLITE_ROW: return read(self)
        case SQLITE_DONE: return nil
        default: throw failure(code)
        }
    }

    /// Returns every row as `read` converts it.
    ///
    /// `read` must not use this statement.
    func all<Value>(_ read: (BoundStatement) -> Value) throws -> [Value] {
        defer { sqlite3_reset(handle) }
        var values: [Value] = []
        while true {
            let code = sqlite3_step(handle)
            guard code == SQLITE_ROW else {
                if code != SQLITE_DONE { throw failure(code) }
                return values
            }
            values.append(read(self))
        }
    }

    private func failure(_ code: Int32) -> any Error {
        // Like GRDB: a statement is interrupted only by the cancellation of the task that runs it.
        if code & 0xFF == SQLITE_INTERRUPT { return CancellationError() }
        let message = sqlite3_errmsg(sqlite3_db_handle(handle)).map { String(cString: $0) }
        return DatabaseError(resultCode: ResultCode(rawValue: code), message: message)
    }

    // MARK: Columns of the current row

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }

    func bool(_ column: Int32) -> Bool { int(column) != 0 }

    func text(_ column: Int32) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    func optionalBytes(_ column: Int32) -> [UInt8]? {
        guard !isNull(column) else { return nil }
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    func value(_ column: Int32) -> DatabaseValue { DatabaseValue(sqliteStatement: handle, index: column) }

    /// Tells SQLite to copy what it is given before the call returns.
    private static var copied: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }
    /// A non-null address for empty values, because a null pointer would bind NULL.
    ///
    /// Never freed, on purpose.
    private static var nothing: UnsafePointer<CChar> {
        UnsafeRawPointer(StaticString("").utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
