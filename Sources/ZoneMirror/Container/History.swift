public import Foundation
import GRDB

/// How far somebody has read the history of one or more stores.
///
/// Each file has a history of its own: where another user's, or a new one, is behind a store, a token of the file before
/// stands at its beginning.
public struct HistoryToken: Hashable, Codable, Sendable {
    /// The number of the last change seen, by store.
    private var positions: [String: Int64] = [:]
    /// Of which file that is, by store.
    private var files: [String: String] = [:]

    init() {}

    init(_ store: StoreID, _ position: Int64, of file: String) {
        positions[store.text] = position
        files[store.text] = file
    }

    /// A token as `encode(to:)` writes it, or an earlier version, which knew of no files.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        positions = try values.decode([String: Int64].self, forKey: .positions)
        files = try values.decodeIfPresent([String: String].self, forKey: .files) ?? [:]
    }

    /// The token for one store alone.
    public func token(for store: StoreID) -> HistoryToken {
        var token = self
        token.positions = positions.filter { $0.key == store.text }
        token.files = files.filter { $0.key == store.text }
        return token
    }

    /// Both, each store as far as either has come; of two files the other's.
    public func joined(with other: HistoryToken) -> HistoryToken {
        var token = self
        for (store, position) in other.positions {
            let (file, otherFile) = (token.files[store], other.files[store])
            let isSame = file == nil || otherFile == nil || file == otherFile
            token.positions[store] = isSame ? max(position, token.positions[store] ?? 0) : position
            token.files[store] = otherFile ?? file
        }
        return token
    }

    /// The number of the last change seen of a store's file; `nil` where it says nothing of that file.
    func position(of store: StoreID, in file: String) -> Int64? {
        files[store.text] ?? file == file ? positions[store.text] : nil
    }
}

/// What one commit changed.
public struct HistoryTransaction: Hashable, Sendable, Identifiable {
    /// One change of one object.
    public struct Change: Hashable, Sendable {
        /// What was done to it.
        public enum Kind: String, Hashable, Sendable {
            /// It is new.
            case insert
            /// Some of its values are.
            case update
            /// It is gone.
            case delete
        }

        /// The object.
        public var object: ObjectID
        /// What was done to it.
        public var kind: Kind
        /// With an update: the properties; empty where they are not known.
        public var updatedProperties: [String]
        /// With a deletion: the values of the attributes that are preserved, as JSON has them.
        public var preservedValues: [String: String]
    }

    /// Grows within a store.
    public var id: Int64
    /// The store.
    public var store: StoreID
    /// Who changed it, as the context said; `MirroredContainer.importAuthor` for imports; `nil` for nobody's context.
    public var author: String?
    /// The context's name.
    public var contextName: String?
    /// When; of commits by plain SQL, when they were noticed.
    public var date: Date
    /// The changes, in their order.
    public var changes: [Change]
    /// How far one has read with this transaction.
    public var token: HistoryToken
}

/// What the stores remember of their changes.
///
/// See ReadingAndHistory.md, "History".
extension MirroredContainer {
    /// The author of every import.
    public static let importAuthor = Importer.author

    /// The transactions of all stores, each store's in their order.
    ///
    /// - Parameters:
    ///   - token: Only those after it; left out, all.
    ///   - date: Only those then or later.
    ///   - author: Only this author's.
    ///   - entity: Only changes of this entity.
    /// - Returns: Transactions with at least one change.
    /// - Throws: What SQLite throws.
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
                try HistoryReader.seal(db, at: now)
                return try HistoryReader.fetch(db, file.id, after: token, wanted)
            }
        }
        return found
    }

    /// The end of the history of all stores, as of now.
    public func currentHistoryToken() async throws(MirrorError) -> HistoryToken {
        var token = HistoryToken()
        for file in stores.files {
            token = token.joined(with: try await reading(file.id) { try HistoryReader.end($0, file.id) })
        }
        return token
    }

    /// Forgets what was read; what is still to be sent is kept elsewhere and not touched.
    public func deleteHistory(before token: HistoryToken) async throws(MirrorError) {
        for file in stores.files {
            try await writing(file.id) { db in
                guard let position = token.position(of: file.id, in: try HistoryReader.file(db)) else { return }
                // The newest stays: its number must not be given twice.
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

    /// Tells of every commit to a store, by whomever, with the token that leads up to it.
    ///
    /// What happens between two looks is told once.
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

/// Reads the history's tables.
enum HistoryReader {
    struct Filter: Sendable {
        var date: Date?
        var author: String?
        var entity: String?
    }

    /// Files what came by plain SQL under a transaction of its own.
    static func seal(_ db: Database, at date: Date) throws {
        let sql = "SELECT EXISTS (SELECT 1 FROM mirror_change WHERE txn = 0)"
        guard try Bool.fetchOne(db, sql: sql) == true else { return }
        try db.execute(sql: "INSERT INTO mirror_transaction(at) VALUES (?)", arguments: [date.timeIntervalSince1970])
        try db.execute(sql: "UPDATE mirror_change SET txn = ? WHERE txn = 0", arguments: [db.lastInsertedRowID])
    }

    /// What a file is called in tokens: drawn when it was made.
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

    /// A value as JSON has it, as text.
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
