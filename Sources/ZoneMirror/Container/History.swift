public import Foundation
import GRDB

/// A position in the history of one or more stores.
///
/// Each file has its own history. If a store gets another user's file or a new one, a token of the earlier file means
/// its beginning.
public struct HistoryToken: Hashable, Codable, Sendable {
    /// The number of the last change read, by store.
    private var positions: [String: Int64] = [:]
    /// The file to which the position refers, by store.
    private var files: [String: String] = [:]

    init() {}

    init(_ store: StoreID, _ position: Int64, of file: String) {
        positions[store.text] = position
        files[store.text] = file
    }

    /// Returns the token of one store only.
    public func token(for store: StoreID) -> HistoryToken {
        var token = self
        token.positions = positions.filter { $0.key == store.text }
        token.files = files.filter { $0.key == store.text }
        return token
    }

    /// Returns the later position of each store; for different files, the other token's position.
    public func joined(with other: HistoryToken) -> HistoryToken {
        var token = self
        for (store, position) in other.positions {
            let isSame = token.files[store] == other.files[store]
            token.positions[store] = isSame ? max(position, token.positions[store] ?? 0) : position
            token.files[store] = other.files[store]
        }
        return token
    }

    /// Returns the number of the last change read of a store's file; `nil` if the token does not refer to this file.
    func position(of store: StoreID, in file: String) -> Int64? {
        files[store.text] == file ? positions[store.text] : nil
    }
}

/// The changes of one commit.
public struct HistoryTransaction: Hashable, Sendable, Identifiable {
    /// One change of one object.
    public struct Change: Hashable, Sendable {
        /// The kind of the change.
        public enum Kind: String, Hashable, Sendable {
            /// The object was inserted.
            case insert
            /// Some of its values changed.
            case update
            /// The object was deleted.
            case delete
        }

        /// The object.
        public var object: ObjectID
        /// The kind of the change.
        public var kind: Kind
        /// The changed properties of an update; empty if unknown.
        public var updatedProperties: [String]
        /// The preserved attribute values of a deleted object, as JSON.
        public var preservedValues: [String: String]
    }

    /// Increases within a store.
    public var id: Int64
    /// The store.
    public var store: StoreID
    /// The author set in the context, `MirroredContainer.importAuthor` for imports, or `nil` without a context.
    public var author: String?
    /// The context's name.
    public var contextName: String?
    /// The time of the commit; for plain SQL, the time at which it was noticed.
    public var date: Date
    /// The changes in their order.
    public var changes: [Change]
    /// The position after this transaction.
    public var token: HistoryToken
}

/// The history of changes of the stores.
///
/// See ReadingAndHistory.md, "History".
extension MirroredContainer {
    /// The author of every import.
    public static let importAuthor = Importer.author

    /// Returns the transactions of all stores, each store's in their order.
    ///
    /// - Parameters:
    ///   - token: Only transactions after it. The default is all.
    ///   - date: Only transactions at or after this time.
    ///   - author: Only transactions of this author.
    ///   - entity: Only changes of this entity.
    /// - Returns: Transactions with at least one change.
    /// - Throws: SQLite's errors.
    public func history(
        after token: HistoryToken? = nil,
        since date: Date? = nil,
        author: String? = nil,
        entity: String? = nil
    ) async throws(MirrorError) -> [HistoryTransaction] {
        var found: [HistoryTransaction] = []
        for file in stores.files {
            let now = conditions.wallClock()
            let wanted = HistoryReader.Filter(date: date, author: author, entity: entity)
            found += try await writing(file.id) { db in
                try HistoryReader.assignTransaction(db, at: now)
                return try HistoryReader.fetch(db, file.id, after: token, wanted)
            }
        }
        return found
    }

    /// Returns the current end of the history of all stores.
    public func currentHistoryToken() async throws(MirrorError) -> HistoryToken {
        var token = HistoryToken()
        for file in stores.files {
            token = token.joined(with: try await reading(file.id) { try HistoryReader.end($0, file.id) })
        }
        return token
    }

    /// Deletes the history before a token; unsent changes are stored elsewhere and not affected.
    public func deleteHistory(before token: HistoryToken) async throws(MirrorError) {
        for file in stores.files {
            try await writing(file.id) { db in
                guard let position = token.position(of: file.id, in: try HistoryReader.file(db)) else { return }
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
        }
    }

    /// Reports every commit to a store, by any writer, with the token that includes it.
    ///
    /// Several commits may be reported together.
    public var remoteChanges: AsyncStream<(store: StoreID, token: HistoryToken)> {
        AsyncStream(bufferingPolicy: .bufferingNewest(64)) { continuation in
            let stores = stores
            let id = stores.listen(to: nil, end: { continuation.finish() }) { store in
                guard let file = stores.file(store), file.description.postsRemoteChanges else { return }
                Task {
                    let token = try? await file.pool.read { try HistoryReader.end($0, store) }
                    continuation.yield((store, token ?? HistoryToken()))
                }
            }
            continuation.onTermination = { _ in stores.stopListening(id) }
        }
    }
}

/// Reads the tables of the history.
enum HistoryReader {
    struct Filter: Sendable {
        var date: Date?
        var author: String?
        var entity: String?
    }

    /// Assigns changes made by plain SQL to a transaction of their own.
    static func assignTransaction(_ db: Database, at date: Date) throws {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE txn = 0)"
        guard try Bool.fetchOne(db, sql: sql) == true else { return }
        try db.execute(sql: "INSERT INTO mirror_transaction(at) VALUES (?)", arguments: [date.timeIntervalSince1970])
        try db.execute(sql: "UPDATE mirror_change SET txn = ? WHERE txn = 0", arguments: [db.lastInsertedRowID])
    }

    /// The file's identity in tokens, generated when the file was created.
    static func file(_ db: Database) throws -> String { try State.text(db, .identity) ?? "" }

    static func end(_ db: Database, _ store: StoreID) throws -> HistoryToken {
        let position = try Int64.fetchOne(db, sql: "SELECT max(seq) FROM mirror_change") ?? 0
        return HistoryToken(store, position, of: try file(db))
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
}
