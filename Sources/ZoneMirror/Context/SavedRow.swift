import Foundation
import GRDB

/// A row as a context wrote it last, as far as it takes to know it again.
///
/// Of each value a mark: values may be large, and a context lives as long as its program.
private struct SavedRow: Sendable {
    let marks: [Int]

    init(_ row: [DatabaseValue]) { marks = row.map(Self.mark) }

    static func mark(_ value: DatabaseValue) -> Int {
        var hasher = Hasher()
        // Of its own accord Foundation looks at the beginning only.
        if case .blob(let data) = value.storage {
            data.withUnsafeBytes { hasher.combine(bytes: $0) }
        } else {
            hasher.combine(value)
        }
        return hasher.finalize()
    }
}

/// What a context's saves have left in the files: what it wrote itself is no change by somebody else.
struct SavedRows: Sendable {
    private var rows: [MirrorContext.Key: SavedRow] = [:]
    /// Links that have followed from what was written, by delete rules and from their other ends; by column.
    private var followed: [MirrorContext.Key: [Int: DatabaseValue]] = [:]

    /// A row was written.
    mutating func note(_ key: MirrorContext.Key, _ row: [DatabaseValue]) {
        rows[key] = SavedRow(row)
        followed[key] = nil
    }

    /// Some of a row's values have followed from what was written.
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

    /// Whether a row is as it was left.
    func isLast(_ key: MirrorContext.Key, _ row: [DatabaseValue]) -> Bool {
        guard let marks = rows[key]?.marks, marks.count == row.count else { return false }
        let links = followed[key] ?? [:]
        return marks.indices.allSatisfy { position in
            links[position].map { $0 == row[position] } ?? (marks[position] == SavedRow.mark(row[position]))
        }
    }

    /// What an object was read as, with the links that have followed since, where nobody else has changed those.
    func following(_ base: [DatabaseValue], _ key: MirrorContext.Key, _ row: [DatabaseValue]) -> [DatabaseValue] {
        guard let links = followed[key], base.count == row.count else { return base }
        return base.indices.map { links[$0] == row[$0] ? row[$0] : base[$0] }
    }

    /// The values of `row` with what `edited` has changed since its object was written.
    func edits(_ key: MirrorContext.Key, of edited: [DatabaseValue], over row: [DatabaseValue]) -> [DatabaseValue] {
        guard let marks = rows[key]?.marks, marks.count == edited.count, row.count == edited.count else {
            return edited
        }
        return marks.indices.map { SavedRow.mark(edited[$0]) != marks[$0] ? edited[$0] : row[$0] }
    }
}
