import Foundation
import GRDB
import Synchronization

extension MirrorContext {
    /// Fetches objects from all stores that hold the entity, or from the request's stores.
    ///
    /// - Returns: Copies of the objects. Changing a copy has no effect until `update`.
    public func fetch<T: SyncedRecord>(_ request: FetchRequest<T>) throws(MirrorError) -> [T] {
        if let problem = request.predicate?.problem ?? request.sorts.compactMap(\.problem).first { throw problem }
        // Read before the rows, so that a file opened in between is recognized as another one.
        let paths = stores.paths
        let files = try affected(request)
        let pending = request.includesPendingChanges ? pendingRows(T.entityName) : [:]
        // With one source, SQLite applies the sort order and the limit.
        let isSimple = files.count == 1 && pending.isEmpty
        var found: [T] = []
        guard !files.isEmpty || !pending.isEmpty else { return found }
        var reader = try reader(of: T.self)
        defer { stores.report(reader.unread, of: T.entityName) }
        for file in files {
            let rows = try rows(request, file, isCut: isSimple)
            for (id, row) in rows where pending[id]?.isIn(file.id) != true {
                found.append(try decode(&reader, id, row, file.id, paths))
            }
        }
        if isSimple { return found }
        let wanted = Set(files.map(\.id))
        for (id, pending) in pending {
            if case .delete = pending.change { continue }
            if let store = pending.store, !wanted.contains(store) { continue }
            let object = try decode(&reader, id, pending.row, pending.store, pending.files)
            if try matches(object, request, pending, id) { found.append(object) }
        }
        found.sort { Self.precedes($0, $1, request.sorts) }
        let rest = found.dropFirst(max(0, request.offset))
        return Array(request.limit.map { rest.prefix(max(0, $0)) } ?? rest)
    }

    /// Fetches all objects that match a condition.
    public func fetch<T: SyncedRecord>(
        _ type: T.Type,
        _ predicate: Condition<T>? = nil,
        sortedBy sorts: SortKey<T>...
    ) throws(MirrorError) -> [T] {
        var request = FetchRequest(type, predicate)
        request.sorts = sorts
        return try fetch(request)
    }

    /// Returns the number of objects that match a request.
    public func count<T: SyncedRecord>(_ request: FetchRequest<T>) throws(MirrorError) -> Int {
        if request.limit != nil || request.offset > 0 || !pendingRows(T.entityName).isEmpty {
            return try fetch(request).count
        }
        if let problem = request.predicate?.problem { throw problem }
        var count = 0
        for file in try affected(request) {
            let (condition, arguments) = Self.condition(request, file)
            let sql = "SELECT count(*) FROM \(T.entityName.quoted)\(condition)"
            count += try read(file) { try Int.fetchOne($0, sql: sql, arguments: arguments) ?? 0 }
        }
        return count
    }

    /// Returns the objects to which a relationship of one object leads.
    ///
    /// - Parameters:
    ///   - object: The object that has the relationship.
    ///   - path: The relationship.
    ///   - sorts: The sort order; by name if empty.
    /// - Returns: The related objects.
    /// - Throws: `unknownProperty` for a relationship without an inverse; SQLite's errors.
    public func related<T: SyncedRecord, Target: SyncedRecord>(
        to object: T,
        _ path: KeyPath<T, ToMany<Target>>,
        sortedBy sorts: SortKey<Target>...
    ) throws(MirrorError) -> [Target] {
        let name = try PropertyNames.name(of: path)
        guard let entity = stores.model.entities[T.entityName],
            let relationship = entity.relationships.first(where: { $0.name == name }),
            let back = stores.model.inverse(of: relationship)
        else { throw MirrorError(.unknownProperty, "\(T.entityName).\(name) is not a relationship with an inverse.") }
        if let pair = stores.model.pair(relationship, of: T.entityName) {
            return try paired(to: object, pair, name, sorts)
        }
        // The other side stores the link, possibly in unsaved changes.
        guard let position = stores.table(Target.entityName)?.index[back.name] else { return [] }
        var request = FetchRequest(Target.self, .sql("\(back.name.quoted) = ?", object.id.text))
        request.includesPendingChanges = false
        // Links do not lead to another store, which may have an object with the same name.
        let home = home(of: object.id)
        if let home, stores.file(home) != nil { request.affectedStores = [home] }
        let pending = pendingRows(Target.entityName)
        var found = try fetch(request).filter { pending[$0.id.text]?.isIn($0.id.origin?.store) != true }
        for (id, pending) in pending
        where pending.row[position] == object.id.text.databaseValue && pending.isIn(home) {
            if case .delete = pending.change { continue }
            if isSoftDeleted(pending, Target.entityName) { continue }
            found.append(try decode(Target.self, id, pending.row, pending.store, pending.files))
        }
        return found.sorted { Self.precedes($0, $1, sorts) }
    }

    private func paired<T: SyncedRecord, Target: SyncedRecord>(
        to object: T,
        _ pair: JoinTableLayout,
        _ name: String,
        _ sorts: [SortKey<Target>]
    ) throws(MirrorError) -> [Target] {
        let here = pair.column(of: name, in: T.entityName)
        let there = here == "source" ? "target" : "source"
        var ids: Set<String> = []
        let home = home(of: object.id)
        for file in stores.files(holding: pair.tableName) where home == nil || file.id == home {
            // A link whose other end is not here yet is left out.
            let ends = "\(here.quoted) = ? AND \(there.quoted) IS NOT NULL"
            let sql = "SELECT \(there.quoted) FROM \(pair.tableName.quoted) WHERE \(ends)"
            ids.formUnion(try read(file) { try String.fetchSet($0, sql: sql, arguments: [object.id.text]) })
        }
        guard let table = stores.table(pair.tableName), let (mine, theirs) = table.positions(here, there) else {
            return []
        }
        for (_, pending) in pendingRows(pair.tableName)
        where pending.row[mine] == object.id.text.databaseValue && pending.isIn(home) {
            guard let other = String.fromDatabaseValue(pending.row[theirs]) else { continue }
            if case .delete = pending.change { ids.remove(other) } else { ids.insert(other) }
        }
        var request = FetchRequest(Target.self, .ids(ids.map { RecordName($0) }))
        request.sorts = sorts
        // Includes new objects, which are in no store yet.
        return try fetch(request).filter { home == nil || $0.id.origin == nil || $0.id.origin?.store == home }
    }

    // MARK: Helpers

    private func affected<T: SyncedRecord>(_ request: FetchRequest<T>) throws(MirrorError) -> [StoreFile] {
        let files = stores.files(holding: T.entityName)
        guard let wanted = request.affectedStores else { return files }
        guard wanted.allSatisfy({ stores.file($0) != nil }) else {
            throw MirrorError(.unknownStore, "affectedStores names a store that this container does not have.")
        }
        return files.filter { wanted.contains($0.id) }
    }

    func pendingRows(_ entity: String) -> [String: Pending] {
        let below = parent?.pendingRows(entity) ?? [:]
        return state.withLock { state in
            guard !state.pending.isEmpty else { return below }
            let mine = state.pending.filter { $0.key.entity == entity }
            return below.merging(mine.map { ($0.key.id, $0.value) }) { $1 }
        }
    }

    private static func condition<T: SyncedRecord>(
        _ request: FetchRequest<T>,
        _ file: StoreFile
    ) -> (String, StatementArguments) {
        var parts: [String] = []
        if let predicate = request.predicate { parts.append(predicate.sql) }
        if !request.includesSoftDeleted, let mark = file.mapping.tables[T.entityName]?.entity?.softDeletion {
            parts.append("\(mark.quoted) IS NULL")
        }
        let text = parts.isEmpty ? "" : " WHERE " + parts.joined(separator: " AND ")
        return (text, StatementArguments(request.predicate?.arguments ?? []))
    }

    private func rows<T: SyncedRecord>(
        _ request: FetchRequest<T>,
        _ file: StoreFile,
        isCut: Bool
    ) throws(MirrorError) -> [(String, [DatabaseValue])] {
        guard let table = file.mapping.tables[T.entityName] else { return [] }
        let (condition, arguments) = Self.condition(request, file)
        var sql = table.sql.select + condition
        sql += " ORDER BY " + (request.sorts.map(\.sql) + ["id"]).joined(separator: ", ")
        if isCut, request.limit != nil || request.offset > 0 {
            sql += " LIMIT \(request.limit.map { max(0, $0) } ?? -1) OFFSET \(request.offset)"
        }
        let statement = sql
        return try read(file) { db in
            var rows: [(String, [DatabaseValue])] = []
            let cursor = try Row.fetchCursor(db.cachedStatement(sql: statement), arguments: arguments)
            while let row = try cursor.next() { rows.append((row[0], table.values(row))) }
            return rows
        }
    }

    private func matches<T: SyncedRecord>(
        _ object: T,
        _ request: FetchRequest<T>,
        _ pending: Pending,
        _ id: String
    ) throws(MirrorError) -> Bool {
        if !request.includesSoftDeleted, isSoftDeleted(pending, T.entityName) { return false }
        guard let predicate = request.predicate else { return true }
        return predicate.test?(object) ?? false
    }

    private func isSoftDeleted(_ pending: Pending, _ entity: String) -> Bool {
        guard let table = stores.table(entity), let mark = table.entity?.softDeletion else { return false }
        return table.index[mark].map { !pending.row[$0].isNull } ?? false
    }

    static func precedes<T: SyncedRecord>(_ a: T, _ b: T, _ sorts: [SortKey<T>]) -> Bool {
        for sort in sorts {
            if let answer = sort.precedes(a, b) { return answer }
        }
        return a.id < b.id
    }
}

extension TableLayout {
    func positions(_ a: String, _ b: String) -> (Int, Int)? {
        guard let first = index[a], let second = index[b] else { return nil }
        return (first, second)
    }
}

/// Converts objects to rows and rows to objects.
extension MirrorContext {
    /// Returns an object's row; `base` is the row that the object was read from.
    func row<T: SyncedRecord>(of object: T, over base: [DatabaseValue]? = nil) throws(MirrorError) -> [DatabaseValue] {
        try encoded(object, over: base).row
    }

    /// Returns an object's row and the store that its links lead to, if known.
    func encoded<T: SyncedRecord>(
        _ object: T,
        over base: [DatabaseValue]? = nil
    ) throws(MirrorError) -> (row: [DatabaseValue], store: StoreID?) {
        guard let table = stores.table(T.entityName) else {
            throw MirrorError(.noStoreForEntity, "No store of this container holds \(T.entityName).")
        }
        do {
            let (values, store) = try RowEncoder.values(of: object) { property, value, reason in
                guard !value.isNull, let position = table.index[property] else { return false }
                guard table.columns[position].attribute?.defaultValue == value else { return base?[position] == value }
                // Numbers that no column can hold are rounded; only the default itself is accepted.
                return (try? RowEncoder.refusals(of: T())[property]) == reason
            }
            return (table.columns.map { values[$0.name] ?? .null }, store)
        } catch {
            throw MirrorError(.storage, "\(T.entityName) \(object.id) cannot be encoded: \(error)", underlying: error)
        }
    }

    /// Returns the row of an object as it was read, with the changes made since.
    ///
    /// A value may have several encodings: a set in any order, a UUID in lower case, JSON with members that only a
    /// newer program knows. A value whose encoding equals that of the value read is not a change and keeps its stored
    /// form. So does a value that cannot be read, for which the object has a default.
    func row<T: SyncedRecord>(
        of object: T,
        readFrom base: [DatabaseValue]?
    ) throws(MirrorError) -> [DatabaseValue] {
        let row = try row(of: object, over: base)
        guard let base, base.count == row.count, base != row, let table = stores.table(T.entityName) else { return row }
        var reader = RowReader<T>(table)
        guard let before = try? reader.read(object.id, base), let again = try? self.row(of: before, over: base) else {
            return row
        }
        return base.edited(as: row, since: again)
    }

    func decode<T: SyncedRecord>(
        _ type: T.Type,
        _ id: String,
        _ row: [DatabaseValue],
        _ store: StoreID?,
        _ files: [StoreID: String]
    ) throws(MirrorError) -> T {
        var reader = try reader(of: type)
        defer { stores.report(reader.unread, of: T.entityName) }
        return try decode(&reader, id, row, store, files)
    }

    func reader<T: SyncedRecord>(of type: T.Type) throws(MirrorError) -> RowReader<T> {
        guard let table = stores.table(T.entityName) else {
            throw MirrorError(.noStoreForEntity, "No store of this container holds \(T.entityName).")
        }
        return RowReader(table)
    }

    func decode<T: SyncedRecord>(
        _ reader: inout RowReader<T>,
        _ id: String,
        _ row: [DatabaseValue],
        _ store: StoreID?,
        _ files: [StoreID: String]
    ) throws(MirrorError) -> T {
        let name = RecordName(id, origin: store.map { Origin(store: $0, name: id, row: row, files: files) })
        do {
            return try reader.read(name, row)
        } catch {
            throw MirrorError(.storage, "A row of \(T.entityName) cannot be decoded: \(error)", underlying: error)
        }
    }
}

extension MirrorContext.State {
    /// Returns the values of an object to write over those in the file.
    ///
    /// An object created here and not fetched since lacks links that were set from their other side. Values that the
    /// application has not changed since the last save stay as they are.
    func values(
        _ row: [DatabaseValue],
        _ key: MirrorContext.Key,
        _ origin: Origin?,
        over base: [DatabaseValue]
    ) -> [DatabaseValue] {
        origin?.row == nil ? saved.edits(key, of: row, over: base) : row
    }

    /// Removes a new object that is not to be saved, and the links to it.
    mutating func forget(_ key: MirrorContext.Key, _ tables: [String: TableLayout]) {
        pending[key] = nil
        for (source, item) in pending {
            guard let table = tables[source.entity] else { continue }
            let places = table.links.filter {
                table.columns[$0].link?.destination == key.entity && item.row[$0] == key.id.databaseValue
            }
            if places.isEmpty { continue }
            if table.entity == nil, case .insert = item.change { pending[source] = nil }
            for place in places where table.entity != nil { pending[source]?.row[place] = .null }
        }
    }

    mutating func touch(
        _ key: MirrorContext.Key,
        _ change: MirrorContext.Pending.Change,
        _ store: StoreID?,
        _ row: [DatabaseValue],
        _ files: [StoreID: String]
    ) {
        let place = pending[key]?.place ?? nextPlace
        nextPlace += 1
        pending[key] = MirrorContext.Pending(change: change, store: store, row: row, place: place, files: files)
    }
}
