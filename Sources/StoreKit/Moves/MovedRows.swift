/// Rows of one table, as bytes: for each row its number of columns, and for each column its length and its bytes.
///
/// Numbers have their most significant byte first, and lengths are -1 for NULL. That is the form in which PostgreSQL
/// copies rows, so they need not be taken apart on the way into it.
package struct MovedRows: Sendable {
    package let table: MovedTable
    package private(set) var bytes: [UInt8] = []
    package private(set) var count = 0
    private let width: [UInt8]

    package init(of table: MovedTable) {
        self.table = table
        width = withUnsafeBytes(of: Int16(table.columns.count).bigEndian) { Array($0) }
    }

    package var isEmpty: Bool { count == 0 }

    package mutating func reserve(_ capacity: Int) { bytes.reserveCapacity(capacity) }

    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        count = 0
    }

    // MARK: Writing

    /// Begins a row; a call of `append` for each column follows.
    package mutating func beginRow() {
        bytes.append(contentsOf: width)
        count += 1
    }

    package mutating func append(_ value: Int64?) {
        guard let value else { return appendNull() }
        appendLength(8)
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func append(_ value: Bool) {
        appendLength(1)
        bytes.append(value ? 1 : 0)
    }

    package mutating func append(_ value: UnsafeBufferPointer<UInt8>) {
        appendLength(Int32(value.count))
        bytes.append(contentsOf: value)
    }

    package mutating func append(_ value: [UInt8]) { value.withUnsafeBufferPointer { append($0) } }

    package mutating func append(_ value: String?) {
        guard var value else { return appendNull() }
        value.withUTF8 { append($0) }
    }

    package mutating func appendNull() { appendLength(-1) }

    /// Appends columns in the form that they have in rows.
    mutating func append(encoded columns: [UInt8]) { bytes.append(contentsOf: columns) }

    private mutating func appendLength(_ length: Int32) {
        withUnsafeBytes(of: length.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// Appends a row of rows of the same table.
    package mutating func append(_ row: MovedRow) {
        bytes.append(contentsOf: row.bytes)
        count += 1
    }

    // MARK: Reading

    /// Calls `body` with each row, which is valid until it returns.
    package func forEach(_ body: (MovedRow) throws -> Void) rethrows {
        let columns = table.columns.count
        var places = [Int](repeating: 0, count: columns)
        var lengths = [Int](repeating: 0, count: columns)
        try bytes.withUnsafeBytes { all in
            var next = 0
            while next < all.count {
                let start = next
                next += 2
                for column in 0..<columns {
                    let length = Int(Int32(bigEndian: all.loadUnaligned(fromByteOffset: next, as: Int32.self)))
                    next += 4
                    places[column] = next
                    lengths[column] = length
                    next += max(0, length)
                }
                try body(MovedRow(start..<next, of: all, places, lengths))
            }
        }
    }

    /// Replaces the numbers that are at these places in `bytes`.
    mutating func replace(_ replacements: [(place: Int, number: Int64)]) {
        bytes.withUnsafeMutableBytes { bytes in
            for (place, number) in replacements {
                bytes.storeBytes(of: number.bigEndian, toByteOffset: place, as: Int64.self)
            }
        }
    }
}

/// One row, valid as long as the call that passes it.
package struct MovedRow {
    /// The row as `MovedRows` has it.
    package let bytes: UnsafeRawBufferPointer
    private let start: Int
    private let all: UnsafeRawBufferPointer
    private let places: [Int]
    private let lengths: [Int]

    fileprivate init(_ range: Range<Int>, of all: UnsafeRawBufferPointer, _ places: [Int], _ lengths: [Int]) {
        bytes = UnsafeRawBufferPointer(rebasing: all[range])
        start = range.lowerBound
        self.all = all
        self.places = places
        self.lengths = lengths
    }

    package func isNull(_ column: Int) -> Bool { lengths[column] < 0 }

    /// The bytes of a column; empty for NULL.
    package func value(_ column: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: all[places[column]..<places[column] + max(0, lengths[column])])
    }

    package func int(_ column: Int) -> Int64 {
        guard lengths[column] == 8 else { return 0 }
        return Int64(bigEndian: all.loadUnaligned(fromByteOffset: places[column], as: Int64.self))
    }

    package func bool(_ column: Int) -> Bool { value(column).first.map { $0 != 0 } ?? false }
    package func text(_ column: Int) -> String { String(decoding: value(column), as: UTF8.self) }
    package func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
    package func array(_ column: Int) -> [UInt8] { Array(value(column)) }

    /// Where a column is in the bytes of all rows.
    func place(_ column: Int) -> Int { places[column] }

    /// The bytes of the columns of the key, with their lengths.
    package func key(_ count: Int) -> [UInt8] {
        Array(all[start + 2..<places[count - 1] + max(0, lengths[count - 1])])
    }

    /// A hash of the row as it is.
    package var hash: UInt64 { RowHash.of(bytes, after: 0) }
}

/// A hash that is the same in all runs of the program, fast enough for millions of rows.
enum RowHash {
    private static let factor: UInt64 = 0x9E37_79B9_7F4A_7C15

    static func of(_ bytes: UnsafeRawBufferPointer, after start: UInt64) -> UInt64 {
        var hash = mix(start ^ UInt64(bytes.count) &* factor)
        var place = 0
        while place + 8 <= bytes.count {
            hash = mix(hash ^ bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
            place += 8
        }
        var rest: UInt64 = 0
        while place < bytes.count {
            rest = rest << 8 | UInt64(bytes[place])
            place += 1
        }
        return mix(hash ^ rest)
    }

    static func of(_ number: UInt64, after start: UInt64) -> UInt64 { mix(start ^ number &* factor) }

    static func of(_ text: String) -> UInt64 {
        var text = text
        return text.withUTF8 { of(UnsafeRawBufferPointer($0), after: 1) }
    }

    /// Spreads each bit over all others.
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value
        value = (value ^ value >> 32) &* 0xD6E8_FEB8_6659_FD93
        value = (value ^ value >> 32) &* 0xD6E8_FEB8_6659_FD93
        return value ^ value >> 32
    }
}
