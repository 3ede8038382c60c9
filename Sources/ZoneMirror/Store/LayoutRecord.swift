import Foundation
import GRDB

/// What a mirrored file's tables looked like to the model that kept it in step last.
///
/// By table and column the default, as SQL has it; `nil` for a column that had left the model by then. What has left it is
/// still in the file, with values that nobody has kept in step since.
struct LayoutRecord: Codable {
    private(set) var columns: [String: [String: String?]] = [:]

    init() {}

    /// `nil` for files of older versions.
    init?(_ db: Database) throws {
        guard let text = try State.text(db, .columns),
            let found = try? JSONDecoder().decode(LayoutRecord.self, from: Data(text.utf8))
        else { return nil }
        self = found
    }

    /// The same with other tables in the model.
    func followed(by tables: [TableForm]) -> LayoutRecord {
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

/// A column whose values are not, or not all, what the relay's records say.
struct LayoutChange {
    enum Cause {
        /// It was not in the file, or was put there by a program that keeps nothing in step.
        case new
        /// It was not in the model for a while.
        case returns
        /// Something else stands for a field that the record leaves out.
        case newDefault(before: DatabaseValue)
    }

    var column: ColumnForm
    var cause: Cause

    static func of(
        _ table: TableForm,
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

/// Of which types the properties of a file's entities have ever been.
///
/// A value of another type could not be read, here or on the relay, whose schema keeps a field's type for ever.
enum ColumnTypes {
    /// Refuses a model in which a property has another type than in the file, and remembers the types of all others.
    static func check(_ db: Database, _ tables: [TableForm]) throws {
        let text = try State.text(db, .types) ?? "{}"
        var known = try JSONDecoder().decode([String: [String: String]].self, from: Data(text.utf8))
        var violations: [Violation] = []
        for table in tables where table.entity != nil {
            // Files of older versions say it by their columns alone.
            let declared = try db.tableExists(table.name) ? db.columns(in: table.name) : []
            for column in table.columns {
                let type = column.valueType
                let before = known[table.name]?[column.name].map { [$0] }
                let inFile = declared.first { $0.name == column.name }.flatMap { types(of: $0.type) }
                if let allowed = before ?? inFile, let first = allowed.first, !allowed.contains(type) {
                    violations.append(.typeChanged(entity: table.name, property: column.name, from: first, to: type))
                }
                known[table.name, default: [:]][column.name] = type
            }
        }
        guard violations.isEmpty else {
            throw MirrorError(
                .modelIncompatible(violations),
                "The model does not fit the store's file. Each line names a property and what to do there."
            )
        }
        try State.set(db, .types, String(decoding: JSONEncoder().encode(known), as: UTF8.self))
    }

    /// What columns of a declared type may hold; `nil` for types that this module does not declare.
    private static func types(of declared: String) -> [String]? {
        switch declared.uppercased() {
        case "TEXT": ["text", "link"]
        case "INTEGER": ["whole number"]
        case "REAL": ["number with a fraction", "date"]
        case "BLOB": ["value of bytes"]
        default: nil
        }
    }
}

extension ColumnForm {
    /// The type of its values on the relay, in words.
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
