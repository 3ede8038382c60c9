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
