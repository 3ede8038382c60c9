import GRDB
import Records
import Synchronization

/// Many-to-many links, and one-to-many links from the to-many side.
extension MirrorContext {
    /// Links two objects; does nothing if they are linked already.
    ///
    /// - Throws: `unknownProperty` for a relationship without an inverse.
    public func link<T: SyncedRecord, Target: SyncedRecord>(
        _ object: T,
        _ path: KeyPath<T, ToMany<Target>>,
        _ other: Target
    ) throws(MirrorError) {
        let end = try end(path)
        guard let pair = end.pair else { return try point(Target.self, other.id, end.back, to: object.id.text) }
        let key = Self.key(pair, end.name, T.entityName, object.id.text, other.id.text)
        let row = Self.row(pair, end.name, T.entityName, object.id.text, other.id.text)
        let home = home(of: object.id) ?? home(of: other.id)
        if try find(key, home) != nil {
            return state.withLock { $0.pending[key] = nil }
        }
        // A link row of another program counts, unless a parent context is about to delete it.
        let others = try linked(pair, row, home).map { Key(entity: pair.tableName, id: $0.1) }.filter { other in
            if case .delete? = parent?.overlay(other)?.change { false } else { true }
        }
        let files = stores.paths
        state.withLock { state in
            for other in others { state.pending[other] = nil }
            guard others.isEmpty else { return }
            state.touch(key, .insert, nil, row, files)
            if let home { state.assigned[key] = home }
        }
    }

    /// Removes the link between two objects; does nothing if there is none.
    ///
    /// - Throws: `unknownProperty` for a relationship without an inverse.
    public func unlink<T: SyncedRecord, Target: SyncedRecord>(
        _ object: T,
        _ path: KeyPath<T, ToMany<Target>>,
        _ other: Target
    ) throws(MirrorError) {
        let end = try end(path)
        guard let pair = end.pair else {
            guard let position = stores.table(Target.entityName)?.index[end.back],
                let current = try self.object(Target.self, other.id),
                try row(of: current)[position] == object.id.text.databaseValue
            else { return }
            return try point(Target.self, other.id, end.back, to: nil)
        }
        let row = Self.row(pair, end.name, T.entityName, object.id.text, other.id.text)
        let own = Self.key(pair, end.name, T.entityName, object.id.text, other.id.text)
        let below = parent?.overlay(own)?.change
        let files = stores.paths
        state.withLock { state in
            if case .insert? = state.pending[own]?.change { state.pending[own] = nil }
            // If the link is new in a parent context, the save removes it there.
            if case .insert? = below { state.touch(own, .delete(base: row), nil, row, files) }
        }
        // Another program may have linked the same objects under another id.
        for (store, id) in try linked(pair, row, home(of: object.id) ?? home(of: other.id)) {
            let key = Key(entity: pair.tableName, id: id)
            state.withLock { $0.touch(key, .delete(base: row), store, row, files) }
        }
    }

    private func end<T: SyncedRecord, Target>(
        _ path: KeyPath<T, ToMany<Target>>
    ) throws(MirrorError) -> (name: String, back: String, pair: PairForm?) {
        let name = try PropertyNames.name(of: path)
        guard let relationship = stores.model.entities[T.entityName]?.relationships.first(where: { $0.name == name }),
            let back = stores.model.inverse(of: relationship)
        else { throw MirrorError(.unknownProperty, "\(T.entityName).\(name) is not a relationship with an inverse.") }
        return (name, back.name, stores.model.pair(relationship, of: T.entityName))
    }

    /// Sets the column of the to-one side.
    private func point<Target: SyncedRecord>(
        _ type: Target.Type,
        _ id: RecordName,
        _ column: String,
        to other: String?
    ) throws(MirrorError) {
        let key = Key(entity: Target.entityName, id: id.text)
        guard let object = try self.object(type, id), let position = stores.table(Target.entityName)?.index[column]
        else {
            throw .unavailable(key)
        }
        var values = try row(of: object)
        values[position] = other?.databaseValue ?? .null
        let store = try store(of: object)
        try update(try decode(type, id.text, values, store, object.id.origin?.files ?? stores.paths).with(object.id))
    }

    private static func key(
        _ pair: PairForm,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> Key {
        let names = ends(pair, name, entity, here, there)
        return Key(entity: pair.tableName, id: pair.name(of: names[0], names[1]))
    }

    private static func row(
        _ pair: PairForm,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> [DatabaseValue] {
        ends(pair, name, entity, here, there).map(\.databaseValue)
    }

    /// Returns the source and the target.
    private static func ends(
        _ pair: PairForm,
        _ name: String,
        _ entity: String,
        _ here: String,
        _ there: String
    ) -> [String] {
        pair.column(of: name, in: entity) == "source" ? [here, there] : [there, here]
    }

    private func linked(
        _ pair: PairForm,
        _ row: [DatabaseValue],
        _ home: StoreID?
    ) throws(MirrorError) -> [(StoreID, String)] {
        var found: [(StoreID, String)] = []
        for file in stores.files(holding: pair.tableName) where home == nil || file.id == home {
            let sql = "SELECT id FROM \(pair.tableName.quoted) WHERE source = ? AND target = ?"
            let ids = try read(file) { try String.fetchAll($0, sql: sql, arguments: StatementArguments(row)) }
            found += ids.map { (file.id, $0) }
        }
        return found
    }
}

extension SyncedRecord {
    /// Returns the object with an id that remembers where it was read.
    fileprivate func with(_ id: RecordName) -> Self {
        var copy = self
        copy.id = id
        return copy
    }
}

/// Derives an id of fixed length from a longer text, the same on every device.
enum ShortName {
    static func of(_ text: String) -> String {
        let (first, second) = Fingerprint.pair(of: text.utf8)
        return "h-" + String(first, radix: 36) + "-" + String(second, radix: 36)
    }
}
