/// A number for the content of a table that does not depend on the order of its rows, nor on a store's own numbers.
package struct MoveDigest: Hashable, Sendable {
    package private(set) var count: Int64 = 0
    private var sum: UInt64 = 0

    /// Returns the digest of a table.
    package static func of(_ table: MovedTable, in reader: any MoveReader, _ names: MoveNames) throws -> MoveDigest {
        var digest = MoveDigest()
        try reader.visit(table, MoveSelection()) { rows in try digest.add(rows, from: reader, names) }
        return digest
    }

    /// Adds rows that `reader` has read.
    package mutating func add(_ rows: MovedRows, from reader: any MoveReader, _ names: MoveNames) throws {
        try names.learn(rows, from: reader)
        let columns = rows.table.columns
        try rows.forEach { row in
            var hash: UInt64 = 0
            for (index, column) in columns.enumerated() {
                if row.isNull(index) {
                    hash = RowHash.of(0x6E75_6C6C, after: hash)
                } else if column.kind.isNumber {
                    hash = RowHash.of(try names.hash(row.int(index), column.kind), after: hash)
                } else {
                    hash = RowHash.of(row.value(index), after: hash)
                }
            }
            sum &+= hash
            count += 1
        }
    }
}

/// The hashes of what a store's numbers mean, as far as they have been needed.
package final class MoveNames {
    private var known: [MovedTable.Kind: [Int64: UInt64]] = [:]

    package init() {}

    func learn(_ rows: MovedRows, from reader: any MoveReader) throws {
        let columns = rows.table.columns.enumerated().filter { $0.element.kind.isNumber }
        guard !columns.isEmpty else { return }
        var missing: [MovedTable.Kind: Set<Int64>] = [:]
        rows.forEach { row in
            for (index, column) in columns where !row.isNull(index) {
                let number = row.int(index)
                if known[column.kind]?[number] == nil { missing[column.kind, default: []].insert(number) }
            }
        }
        for (kind, numbers) in missing {
            for (number, name) in try reader.names(of: numbers, kind) {
                known[kind, default: [:]][number] = RowHash.of(name)
            }
        }
    }

    func hash(_ number: Int64, _ kind: MovedTable.Kind) throws -> UInt64 {
        guard let hash = known[kind]?[number] else {
            throw MoveFailure(.inconsistent, "A row refers to the \(kind) \(number), which does not exist.")
        }
        return hash
    }
}
