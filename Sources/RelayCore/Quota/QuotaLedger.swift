import Records
import Wire

/// What one request's writes add to and take from a quota, operation after operation.
///
/// Only a record with new assets, or one that would not fit otherwise, has its assets looked up: for all others this is a
/// few additions.
struct QuotaLedger: ~Copyable {
    /// `nil`: nothing is limited, and nothing is counted.
    private var room: QuotaRoom?
    private let zone: Zone
    private let writer: any StoreWriter
    /// Records that go, whose assets have not been counted as free yet.
    private var leaving: [StoredRecord] = []
    /// The operations, by their places, that are counted as making room.
    private(set) var givers: Set<Int> = []
    /// Those that are known not to.
    var nonGivers: Set<Int> = []
    /// Assets that records have come to use in this request, and those whose room was given back in it.
    private var taken: Set<AssetHash> = []
    private var freed: Set<AssetHash> = []

    /// - Parameters:
    ///   - room: What is left before the request; `nil` where nothing is limited.
    ///   - zone: That the records are of.
    ///   - writer: Knows the uses of assets.
    init(_ room: QuotaRoom?, of zone: Zone, in writer: any StoreWriter) {
        self.room = room
        self.zone = zone
        self.writer = writer
    }

    /// How many of the zone's records use an asset; more than two count as two.
    private func assetUses(_ hash: AssetHash) throws(RelayError) -> Int { try writer.assetUses(hash, in: zone) }

    /// Counts a record that operation `place` saves in place of `current`, or throws `quotaExceeded`.
    ///
    /// `bringsAssets` says whether assets were given with it.
    mutating func save(
        _ record: StoredRecord,
        over current: StoredRecord?,
        bringsAssets: Bool,
        at place: Int
    ) throws(RelayError) {
        guard room != nil else { return }
        var growth = StorageUse(of: record) - StorageUse(of: current)
        var exchange = Exchange()
        if bringsAssets || !allows(growth) {
            exchange = try self.exchange(of: record, over: current)
            growth.assets = exchange.growth
            if !allows(growth) {
                try countLeaving()
                exchange = try self.exchange(of: record, over: current)
                growth.assets = exchange.growth
            }
        }
        if growth.records < 0 || growth.assets < 0 {
            if nonGivers.contains(place) { return }
            givers.insert(place)
        }
        try room?.take(growth)
        taken.formUnion(exchange.comes)
        freed = freed.subtracting(exchange.comes).union(exchange.goes)
    }

    /// Counts a record that operation `place` deletes.
    mutating func delete(_ record: StoredRecord, at place: Int) {
        guard room != nil, !nonGivers.contains(place) else { return }
        givers.insert(place)
        room?.give(StorageUse(of: record))
        leaving.append(record)
    }

    private func allows(_ growth: StorageUse) -> Bool { room?.allows(growth) ?? true }

    /// What a record's assets change in the zone.
    private struct Exchange {
        /// Bytes of assets that the zone has not yet, less those that only this record uses and gives up.
        var growth: Int64 = 0
        var comes: Set<AssetHash> = []
        var goes: Set<AssetHash> = []
    }

    private func exchange(of record: StoredRecord, over current: StoredRecord?) throws(RelayError) -> Exchange {
        let (new, old) = (Self.assets(of: record), current.map(Self.assets(of:)) ?? [:])
        var exchange = Exchange()
        for (hash, size) in new where old[hash] == nil {
            exchange.comes.insert(hash)
            if try isNew(hash) { exchange.growth += size }
        }
        for (hash, size) in old where new[hash] == nil {
            guard try isLastUse(hash) else { continue }
            exchange.goes.insert(hash)
            exchange.growth -= size
        }
        return exchange
    }

    /// Whether an asset takes room in the zone that it did not take before.
    private func isNew(_ hash: AssetHash) throws(RelayError) -> Bool {
        if freed.contains(hash) || taken.contains(hash) { return freed.contains(hash) }
        return try assetUses(hash) == 0
    }

    /// Whether an asset leaves the zone with the record that gives it up.
    private func isLastUse(_ hash: AssetHash) throws(RelayError) -> Bool {
        if freed.contains(hash) || taken.contains(hash) { return false }
        return try assetUses(hash) == 1
    }

    private mutating func countLeaving() throws(RelayError) {
        for record in leaving {
            for (hash, size) in Self.assets(of: record) where try isLastUse(hash) {
                room?.give(StorageUse(assets: size))
                freed.insert(hash)
            }
        }
        leaving = []
    }

    /// Nothing for a record that cannot be read: saving over it is how it can be mended.
    private static func assets(of record: StoredRecord) -> [AssetHash: Int64] {
        var found: [AssetHash: Int64] = [:]
        for asset in (try? FieldsJSON.assets(in: record.fields)) ?? [] {
            if let hash = AssetHash(checksum: asset.fileChecksum) { found[hash] = asset.size }
        }
        return found
    }
}
