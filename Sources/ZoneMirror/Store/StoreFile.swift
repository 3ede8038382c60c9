import Foundation
package import GRDB
package import Records
import Synchronization
import ZoneKit

/// One open store: its file, its tables and their mapping to records.
package final class StoreFile: Sendable {
    package let id: StoreID
    let description: StoreDescription
    let model: MirrorModel
    let mapping: RecordMapping
    /// The path of the open file: the description's own, or another account's in the same folder.
    let path: String
    package let pool: MirrorPool

    var isMirrored: Bool { description.cloud != nil }
    var scope: CKDatabase.Scope? { description.cloud?.scope }

    /// Opens or creates the file.
    ///
    /// - Throws: SQLite's errors.
    package init(_ description: StoreDescription, model: MirrorModel, path: String, isImmediate: Bool = false) throws {
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
            // A cascade may lead back to its own table.
            try db.execute(sql: "PRAGMA recursive_triggers = ON")
            // Record names are random, so an import touches pages all over the file. The cache keeps them in memory,
            // and the WAL is checkpointed rarely.
            let cache = db.configuration.readonly ? Self.readersCache : Self.cache
            try db.execute(sql: "PRAGMA cache_size = -\(cache)")
            guard !db.configuration.readonly else { return }
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(Self.checkpoint)")
            // Truncates the WAL after a long read has let it grow.
            try db.execute(sql: "PRAGMA journal_size_limit = \(Self.checkpoint * 4_096)")
        }
        pool = try MirrorPool(path: path, configuration: configuration, isImmediate: isImmediate)
        try prepare(tables)
    }

    /// The maximum page cache of the writer, in KiB.
    private static let cache = 32_768
    /// The maximum page cache of each reader, in KiB.
    private static let readersCache = 4_096
    /// The size of the WAL, in pages of 4 KiB, at which it is checkpointed.
    private static let checkpoint = 8_000

    private func prepare(_ tables: [TableLayout]) throws {
        try pool.write { db in
            try StoreTables.create(db, name: URL(filePath: path).lastPathComponent)
            let last = try State.text(db, .layout)
            // Another container mirrors the file, or will again; it will send what is written here.
            let isGuest = !isMirrored && Self.isMirrorLayout(last)
            let layout = EntityTables(
                model: model,
                tables: tables,
                isMirrored: isMirrored || isGuest,
                isPublic: try scope == .public || isGuest && EntityTables.hasOwnershipTriggers(db),
                tracksHistory: description.tracksHistory || isMirrored || isGuest
            )
            // A new version may create other triggers for the same model.
            let shape = tables.map { "\($0.name) \($0.kind) \($0.columns)" }
            let indexes = try tables.flatMap { try UniqueIndex.all(db, of: $0) }
            let kind = "\(StoreTables.version) \(isMirrored) \(layout.tracksHistory)"
            let signature = "\(kind) \(shape)\(indexes.isEmpty ? "" : " \(indexes)")"
            guard last != signature else { return }
            try ColumnTypes.check(db, tables)
            if isGuest { return try layout.createMissing(db) }
            try checkEncryption(db, tables)
            let record = try LayoutRecord(db)
            let changes = try layout.create(db, since: record)
            try State.set(db, .layout, signature)
            guard isMirrored else { return }
            try (record ?? LayoutRecord()).updated(by: tables).store(db)
            let now = Date()
            if last != nil {
                try Importer.run(db, self, at: now) { try $0.adopt(changes) }
            }
            // A new object of a shared store needs a share, which the objects of a local store do not have.
            guard scope != .shared else { return }
            try ExistingObjects(db: db, file: self).queue(wasMirrored: Self.isMirrorLayout(last), at: now)
        }
    }

    /// Returns whether a layout's mark was written by a container that mirrors the file.
    private static func isMirrorLayout(_ signature: String?) -> Bool {
        signature?.split(separator: " ", maxSplits: 2).dropFirst().first == "true"
    }

    /// Throws if the model encrypts a field that an earlier model sent in clear text, and stores this model's clear
    /// fields.
    private func checkEncryption(_ db: Database, _ tables: [TableLayout]) throws {
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
                "The model cannot be mirrored. Each line names a problem and its solution."
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
}

/// The values that a store keeps about itself.
package enum State {
    package enum Key: String {
        /// The version of the mirror's tables; see `StoreTables`.
        case version
        case layout, account, databaseToken, hasImported, lastImport, lastExport, heldUntil, heldFor, identity
        case quotaIsFull
        case extents, mergeKeys, clearFields
        /// The layout of the model that mirrored the file last; see `LayoutRecord`.
        case columns
        /// The types that the properties have had; see `ColumnTypes`.
        case types
        /// Set if some records are expected in other zones than they were in.
        case awaitsRecords
        /// Set if records have moved to another zone and their dependents may be left behind; see `UnsharedLinkedObjects`.
        case unsharedLinkedObjects = "stragglers"
        /// The number of objects that the store held before it was mirrored, until an event has reported it.
        case existingObjects
        /// Set if some records that the model does not know must be sent again.
        case hasUnsent
    }

    package static func text(_ db: Database, _ key: Key) throws -> String? {
        let statement = try db.cachedStatement(sql: "SELECT v FROM mirror_state WHERE k = ?")
        return try String.fetchOne(statement, arguments: [key.rawValue])
    }

    package static func number(_ db: Database, _ key: Key) throws -> Double? {
        let statement = try db.cachedStatement(sql: "SELECT v FROM mirror_state WHERE k = ?")
        return try Double.fetchOne(statement, arguments: [key.rawValue])
    }

    package static func set(_ db: Database, _ key: Key, _ value: (any DatabaseValueConvertible)?) throws {
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
    /// The zone for new objects; `nil` in a shared database, which has no zone of its own.
    package var homeZone: ZoneID? {
        switch description.cloud?.scope {
        case .private: ZoneID(description.cloud?.zoneName ?? ZoneID.defaultName)
        case .public: ZoneID(ZoneID.defaultName)
        case .shared, nil: nil
        }
    }
}
