#if Postgres
    import CPostgres

    /// The rows that a statement returned, in libpq's memory.
    package final class PostgresRows {
        let result: OpaquePointer

        init(_ result: OpaquePointer) { self.result = result }

        deinit { PQclear(result) }

        /// The number of rows that the statement changed, or returned.
        package var changed: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }

        package var first: PostgresRow? { isEmpty ? nil : self[0] }
    }

    extension PostgresRows: RandomAccessCollection {
        package var startIndex: Int { 0 }
        package var endIndex: Int { Int(PQntuples(result)) }

        package subscript(index: Int) -> PostgresRow { PostgresRow(rows: self, index: Int32(index)) }
    }

    /// One row; columns are counted from 0.
    ///
    /// A column that is NULL or of another type than the caller says reads as zero or empty.
    package struct PostgresRow {
        let rows: PostgresRows
        let index: Int32

        package func isNull(_ column: Int32) -> Bool { PQgetisnull(rows.result, index, column) == 1 }

        /// Reads a column of a whole number's type, or of a truth value's.
        package func int(_ column: Int32) -> Int64 {
            let bytes = borrowedBytes(column)
            guard let first = bytes.first, bytes.count <= 8 else { return 0 }
            // A negative number continues with ones.
            return bytes.reduce(first & 0x80 == 0 || bytes.count == 1 ? 0 : -1) { $0 << 8 | Int64($1) }
        }

        package func unsigned(_ column: Int32) -> UInt64 { UInt64(bitPattern: int(column)) }
        package func bool(_ column: Int32) -> Bool { int(column) != 0 }
        package func text(_ column: Int32) -> String { String(decoding: borrowedBytes(column), as: UTF8.self) }
        package func bytes(_ column: Int32) -> [UInt8] { Array(borrowedBytes(column)) }
        package func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }
        package func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }
        package func optionalBytes(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : bytes(column) }

        /// The column's bytes, valid as long as the rows.
        package func borrowedBytes(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
            let count = Int(PQgetlength(rows.result, index, column))
            let start = PQgetvalue(rows.result, index, column)
            return UnsafeBufferPointer(
                start: start.map { UnsafeRawPointer($0).assumingMemoryBound(to: UInt8.self) },
                count: start == nil ? 0 : count
            )
        }
    }
#endif
