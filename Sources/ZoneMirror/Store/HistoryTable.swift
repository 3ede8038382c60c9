import Foundation
import GRDB
import Records

/// The history: the changes of objects, and the transactions that made them.
///
/// Only this type writes `mirror_change`, `mirror_transaction` and `mirror_local`, including the statements of the
/// triggers that record changes.
enum HistoryTable {
    struct Filter: Sendable {
        var date: Date?
        var author: String?
        var entity: String?
    }

    /// Assigns changes made by plain SQL to a transaction of their own.
    static func assignTransaction(_ db: Database, at date: Date) throws {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE txn = 0)"
        guard try Bool.fetchOne(db, sql: sql) == true else { return }
        let transaction = try begin(db, author: nil, at: date)
        try db.execute(sql: "UPDATE mirror_change SET txn = ? WHERE txn = 0", arguments: [transaction])
    }

    /// The file's identity in tokens, generated when the file was created.
    static func file(_ db: Database) throws -> String { try State.text(db, .identity) ?? "" }

    static func end(_ db: Database, _ store: StoreID) throws -> HistoryToken {
        HistoryToken(store, try last(db), of: try file(db))
    }

    static func fetch(
        _ db: Database,
        _ store: StoreID,
        after token: HistoryToken?,
        _ filter: Filter
    ) throws -> [HistoryTransaction] {
        let file = try file(db)
        var conditions = ["c.seq > ?"]
        var arguments: StatementArguments = [token?.position(of: store, in: file) ?? 0]
        if let date = filter.date {
            conditions.append("t.at >= ?")
            arguments += [date.timeIntervalSince1970]
        }
        if let author = filter.author {
            conditions.append("t.author = ?")
            arguments += [author]
        }
        if let entity = filter.entity {
            conditions.append("c.entity = ?")
            arguments += [entity]
        }
        let sql = """
            SELECT c.seq, c.txn, c.oid, c.entity, c.kind, c.names, c.kept, t.author, t.context, t.at
            FROM mirror_change c LEFT JOIN mirror_transaction t ON t.id = c.txn
            WHERE \(conditions.joined(separator: " AND ")) ORDER BY c.seq
            """
        var transactions: [HistoryTransaction] = []
        let rows = try Row.fetchCursor(db, sql: sql, arguments: arguments)
        while let row = try rows.next() { add(row, store, file, to: &transactions) }
        return transactions
    }

    private static func add(
        _ row: Row,
        _ store: StoreID,
        _ file: String,
        to transactions: inout [HistoryTransaction]
    ) {
        let token = HistoryToken(store, row[0], of: file)
        let id: Int64 = row[1]
        let change = change(row, store)
        if transactions.last?.id == id {
            transactions[transactions.count - 1].changes.append(change)
            transactions[transactions.count - 1].token = token
            return
        }
        transactions.append(
            HistoryTransaction(
                id: id,
                store: store,
                author: row[7],
                contextName: row[8],
                date: Date(timeIntervalSince1970: row[9] ?? 0),
                changes: [change],
                token: token
            )
        )
    }

    private static func change(_ row: Row, _ store: StoreID) -> HistoryTransaction.Change {
        let kind: HistoryTransaction.Change.Kind =
            switch ChangeKind(rawValue: row[4]) {
            case .insert: .insert
            case .delete: .delete
            case .update, nil: .update
            }
        let names = (row[5] as String?).map { $0.split(separator: ",").map(String.init) } ?? []
        let kept = (row[6] as String?).flatMap {
            try? JSONDecoder().decode([String: KeptValue].self, from: Data($0.utf8))
        }
        return HistoryTransaction.Change(
            object: ObjectID(store: store, entity: row[3], name: RecordName(row[2])),
            kind: kind,
            updatedProperties: names,
            preservedValues: (kept ?? [:]).compactMapValues(\.text)
        )
    }

    /// A JSON value as text.
    private struct KeptValue: Decodable {
        var text: String?

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() { return }
            if let text = try? container.decode(String.self) {
                self.text = text
            } else if let number = try? container.decode(Int64.self) {
                text = String(number)
            } else {
                text = String(try container.decode(Double.self))
            }
        }
    }

    // MARK: Transactions

    /// Adds a transaction and returns its number.
    static func begin(_ db: Database, author: String?, context: String? = nil, at date: Date) throws -> Int64 {
        try db.cachedStatement(sql: "INSERT INTO mirror_transaction(author, context, at) VALUES (?, ?, ?)")
            .execute(arguments: [author, context, date.timeIntervalSince1970])
        return db.lastInsertedRowID
    }

    /// Makes the triggers record changes in a transaction; 0 if it is not known yet.
    static func record(_ db: Database, in transaction: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_local SET txn = ?").execute(arguments: [transaction])
    }

    /// Assigns the changes after a position to a transaction.
    static func assign(_ db: Database, after position: Int64, to transaction: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_change SET txn = ? WHERE seq > ?")
            .execute(arguments: [transaction, position])
    }

    /// The number of the last change.
    static func last(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(try db.cachedStatement(sql: "SELECT max(seq) FROM mirror_change")) ?? 0
    }

    /// Deletes a transaction if it has no changes; returns whether it had none.
    static func discardIfEmpty(_ db: Database, _ transaction: Int64) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE txn = ?)"
        guard try Bool.fetchOne(db, sql: sql, arguments: [transaction]) != true else { return false }
        try db.execute(sql: "DELETE FROM mirror_transaction WHERE id = ?", arguments: [transaction])
        return true
    }

    /// Deletes the changes up to a position, and the transactions that have no others.
    static func delete(_ db: Database, to position: Int64) throws {
        // The newest change stays, because its number must not be used twice.
        try db.execute(
            sql: "DELETE FROM mirror_change WHERE seq <= ? AND seq < (SELECT max(seq) FROM mirror_change)",
            arguments: [position]
        )
        try db.execute(
            sql: """
                DELETE FROM mirror_transaction WHERE id < (SELECT coalesce(min(txn), 0) FROM mirror_change)
                AND id < (SELECT max(id) FROM mirror_transaction)
                """
        )
    }

    /// Runs `body` as an import: the triggers do not record its writes as changes of the user.
    ///
    /// The history records all changes under `author`.
    static func importing<Result>(
        _ db: Database,
        author: String,
        at date: Date,
        _ body: (_ transaction: Int64) throws -> Result
    ) throws -> Result {
        let transaction = try begin(db, author: author, at: date)
        return try withoutTracking(db) { try body(transaction) }
    }

    /// Runs `body` without the triggers recording its writes.
    static func withoutTracking<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        try db.execute(sql: "UPDATE mirror_local SET importing = 1")
        let result = try body()
        try db.execute(sql: "UPDATE mirror_local SET importing = 0")
        return result
    }

    // MARK: Changes

    /// Adds a change that the triggers do not record.
    static func note(
        _ db: Database,
        _ oid: String,
        of entity: String,
        _ kind: ChangeKind,
        names: String?,
        in transaction: Int64
    ) throws {
        try db.cachedStatement(
            sql: "INSERT INTO mirror_change(txn, oid, entity, kind, names) VALUES (?, ?, ?, ?, ?)"
        ).run([
            transaction.databaseValue, oid.databaseValue, entity.databaseValue, kind.rawValue.databaseValue,
            names.databaseValue,
        ])
    }

    static func noteDeletion(_ db: Database, _ oid: String, of table: TableLayout, in transaction: Int64) throws {
        let kept = keptValues(of: table, from: "")
        try db.cachedStatement(
            sql: """
                INSERT INTO mirror_change(txn, oid, entity, kind, kept)
                SELECT ?, id, ?, 3, \(kept) FROM \(table.name.quoted) WHERE id = ?
                """
        ).execute(arguments: [transaction, table.name, oid])
    }

    /// Adds an update of each row of a table that meets the condition, which has the row as `t`.
    static func noteUpdates(
        _ db: Database,
        of table: String,
        where condition: String,
        _ arguments: StatementArguments,
        in transaction: Int64
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO mirror_change(txn, oid, entity, kind) SELECT ?, id, ?, ? FROM \(table.quoted) t
                WHERE \(condition)
                """,
            arguments: [transaction, table, ChangeKind.update.rawValue] + arguments
        )
    }

    /// A statement that adds an insertion, with the transaction, the object and the entity as parameters.
    static func insertion(_ db: Database) throws -> BoundStatement {
        try BoundStatement(db, "INSERT INTO mirror_change(txn, oid, entity, kind) VALUES (?, ?, ?, 1)")
    }

    // MARK: Statements of triggers

    /// Returns the statement that adds a change to the current transaction.
    static func recording(
        _ id: String,
        _ entity: String,
        _ kind: ChangeKind,
        names: String = "NULL",
        kept: String = "NULL"
    ) -> String {
        """
        INSERT INTO mirror_change(txn, oid, entity, kind, names, kept)
        VALUES ((SELECT txn FROM mirror_local), \(id), \(entity), \(kind.rawValue), \(names), \(kept));
        """
    }

    /// The values of a deleted row that the history keeps, as a SQL expression over the row's columns.
    static func keptValues(of table: TableLayout, from row: String) -> String {
        let columns = table.columns.filter { $0.attribute?.preservesValueOnDeletion == true }
        guard !columns.isEmpty else { return "NULL" }
        // JSON has no form for bytes, so they are stored in SQLite's blob notation.
        let pairs = columns.map { column in
            let value = row + column.name.quoted
            return "\(column.name.literal), CASE typeof(\(value)) WHEN 'blob' THEN quote(\(value)) ELSE \(value) END"
        }
        return "json_object(\(pairs.joined(separator: ", ")))"
    }
}
