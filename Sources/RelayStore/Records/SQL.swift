import GRDB
import GRDBSQLite

/// A prepared statement of one connection, used through SQLite's C functions.
///
/// The relay's hot paths bind and read a dozen columns per row, where boxed values would cost as much again as SQLite
/// itself. The statement belongs to the connection's cache: use it within one access, and call `reset` at the end.
struct SQL {
    private let handle: OpaquePointer
    private let database: Database

    init(_ text: String, in database: Database) throws {
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

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func unsigned(_ column: Int32) -> UInt64 { UInt64(bitPattern: sqlite3_column_int64(handle, column)) }
    func real(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }
    func bool(_ column: Int32) -> Bool { sqlite3_column_int64(handle, column) != 0 }
    /// Returns one of SQLite's five types, such as `SQLITE_INTEGER`.
    func valueType(_ column: Int32) -> Int32 { sqlite3_column_type(handle, column) }
    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func text(_ column: Int32) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    func blob(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }

    /// Returns a text column's UTF-8 without copying it.
    ///
    /// Valid until the next step, or until the column is read as another type.
    func borrowedText(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
        guard let start = sqlite3_column_text(handle, column) else { return UnsafeBufferPointer(start: nil, count: 0) }
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    /// Returns a blob without copying it; valid as long as `borrowedText`.
    func borrowedBlob(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
        let start = sqlite3_column_blob(handle, column)?.assumingMemoryBound(to: UInt8.self)
        return UnsafeBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column)))
    }
}
