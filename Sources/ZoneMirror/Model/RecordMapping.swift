import Foundation
import GRDB
package import Records
import ZoneKit

/// GRDB has a class with the same name.
package typealias Record = Records.Record

/// Maps rows to record types, fields and values.
///
/// See Sync.md, "Records of a mirror".
struct RecordMapping: Sendable {
    /// The prefix of types and fields, which makes records interchangeable with those of Core Data.
    let prefix: String
    let tables: [String: TableLayout]
    /// In the order of the model.
    let tableNames: [String]
    /// For each table, the columns that refer to it, with their tables.
    let incoming: [String: [(table: TableLayout, column: String)]]
    private let entityField: String
    /// The field with the times of property edits.
    let editTimesField: String
    /// Whether some table stores edit times.
    let keepsEditTimes: Bool
    private let entitiesByType: [String: [TableLayout]]
    private let pairTables: [JoinTableLayout: TableLayout]
    /// The fields of the columns, by table.
    private let columnFields: [String: [String]]

    init(tables: [TableLayout], prefix: String) {
        self.prefix = prefix
        self.tables = Dictionary(tables.map { ($0.name, $0) }) { $1 }
        tableNames = tables.map(\.name)
        incoming = tables.reduce(into: [:]) { incoming, table in
            for column in table.columns {
                if let link = column.link { incoming[link.destination, default: []].append((table, column.name)) }
            }
        }
        columnFields = Dictionary(tables.map { ($0.name, $0.columns.map { prefix + $0.name }) }) { $1 }
        entityField = prefix + "entityName"
        editTimesField = prefix + EditTimes.name
        keepsEditTimes = tables.contains { !$0.lastEditWinsColumns.isEmpty }
        entitiesByType = Dictionary(grouping: tables.filter { $0.entity != nil }) { prefix + ($0.entity?.root ?? "") }
        pairTables = Dictionary(
            tables.compactMap { table in
                if case .pairs(let form) = table.kind { (form, table) } else { nil }
            }
        ) { $1 }
    }

    static let pairType = "CDMR"

    /// The record types of these tables, sorted.
    var recordTypes: [String] {
        (entitiesByType.keys + (pairTables.isEmpty ? [] : [Self.pairType])).sorted()
    }

    func recordType(of table: TableLayout) -> String {
        switch table.kind {
        case .entity(let entity): prefix + entity.root
        case .pairs: Self.pairType
        }
    }

    func field(_ column: ColumnLayout) -> String { prefix + column.name }
    func assetField(_ column: ColumnLayout) -> String { field(column) + Self.companionSuffix }

    /// Returns the fields that a row of this model determines completely.
    func ownFields(of table: TableLayout) -> Set<String> {
        if case .pairs = table.kind { return ["CD_entityNames", "CD_recordNames", "CD_relationships"] }
        let times = table.lastEditWinsColumns.isEmpty ? [] : [editTimesField]
        return Set((columnFields[table.name] ?? []) + times + [entityField])
    }

    /// The suffix of the field that refers to the asset of a value too large for its record.
    static let companionSuffix = "_ckAsset"

    // MARK: From records

    /// Returns the table for a record; `nil` if the model does not know it.
    func table(forType type: String, fields: [String: FieldValue]) -> TableLayout? {
        if type == Self.pairType { return pair(in: fields).flatMap { pairTables[$0.form] } }
        guard let candidates = entitiesByType[type] else { return nil }
        if candidates.count == 1, let only = candidates.first, only.entity?.root == only.name { return only }
        if case .string(let name)? = fields[entityField] { return candidates.first { $0.name == name } }
        return candidates.first { $0.entity?.root == $0.name }
    }

    /// Returns a record's row, with links as record names.
    ///
    /// Missing fields, and those with a value of another type, have the attribute's default.
    func row(of fields: [String: FieldValue], in table: TableLayout) -> [DatabaseValue] {
        if case .pairs = table.kind {
            guard let names = pair(in: fields) else { return [.null, .null] }
            return [names.first.databaseValue, names.second.databaseValue]
        }
        return zip(table.columns, columnFields[table.name] ?? []).map { column, field in
            guard let value = fields[field] else { return column.attribute?.defaultValue ?? .null }
            return Self.columnValue(value, column) ?? column.attribute?.defaultValue ?? .null
        }
    }

    /// Returns the properties for which a record has a value of another type than theirs.
    func mistypedProperties(in fields: [String: FieldValue], of table: TableLayout) -> [String] {
        guard table.entity != nil else { return [] }
        return table.columns.filter { column in
            guard let value = fields[field(column)] else { return false }
            return Self.columnValue(value, column) == nil
        }.map(\.name)
    }

    private static func columnValue(_ value: FieldValue, _ column: ColumnLayout) -> DatabaseValue? {
        guard case .attribute(let attribute) = column.kind else {
            if case .string(let name) = value { return name.databaseValue }
            if case .reference(let reference) = value { return reference.recordName.databaseValue }
            return nil
        }
        switch (attribute.type, value) {
        case (.string, .string(let text)), (.uri, .string(let text)), (.uuid, .string(let text)):
            return text.databaseValue
        case (.integer, .int64(let number)): return number.databaseValue
        case (.boolean, .int64(let number)): return (number != 0).databaseValue
        case (.double, .double(let number)): return number.databaseValue
        case (.double, .int64(let number)): return Double(number).databaseValue
        case (.date, .timestamp(let timestamp)): return ExactDate.value(Date(timestamp))
        case (.data, .bytes(let bytes)), (.transformable, .bytes(let bytes)): return Data(bytes).databaseValue
        default: return nil
        }
    }

    private func pair(in fields: [String: FieldValue]) -> (form: JoinTableLayout, first: String, second: String)? {
        guard case .string(let entities)? = fields["CD_entityNames"],
            case .string(let names)? = fields["CD_recordNames"],
            case .string(let relationships)? = fields["CD_relationships"]
        else { return nil }
        let (e, n, r) = (Self.halves(entities), Self.halves(names), Self.halves(relationships))
        guard let e, let n, let r else { return nil }
        let form = JoinTableLayout(
            first: .init(entity: e.0, relationship: r.0),
            second: .init(entity: e.1, relationship: r.1)
        )
        if pairTables[form] != nil { return (form, n.0, n.1) }
        let turned = JoinTableLayout(first: form.second, second: form.first)
        return (turned, n.1, n.0)
    }

    /// Splits a text at its colon; colons and backslashes in a name are escaped by a backslash.
    private static func halves(_ text: String) -> (String, String)? {
        guard text.utf8.contains(UInt8(ascii: "\\")) else {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            return parts.count == 2 ? (String(parts[0]), String(parts[1])) : nil
        }
        var (parts, isMarked) = ([""], false)
        for character in text {
            if isMarked, character != ":", character != "\\" { parts[parts.count - 1].append("\\") }
            if character == ":", !isMarked {
                parts.append("")
            } else if character != "\\" || isMarked {
                parts[parts.count - 1].append(character)
            }
            isMarked = character == "\\" && !isMarked
        }
        if isMarked { parts[parts.count - 1].append("\\") }
        return parts.count == 2 ? (parts[0], parts[1]) : nil
    }

    private static func half(_ name: String) -> String {
        name.replacing("\\", with: "\\\\").replacing(":", with: "\\:")
    }

    // MARK: To records

    /// Returns the fields of a row, whose links must be record names already.
    func fields(of row: [DatabaseValue], in table: TableLayout) -> [String: FieldValue] {
        if case .pairs(let form) = table.kind { return pairFields(of: row, form) }
        var fields: [String: FieldValue] = [entityField: .string(table.name)]
        for (column, value) in zip(table.columns, row) where !value.isNull {
            fields[prefix + column.name] = Self.fieldValue(value, column)
        }
        return fields
    }

    private func pairFields(of row: [DatabaseValue], _ form: JoinTableLayout) -> [String: FieldValue] {
        let names = row.map { String.fromDatabaseValue($0).map(Self.half) ?? "" }.joined(separator: ":")
        return [
            "CD_entityNames": .string("\(form.first.entity):\(form.second.entity)"),
            "CD_recordNames": .string(names),
            "CD_relationships": .string("\(form.first.relationship):\(form.second.relationship)"),
        ]
    }

    /// Returns `nil` if the column's type does not allow the value, because plain SQL can store any value.
    static func fieldValue(_ value: DatabaseValue, _ column: ColumnLayout) -> FieldValue? {
        guard case .attribute(let attribute) = column.kind else {
            return String.fromDatabaseValue(value).map { .string($0) }
        }
        switch attribute.type {
        case .string, .uuid, .uri, .undefined, .objectID: return String.fromDatabaseValue(value).map { .string($0) }
        case .integer, .boolean: return value.wholeNumber.map { .int64($0) }
        case .double: return Double.fromDatabaseValue(value).flatMap { $0.isFinite ? .double($0) : nil }
        case .date: return ExactDate.date(value).flatMap { Timestamp(exactly: $0) }.map { .timestamp($0) }
        case .data, .transformable: return Data.fromDatabaseValue(value).map { .bytes([UInt8]($0)) }
        }
    }

    /// Returns a row as it will look after a round trip to the relay, because plain SQL may write a date in several
    /// ways.
    func roundTripped(_ row: [DatabaseValue], in table: TableLayout) -> [DatabaseValue] {
        zip(table.columns, row).map { column, value in
            guard column.attribute?.type == .date, !value.isNull, let field = Self.fieldValue(value, column) else {
                return value
            }
            return Self.columnValue(field, column) ?? value
        }
    }
}
