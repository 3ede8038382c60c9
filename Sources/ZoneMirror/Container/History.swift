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
            let wanted = HistoryTable.Filter(date: date, author: author, entity: entity)
            found += try await writing(file.id) { db in
                try HistoryTable.assignTransaction(db, at: now)
                return try HistoryTable.fetch(db, file.id, after: token, wanted)
            }
        }
        return found
    }

    /// Returns the current end of the history of all stores.
    public func currentHistoryToken() async throws(MirrorError) -> HistoryToken {
        var token = HistoryToken()
        for file in stores.files {
            token = token.joined(with: try await reading(file.id) { try HistoryTable.end($0, file.id) })
        }
        return token
    }

    /// Deletes the history before a token; unsent changes are stored elsewhere and not affected.
    public func deleteHistory(before token: HistoryToken) async throws(MirrorError) {
        for file in stores.files {
            try await writing(file.id) { db in
                guard let position = token.position(of: file.id, in: try HistoryTable.file(db)) else { return }
                try HistoryTable.delete(db, to: position)
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
                    let token = try? await file.pool.read { try HistoryTable.end($0, store) }
                    continuation.yield((store, token ?? HistoryToken()))
                }
            }
            continuation.onTermination = { _ in stores.stopListening(id) }
        }
    }
}
