import Foundation
import GRDB
import Records
import Synchronization
import ZoneKit

/// One open store: its file, its tables, and what they mean on the relay.
final class StoreFile: Sendable {
    let id: StoreID
    let description: StoreDescription
    let model: MirrorModel
    let mapping: RecordMapping
    /// The file that is open: the description's own, or another account's beside it.
    let path: String
    let pool: MirrorPool

    var isMirrored: Bool { description.cloud != nil }
    var scope: CKDatabase.Scope? { description.cloud?.scope }

    /// Opens or makes the file.
    ///
    /// Throws what SQLite throws.
    init(_ description: StoreDescription, model: MirrorModel, path: String, isImmediate: Bool = false) throws {
        id = description.id
        self.description = description
        self.model = model
        self.path = path
        let tables = model.tables(in: description.configuration)
        mapping = RecordMapping(tables: tables, prefix: description.cloud?.prefix ?? "CD_")
        var configuration = Configuration()
        configuration.label = "ZoneMirror"
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            // Cascades may lead back to the same table.
            try db.execute(sql: "PRAGMA recursive_triggers = ON")
            // Names are drawn at random, so that an import touches pages all over: they should still be in memory, and
            // written to the file itself now and then only.
            let cache = db.configuration.readonly ? Self.readersCache : Self.cache
            try db.execute(sql: "PRAGMA cache_size = -\(cache)")
            guard !db.configuration.readonly else { return }
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(Self.checkpoint)")
            // What a long read made of the log goes when that is over.
            try db.execute(sql: "PRAGMA journal_size_limit = \(Self.checkpoint * 4_096)")
        }
        pool = try MirrorPool(path: path, configuration: configuration, isImmediate: isImmediate)
        try prepare(tables)
    }

    /// What the writer keeps in memory, in KiB, as far as it has touched so much.
    private static let cache = 32_768
    /// What each reader does.
    private static let readersCache = 4_096
    /// How many pages of 4 KiB the log takes before they go into the file.
    private static let checkpoint = 8_000

    private func prepare(_ tables: [TableForm]) throws {
        try pool.write { db in
            try StoreTables.create(db)
            let last = try State.text(db, .layout)
            // Another container keeps it in step, or will again: what is written here is to be sent then.
            let isGuest = !isMirrored && Self.isOfMirror(last)
            let layout = EntityTables(
                model: model,
                tables: tables,
                isMirrored: isMirrored || isGuest,
                isPublic: try scope == .public || isGuest && EntityTables.haveOwners(db),
                tracksHistory: description.tracksHistory || isMirrored || isGuest
            )
            // A new version of this module may write other triggers for the same model.
            let shape = tables.map { "\($0.name) \($0.kind) \($0.columns)" }
            let indexes = try tables.flatMap { try UniqueIndex.all(db, of: $0) }
            let mark = "10 \(isMirrored) \(layout.tracksHistory) \(shape)\(indexes.isEmpty ? "" : " \(indexes)")"
            guard last != mark else { return }
            try ColumnTypes.check(db, tables)
            if isGuest { return try layout.createMissing(db) }
            try checkEncryption(db, tables)
            let record = try LayoutRecord(db)
            let changes = try layout.create(db, since: record)
            try State.set(db, .layout, mark)
            guard isMirrored else { return }
            try (record ?? LayoutRecord()).followed(by: tables).store(db)
            let now = Date()
            if last != nil {
                try Self.importing(db, author: Importer.author, at: now) { transaction in
                    try Importer(db, self, transaction: transaction, now: now).adopt(changes)
                }
            }
            // A new object of a shared store needs a share, which those of a local store do not have.
            guard scope != .shared else { return }
            try ExistingObjects(db: db, file: self).queue(wasMirrored: Self.isOfMirror(last), at: now)
        }
    }

    /// Whether a layout's mark is that of a container which mirrors the file.
    private static func isOfMirror(_ mark: String?) -> Bool {
        mark?.split(separator: " ", maxSplits: 2).dropFirst().first == "true"
    }

    /// Refuses to encrypt what earlier models sent in clear, and remembers what this one does.
    private func checkEncryption(_ db: Database, _ tables: [TableForm]) throws {
        guard let cloud = description.cloud else { return }
        let before = try State.text(db, .clearFields)?.split(separator: ",").map(String.init) ?? []
        var check = ModelCheck(
            model: model,
            configuration: description.configuration,
            isPublic: cloud.scope == .public,
            prefix: cloud.prefix
        )
        check.clearFields = Set(before)
        let violations = check.violations()
        if !violations.isEmpty {
            throw MirrorError(
                .modelIncompatible(violations),
                "The model cannot be mirrored as it is. Each line names a place and what to do there."
            )
        }
        let clear = tables.flatMap { table in
            table.columns.compactMap { column in
                column.attribute?.isEncrypted == false
                    ? "\(mapping.recordType(of: table)).\(mapping.field(column))" : nil
            }
        }
        try State.set(db, .clearFields, Set(before).union(clear).sorted().joined(separator: ","))
    }

    /// Writes as the relay's hand: the triggers do not note it as the user's change.
    ///
    /// `author` goes into the history with all that changes.
    static func importing<Result>(
        _ db: Database,
        author: String,
        at date: Date,
        _ body: (_ transaction: Int64) throws -> Result
    ) throws -> Result {
        try db.execute(
            sql: "INSERT INTO mirror_transaction(author, at) VALUES (?, ?)",
            arguments: [author, date.timeIntervalSince1970]
        )
        let transaction = db.lastInsertedRowID
        return try unnoticed(db) { try body(transaction) }
    }

    /// Writes without the triggers noting it.
    static func unnoticed<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        try db.execute(sql: "UPDATE mirror_local SET importing = 1")
        let result = try body()
        try db.execute(sql: "UPDATE mirror_local SET importing = 0")
        return result
    }
}

/// The few values that a store keeps about itself.
enum State {
    enum Key: String {
        case layout, account, databaseToken, hasImported, lastImport, lastExport, heldUntil, heldFor, identity
        case quotaIsFull
        case extents, mergeKeys, clearFields
        /// What the model looked like that kept the file in step last.
        case columns
        /// Of which types the properties have ever been; see `ColumnTypes`.
        case types
        /// Some records are awaited in other zones than they were in.
        case awaitsRecords
        /// Something has moved to another zone, and what hangs on it may have stayed behind; see `Stragglers`.
        case stragglers
        /// How many objects the store held before it was mirrored, until an event has told of them.
        case existingObjects
        /// Some records that the model does not know are to be sent anew.
        case hasUnsent
    }

    static func text(_ db: Database, _ key: Key) throws -> String? {
        let statement = try db.cachedStatement(sql: "SELECT v FROM mirror_state WHERE k = ?")
        return try String.fetchOne(statement, arguments: [key.rawValue])
    }

    static func number(_ db: Database, _ key: Key) throws -> Double? {
        let statement = try db.cachedStatement(sql: "SELECT v FROM mirror_state WHERE k = ?")
        return try Double.fetchOne(statement, arguments: [key.rawValue])
    }

    static func set(_ db: Database, _ key: Key, _ value: (any DatabaseValueConvertible)?) throws {
        guard let value else {
            try db.execute(sql: "DELETE FROM mirror_state WHERE k = ?", arguments: [key.rawValue])
            return
        }
        try db.execute(
            sql: "INSERT INTO mirror_state(k, v) VALUES (?, ?) ON CONFLICT(k) DO UPDATE SET v = excluded.v",
            arguments: [key.rawValue, value]
        )
    }
}

extension StoreFile {
    /// Where new objects go; `nil` in a shared database, which has no zone of its own.
    var homeZone: ZoneID? {
        switch description.cloud?.scope {
        case .private: ZoneID(description.cloud?.zoneName ?? ZoneID.defaultName)
        case .public: ZoneID(ZoneID.defaultName)
        case .shared, nil: nil
        }
    }
}
