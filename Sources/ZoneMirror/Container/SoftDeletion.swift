import Foundation
import GRDB
import Records
import Synchronization
import ZoneKit

extension MirrorContext {
    /// Marks an object as deleted by a date, for public databases, which do not report deletions to mirrors.
    ///
    /// The entity has to name the attribute (`Entity.softDeletion`); fetches leave marked objects out by default.
    ///
    /// - Throws: `unknownProperty` for an entity without such an attribute.
    public func softDelete<T: SyncedRecord>(_ object: T) throws(MirrorError) {
        guard let table = stores.table(T.entityName), let mark = table.entity?.softDeletion,
            let position = table.index[mark], table.columns[position].attribute?.type == .date
        else {
            throw MirrorError(
                .unknownProperty,
                "\(T.entityName) names no date attribute for soft deletion. Set Entity.softDeletion in describe(_:)."
            )
        }
        var row = try row(of: object)
        row[position] = stores.now.timeIntervalSince1970.databaseValue
        var marked = try decode(T.self, object.id.text, row, nil, [:])
        marked.id = object.id
        try update(marked)
    }
}

/// The size and contents of a store.
public struct StoreStatistics: Hashable, Sendable {
    /// The size of the file and its WAL in bytes.
    public var bytes: Int
    /// The number of objects, by entity.
    public var rows: [String: Int]
}

/// Cleaning up and measuring a mirror of a database without tombstones.
///
/// See PublicData.md, "Deletion does not travel".
extension MirroredContainer {
    /// Removes objects that were marked as deleted long enough ago, here and, if the user may, on the relay.
    ///
    /// Nothing proves that every client has seen the mark; choose a time longer than any client stays offline.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - age: The minimum age of the mark.
    /// - Returns: The number of objects removed here.
    /// - Throws: `unknownProperty` for an entity without a mark; SQLite's errors.
    @discardableResult
    public func purgeSoftDeleted<T: SyncedRecord>(
        _ type: T.Type,
        olderThan age: Duration
    ) async throws(MirrorError) -> Int {
        guard let mark = model.entities[T.entityName]?.softDeletion else {
            throw MirrorError(.unknownProperty, "\(T.entityName) names no attribute for soft deletion.")
        }
        let now = conditions.wallClock()
        let limit = now.addingTimeInterval(-age.inSeconds).timeIntervalSince1970
        var count = 0
        for file in stores.files(holding: T.entityName) {
            let permissions = Permissions(file: file, account: stores.account)
            count += try await writing(file.id) { db in
                let sql = "SELECT id FROM \(T.entityName.quoted) WHERE \(mark.quoted) < ?"
                let old = try String.fetchAll(db, sql: sql, arguments: [limit])
                let mine = try old.filter { try !file.isMirrored || permissions.canDelete(db, oid: $0) }
                guard let table = file.mapping.tables[T.entityName] else { return 0 }
                for id in mine { try table.delete(db, id) }
                let others = Set(old).subtracting(mine)
                try Importer.run(db, file, at: now) { importer in
                    for id in others { try KnownRecord.find(db, oid: id).map { try importer.remove($0) } }
                }
                return old.count
            }
        }
        return count
    }

    /// Removes objects of a public store that the relay no longer has, by reading all record names of their type.
    ///
    /// Their many-to-many links are checked in the same way.
    ///
    /// - Parameter type: The entity.
    /// - Returns: The number of objects removed.
    /// - Throws: `wrongStore` if no public store holds the entity, and the error that stopped the reading.
    @discardableResult
    public func reconcile<T: SyncedRecord>(_ type: T.Type) async throws(MirrorError) -> Int {
        guard let file = stores.files(holding: T.entityName).first(where: { $0.scope == .public }),
            let table = file.mapping.tables[T.entityName]
        else { throw MirrorError(.wrongStore, "No public store holds \(T.entityName).") }
        let deleted = try await strays([table], in: file)
        let pairs = (file.mapping.incoming[table.name] ?? []).map(\.table).filter { $0.entity == nil }
        let parted = pairs.isEmpty ? [] : try await strays(pairs, in: file)
        let now = conditions.wallClock()
        return try await writing(file.id) { db in
            let left = try (deleted + parted).compactMap { before in
                try KnownRecord.find(db, oid: before.oid).flatMap { $0.changeTag == before.tag ? $0 : nil }
            }
            try Importer.run(db, file, at: now) { importer in
                for record in left { try importer.remove(record) }
            }
            // An object with unsent changes stays and is created again on the relay.
            return try left.count { record in
                guard record.entity == table.name, let oid = record.oid else { return false }
                return try table.row(db, oid) == nil
            }
        }
    }

    /// The id of an object whose record the relay no longer has, and the record's last known version.
    private typealias Stray = (oid: String, tag: String?)

    /// Returns the records of some tables of one type that the relay no longer has.
    private func strays(_ tables: [TableLayout], in file: StoreFile) async throws(MirrorError) -> [Stray] {
        guard let cloud = file.description.cloud, let form = tables.first else { return [] }
        // Read first: records created or changed while all names are being read may not be among those.
        let known = try await reading(file.id) { db in
            let sql = "SELECT oid FROM mirror_record WHERE entity = ? AND state IN \(RecordTable.inZone)"
            return try Set(tables.map(\.name)).flatMap { try String.fetchAll(db, sql: sql, arguments: [$0]) }
                .compactMap { oid in try KnownRecord.find(db, oid: oid).map { (oid, $0.name, $0.changeTag) } }
        }
        // The relay does not know the type of a many-to-many relationship before the first link was created.
        if form.entity == nil, known.isEmpty { return [] }
        let client = cloud.container.publicCloudDatabase.client
        let type = file.mapping.recordType(of: form)
        var there: Set<String> = []
        var marker: String?
        do {
            repeat {
                let page = try await client.query(
                    type,
                    since: nil,
                    marker: marker,
                    extent: file.extents[type],
                    namesOnly: true
                )
                there.formUnion(page.records.map(\.id.recordName))
                marker = page.marker
            } while marker != nil
        } catch {
            throw MirrorError(from: error)
        }
        let names = there
        return known.filter { !names.contains($0.1) }.map { ($0.0, $0.2) }
    }

    /// Returns the size and contents of a store; a public store holds the whole database.
    public func statistics(_ store: StoreID) async throws(MirrorError) -> StoreStatistics {
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        let rows = try await reading(store) { db in
            var rows: [String: Int] = [:]
            for name in file.mapping.tableNames {
                rows[name] = try Int.fetchOne(db, sql: "SELECT count(*) FROM \(name.quoted)") ?? 0
            }
            return rows
        }
        let bytes = [file.path, file.path + "-wal"].reduce(0) { sum, path in
            let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
            return sum + (size ?? 0)
        }
        return StoreStatistics(bytes: bytes, rows: rows)
    }
}
