import Foundation
import GRDB

/// Hashes of a row that a context wrote, by which the row is recognized.
///
/// Hashes instead of values, because values may be large and a context may exist as long as its program.
private struct SavedRow: Sendable {
    let marks: [Int]

    init(_ row: [DatabaseValue]) { marks = row.map(Self.mark) }

    static func mark(_ value: DatabaseValue) -> Int {
        var hasher = Hasher()
        // `Data` by itself hashes only its first bytes.
        if case .blob(let data) = value.storage {
            data.withUnsafeBytes { hasher.combine(bytes: $0) }
        } else {
            hasher.combine(value)
        }
        return hasher.finalize()
    }
}

/// The rows that a context's saves have written, so that its own changes are no conflicts.
struct SavedRows: Sendable {
    private var rows: [MirrorContext.Key: SavedRow] = [:]
    /// Links that were changed as an effect of saves, by delete rules and one-to-one links, by column.
    private var followed: [MirrorContext.Key: [Int: DatabaseValue]] = [:]

    /// Stores that a row was written.
    mutating func note(_ key: MirrorContext.Key, _ row: [DatabaseValue]) {
        rows[key] = SavedRow(row)
        followed[key] = nil
    }

    /// Stores that some values of a row were changed as an effect of a save.
    mutating func follow(_ key: MirrorContext.Key, _ row: [DatabaseValue], _ positions: [Int]) {
        for position in positions where rows[key].map({ $0.marks[position] != SavedRow.mark(row[position]) }) ?? true {
            followed[key, default: [:]][position] = row[position]
        }
    }

    mutating func forget(_ key: MirrorContext.Key) {
        rows[key] = nil
        followed[key] = nil
    }

    mutating func merge(_ newer: SavedRows) {
        for (key, row) in newer.rows {
            rows[key] = row
            followed[key] = nil
        }
        for (key, values) in newer.followed { followed[key, default: [:]].merge(values) { $1 } }
    }

    /// Returns whether a row is as this context left it.
    func isLast(_ key: MirrorContext.Key, _ row: [DatabaseValue]) -> Bool {
        guard let marks = rows[key]?.marks, marks.count == row.count else { return false }
        let links = followed[key] ?? [:]
        return marks.indices.allSatisfy { position in
            links[position].map { $0 == row[position] } ?? (marks[position] == SavedRow.mark(row[position]))
        }
    }

    /// Returns the row that an object was read from, with the links that saves have changed since, unless others
    /// changed them.
    func following(_ base: [DatabaseValue], _ key: MirrorContext.Key, _ row: [DatabaseValue]) -> [DatabaseValue] {
        guard let links = followed[key], base.count == row.count else { return base }
        return base.indices.map { links[$0] == row[$0] ? row[$0] : base[$0] }
    }

    /// Returns the values of `row` with the changes in `edited` since its object was written.
    func edits(_ key: MirrorContext.Key, of edited: [DatabaseValue], over row: [DatabaseValue]) -> [DatabaseValue] {
        guard let marks = rows[key]?.marks, marks.count == edited.count, row.count == edited.count else {
            return edited
        }
        return marks.indices.map { SavedRow.mark(edited[$0]) != marks[$0] ? edited[$0] : row[$0] }
    }
}
