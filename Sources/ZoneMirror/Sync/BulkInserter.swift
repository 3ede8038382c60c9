import GRDB
import Records
import Wire

/// A record with its prepared row and stored fields, computed outside of the import transaction.
struct PreparedRecord: Sendable {
    let table: TableLayout
    /// The row, with links as record names.
    let row: [DatabaseValue]
    /// The encoded fields as received, which is how they are stored.
    let fields: [UInt8]

    /// Returns `nil` for records that need more work: unknown types, and encrypted values or values in assets.
    init?(_ record: Record, _ entry: JSONValue, _ mapping: RecordMapping) {
        guard record.encryptedFields.isEmpty, !record.fields.values.contains(where: \.type.isAsset),
            let table = mapping.table(forType: record.type, fields: record.fields)
        else { return nil }
        self.table = table
        row = mapping.row(of: record.fields, in: table)
        fields = entry["fields"].map { Array($0.rawBytes) } ?? FieldsJSON.empty
    }
}

/// Inserts new records into a file through SQLite's C functions, since boxed values would cost as much again.
///
/// Valid within one transaction. The statements are the connection's cached ones. GRDB's observers of the tables are
/// not notified; the caller must do that at the end.
struct BulkInserter {
    /// The application's tables that received rows.
    private(set) var touched: Set<String> = []
    private let db: Database
    private let records: RecordTable.Inserter
    private let change: BoundStatement
    private var rows: [String: BoundStatement] = [:]

    init(_ db: Database) throws {
        self.db = db
        records = try RecordTable.Inserter(db)
        change = try HistoryTable.insertion(db)
    }

    /// Inserts the record's bookkeeping; returns `false` if a record of this name exists.
    func record(_ new: Record, _ zone: KnownZone, _ entity: String, _ fields: [UInt8]) throws -> Bool {
        try records.insert(new, zone, entity, fields)
    }

    /// Inserts the object's row; returns `false` if an object of this id exists.
    mutating func row(_ table: TableLayout, _ name: String, _ values: [DatabaseValue]) throws -> Bool {
        let statement = try statement(of: table)
        statement.bind(1, name)
        let inSQL = table.inSQL(values)
        for position in inSQL.indices { statement.bind(Int32(position) + 2, inSQL[position]) }
        guard try statement.run() > 0 else { return false }
        try table.keepExactDates(of: values, name, db)
        return true
    }

    private mutating func statement(of table: TableLayout) throws -> BoundStatement {
        if let known = rows[table.name] { return known }
        let made = try BoundStatement(db, table.sql.insertOrIgnore)
        rows[table.name] = made
        touched.insert(table.name)
        return made
    }

    func change(_ transaction: Int64, _ name: String, _ entity: String) throws {
        change.bind(1, transaction)
        change.bind(2, name)
        change.bind(3, entity)
        _ = try change.run()
    }

    func forget(_ name: String, in zone: KnownZone) throws {
        try records.remove(name, in: zone)
    }
}
