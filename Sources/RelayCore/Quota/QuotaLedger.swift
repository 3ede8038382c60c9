import Records
import Wire

/// Tracks how the operations of one request change a quota.
///
/// The assets of a record are looked up only if the record brings new assets or would not fit otherwise; all other
/// records cost a few additions.
struct QuotaLedger: ~Copyable {
    /// The remaining quota; `nil` if nothing is limited and therefore nothing is counted.
    private var room: RemainingQuota?
    /// How many of the zone's records use an asset, counting up to 2.
    private let assetUses: [AssetHash: Int]
    /// The assets whose uses are needed and not among `assetUses`; the results are void until they are read.
    private(set) var unread: Set<AssetHash> = []
    /// Deleted records whose assets have not been counted as free yet.
    private var deletedRecords: [StoredRecord] = []
    /// Indexes of the operations that are counted as freeing quota.
    private(set) var operationsFreeingQuota: Set<Int> = []
    private let operationsNotFreeingQuota: Set<Int>
    /// Assets that records of this request have started to use, and assets whose quota was freed in this request.
    private var newlyUsed: Set<AssetHash> = []
    private var freed: Set<AssetHash> = []

    /// - Parameters:
    ///   - room: The quota that is left before the request; `nil` if nothing is limited.
    ///   - assetUses: How many of the zone's records use an asset, counting up to 2, as far as that has been read.
    ///   - operationsNotFreeingQuota: Indexes of the operations that must not be counted as freeing quota.
    init(_ room: RemainingQuota?, assetUses: [AssetHash: Int], _ operationsNotFreeingQuota: Set<Int>) {
        self.room = room
        self.assetUses = assetUses
        self.operationsNotFreeingQuota = operationsNotFreeingQuota
    }

    private mutating func uses(of hash: AssetHash) -> Int {
        if let known = assetUses[hash] { return known }
        unread.insert(hash)
        return 0
    }

    /// Counts a record that operation `place` saves in place of `current`, or throws `quotaExceeded`.
    ///
    /// `bringsAssets` says whether the request contains assets for the record.
    mutating func save(
        _ record: StoredRecord,
        over current: StoredRecord?,
        bringsAssets: Bool,
        at place: Int
    ) throws(RelayError) {
        guard room != nil else { return }
        var growth = StorageUse(of: record) - StorageUse(of: current)
        var assetChange = AssetChange()
        if bringsAssets || !allows(growth) {
            assetChange = self.assetChange(of: record, over: current)
            growth.assets = assetChange.growth
            if !allows(growth) {
                countDeletedAssets()
                assetChange = self.assetChange(of: record, over: current)
                growth.assets = assetChange.growth
            }
        }
        if growth.records < 0 || growth.assets < 0 {
            if operationsNotFreeingQuota.contains(place) { return }
            operationsFreeingQuota.insert(place)
        }
        try room?.take(growth)
        newlyUsed.formUnion(assetChange.added)
        freed = freed.subtracting(assetChange.added).union(assetChange.removed)
    }

    /// Counts a record that operation `place` deletes.
    mutating func delete(_ record: StoredRecord, at place: Int) {
        guard room != nil, !operationsNotFreeingQuota.contains(place) else { return }
        operationsFreeingQuota.insert(place)
        room?.release(StorageUse(of: record))
        deletedRecords.append(record)
    }

    private func allows(_ growth: StorageUse) -> Bool { room?.allows(growth) ?? true }

    /// The effect of a record's assets on the zone.
    private struct AssetChange {
        /// Bytes of assets that are new to the zone, minus those that only this record uses and no longer references.
        var growth: Int64 = 0
        var added: Set<AssetHash> = []
        var removed: Set<AssetHash> = []
    }

    private mutating func assetChange(of record: StoredRecord, over current: StoredRecord?) -> AssetChange {
        let (new, old) = (Self.assets(of: record), current.map(Self.assets(of:)) ?? [:])
        var assetChange = AssetChange()
        for (hash, size) in new where old[hash] == nil {
            assetChange.added.insert(hash)
            if isNew(hash) { assetChange.growth += size }
        }
        for (hash, size) in old where new[hash] == nil {
            guard isLastUse(hash) else { continue }
            assetChange.removed.insert(hash)
            assetChange.growth -= size
        }
        return assetChange
    }

    /// Returns whether an asset uses storage in the zone that it did not use before.
    private mutating func isNew(_ hash: AssetHash) -> Bool {
        if freed.contains(hash) || newlyUsed.contains(hash) { return freed.contains(hash) }
        return uses(of: hash) == 0
    }

    /// Returns whether the zone no longer needs an asset once this record stops using it.
    private mutating func isLastUse(_ hash: AssetHash) -> Bool {
        if freed.contains(hash) || newlyUsed.contains(hash) { return false }
        return uses(of: hash) == 1
    }

    private mutating func countDeletedAssets() {
        for record in deletedRecords {
            for (hash, size) in Self.assets(of: record) where isLastUse(hash) {
                room?.release(StorageUse(assets: size))
                freed.insert(hash)
            }
        }
        deletedRecords = []
    }

    /// Returns no assets for an unreadable record, so that saving over it can repair it.
    static func assets(of record: StoredRecord) -> [AssetHash: Int64] {
        var found: [AssetHash: Int64] = [:]
        for asset in (try? FieldsJSON.assets(in: record.fields)) ?? [] {
            if let hash = AssetHash(checksum: asset.fileChecksum) { found[hash] = asset.size }
        }
        return found
    }
}
