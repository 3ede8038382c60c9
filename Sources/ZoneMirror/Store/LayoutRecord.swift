import Foundation
import GRDB

/// The columns and defaults of the model that last mirrored the file.
///
/// For each table and column: the default as a SQL literal, or `nil` for a column that had left the model by then. The
/// file still has such columns, but their values have not been updated since.
struct LayoutRecord: Codable {
    private(set) var columns: [String: [String: String?]] = [:]

    init() {}

    /// Reads the stored layout; `nil` if the file was never mirrored.
    init?(_ db: Database) throws {
        guard let text = try State.text(db, .columns),
            let found = try? JSONDecoder().decode(LayoutRecord.self, from: Data(text.utf8))
        else { return nil }
        self = found
    }

    /// Returns this layout updated to the tables of another model.
    func updated(by tables: [TableLayout]) -> LayoutRecord {
        var next = self
        for (table, known) in columns {
            for name in known.keys { next.columns[table]?.updateValue(nil, forKey: name) }
        }
        for table in tables {
            for column in table.columns {
                let fallback = EntityTables.literal(column.attribute?.defaultValue ?? .null)
                next.columns[table.name, default: [:]].updateValue(fallback, forKey: column.name)
            }
        }
        return next
    }

    func store(_ db: Database) throws {
        try State.set(db, .columns, String(decoding: try JSONEncoder().encode(self), as: UTF8.self))
    }
}

/// A column whose values may differ from the stored records.
struct LayoutChange {
    enum Cause {
        /// The column was not in the file, or was added by a program that does not mirror it.
        case new
        /// The column was not in the model for a while.
        case returns
        /// The default for records that lack the field has changed.
        case newDefault(before: DatabaseValue)
    }

    var column: ColumnLayout
    var cause: Cause

    static func of(
        _ table: TableLayout,
        missing: Set<String>,
        since last: LayoutRecord?,
        _ db: Database
    ) throws -> [LayoutChange] {
        try table.columns.compactMap { column in
            if missing.contains(column.name) { return LayoutChange(column: column, cause: .new) }
            guard let last else { return nil }
            guard let known = last.columns[table.name]?[column.name] else {
                return LayoutChange(column: column, cause: .new)
            }
            guard let fallback = known else { return LayoutChange(column: column, cause: .returns) }
            guard fallback != EntityTables.literal(column.attribute?.defaultValue ?? .null) else { return nil }
            let before = try DatabaseValue.fetchOne(db, sql: "SELECT \(fallback)") ?? .null
            return LayoutChange(column: column, cause: .newDefault(before: before))
        }
    }
}

/// The types that the properties of a file's entities have had.
///
/// A value of another type could not be read, here or on the relay, whose schema never changes a field's type.
enum ColumnTypes {
    /// Throws if the model gives a property another type than it has in the file, and stores the types of new
    /// properties.
    static func check(_ db: Database, _ tables: [TableLayout]) throws {
        let text = try State.text(db, .types) ?? "{}"
        var known = try JSONDecoder().decode([String: [String: String]].self, from: Data(text.utf8))
        var violations: [Violation] = []
        for table in tables where table.entity != nil {
            for column in table.columns {
                let type = column.valueType
                if let before = known[table.name]?[column.name], before != type {
                    violations.append(.typeChanged(entity: table.name, property: column.name, from: before, to: type))
                }
                known[table.name, default: [:]][column.name] = type
            }
        }
        guard violations.isEmpty else {
            throw MirrorError(
                .modelIncompatible(violations),
                "The model does not match the store's file. Each line names a property and the solution."
            )
        }
        try State.set(db, .types, String(decoding: JSONEncoder().encode(known), as: UTF8.self))
    }
}

extension ColumnLayout {
    /// The type of the column's values on the relay, as a phrase for error messages.
    fileprivate var valueType: String {
        guard let attribute else { return "link" }
        return switch attribute.type {
        case .string, .uuid, .uri, .undefined, .objectID: "text"
        case .integer, .boolean: "whole number"
        case .double: "number with a fraction"
        case .date: "date"
        case .data, .transformable: "value of bytes"
        }
    }
}
