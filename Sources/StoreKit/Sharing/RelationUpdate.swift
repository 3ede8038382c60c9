import Records
package import RelayCore
import Wire

/// The references and asset uses that a write adds and removes, collected over all its records.
///
/// Costs nothing for records without references and assets.
package struct RelationUpdate {
    private var addedReferences: [StoredReference] = []
    private var removedReferences: [StoredReference] = []
    private var addedUses: [AssetUse] = []
    private var removedUses: [AssetUse] = []

    package init() {}

    /// Adds a record that replaces `before`.
    package mutating func add(_ record: StoredRecord, replacing before: StoredRecord?, hasAssets: Bool) throws {
        let old = try before.map { try $0.relations.references() } ?? []
        let new = try record.relations.references()
        if old != new {
            removedReferences += old.subtracting(new)
            addedReferences += new.subtracting(old)
        }
        guard hasAssets else { return }
        let (oldAssets, newAssets) = (try Self.assets(of: before), try Self.assets(of: record))
        guard oldAssets != newAssets else { return }
        for (hash, size) in oldAssets where newAssets[hash] == nil {
            removedUses.append(AssetUse(hash: hash, name: record.name, size: size))
        }
        for (hash, size) in newAssets where oldAssets[hash] == nil {
            addedUses.append(AssetUse(hash: hash, name: record.name, size: size))
        }
    }

    /// Writes what has changed; returns by how many bytes the zone's assets grow.
    package func write(to rows: some SharingRows, zone: Int64) throws -> Int64 {
        if !removedReferences.isEmpty { try rows.delete(removedReferences, in: zone) }
        if !addedReferences.isEmpty { try rows.insert(addedReferences, in: zone) }
        guard !addedUses.isEmpty || !removedUses.isEmpty else { return 0 }
        if !removedUses.isEmpty { try rows.delete(removedUses, in: zone) }
        // An asset counts once in a zone, however many records use it: those that nothing else uses come or go.
        let added = Dictionary(addedUses.map { ($0.hash, $0.size) }) { first, _ in first }
        let removed = Dictionary(removedUses.map { ($0.hash, $0.size) }) { first, _ in first }
        let used = try rows.used(among: Array(Set(added.keys).union(removed.keys)), in: zone)
        if !addedUses.isEmpty { try rows.insert(addedUses, in: zone) }
        return added.reduce(0) { used.contains($1.key) ? $0 : $0 + $1.value }
            - removed.reduce(0) { used.contains($1.key) ? $0 : $0 + $1.value }
    }

    private static func assets(of record: StoredRecord?) throws -> [AssetHash: Int64] {
        guard let record, !record.isDeleted else { return [:] }
        return try record.relations.assets()
    }
}

/// What a record refers to, by its name, its parent and its stored fields.
struct RecordRelations {
    var name: String
    var parent: String?
    var fields: [UInt8]

    /// Returns the references of the record: its parent, and fields with `DELETE_SELF` or `VALIDATE`.
    func references() throws -> Set<StoredReference> {
        var found: Set<StoredReference> = []
        if let parent { found.insert(.parent(parent, of: name)) }
        for (field, reference) in try FieldsJSON.enforcedReferences(in: fields) {
            if let stored = StoredReference(reference, from: name, field: field) { found.insert(stored) }
        }
        return found
    }

    /// Returns the assets of the record with their sizes.
    func assets() throws -> [AssetHash: Int64] {
        var found: [AssetHash: Int64] = [:]
        for asset in try FieldsJSON.assets(in: fields) {
            if let hash = AssetHash(checksum: asset.fileChecksum) { found[hash] = asset.size }
        }
        return found
    }
}

extension StoredRecord {
    fileprivate var relations: RecordRelations { RecordRelations(name: name, parent: parent, fields: fields) }
}
