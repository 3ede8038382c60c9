import GRDB

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
    mutating func forget(_ key: MirrorContext.Key, _ tables: [String: TableForm]) {
        pending[key] = nil
        for (holder, item) in pending {
            guard let table = tables[holder.entity] else { continue }
            let places = table.links.filter {
                table.columns[$0].link?.destination == key.entity && item.row[$0] == key.id.databaseValue
            }
            if places.isEmpty { continue }
            if table.entity == nil, case .insert = item.change { pending[holder] = nil }
            for place in places where table.entity != nil { pending[holder]?.row[place] = .null }
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
