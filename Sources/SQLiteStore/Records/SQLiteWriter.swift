import GRDB
import Records
import RelayCore
import RelaySystem
import StoreKit

/// The state that the next commit creates.
///
/// Lives for one transaction, on the commit thread.
package final class SQLiteWriter: SQLiteReader, StoreWriter {
    /// Cached facts that the writer need not read from the file, because only the writer changes it.
    struct Cache {
        var schema: Schema
        var lastChange: UInt64
        var zones = ZoneCache()
        /// `nil` until they are read from the file.
        var indexes: CachedIndexes?
        /// The number of query subscriptions to each record type; types without one are absent.
        var watchedTypes: [String: Int] = [:]
        /// The types that have asset fields, in one version of the schema.
        var assetTypes: (version: Int, names: Set<String>)?
        /// The storage use of owners, as far as it has been requested.
        var use: [UserID: StorageUse] = [:]
        /// `nil` until it is requested.
        var userCount: Int?
        /// The users with whom zones are shared, by zone number; only zones that have been looked up.
        var access: [Int64: [ZoneAccess]] = [:]
        /// `nil` until the first write with an idempotency key.
        var idempotencyRows: IdempotencyRows?
    }

    var cache: Cache
    /// The owner of the write that runs; `nil` while the store does work of its own.
    var owner: UserID?
    /// The numbers of zones whose stamps must be written before the commit, once each for all requests together.
    ///
    /// May contain a number several times. An array, since most commits change one zone, for which a set is slow.
    private var stamped: [Int64] = []
    private var changedZones = ChangedZones()
    /// The changed records of watched types, in the order of the changes.
    var changedRecords: [CommittedRecord] = []
    var changedSubscriptions: [CommittedSubscription] = []
    /// The store's version of subscriptions after this transaction, if it changes any.
    private var changedSubscriptionsVersion: UInt64 = 0
    /// The record type that was used last: most writes of a commit have the same type.
    var latestType: (name: String, number: Int64)?
    /// Whether indexes have been dropped whose entries must be removed.
    var hasDroppedIndexes = false
    /// Set when a statement fails: nothing of this transaction may be committed then.
    private(set) var failure: (any Error)?
    var sharing = SharingState()
    let epoch: UInt64
    /// The number of idempotency records in a generation.
    let idempotencyRecordLimit: Int
    private let assets: AssetFolder
    let drawIdentity: () -> UInt64

    init(
        _ database: Database,
        of connection: StoreConnection,
        names: StoreNames,
        cache: consuming Cache,
        epoch: UInt64,
        idempotencyRecordLimit: Int,
        assets: AssetFolder,
        drawIdentity: @escaping () -> UInt64
    ) {
        let schema = cache.schema
        self.cache = cache
        self.epoch = epoch
        self.idempotencyRecordLimit = idempotencyRecordLimit
        self.assets = assets
        self.drawIdentity = drawIdentity
        super.init(database, of: connection, names: names, schema: schema)
    }

    override var schema: Schema {
        get throws(RelayError) { cache.schema }
    }

    override func report(_ error: any Error) -> RelayError {
        failure = failure ?? error
        return super.report(error)
    }

    /// Fails the transaction if the write that runs did not name this owner.
    ///
    /// Another store may have locked only the owner that the write names. See Reliability.md, "Owners of writes".
    func requireOwner(_ touched: UserID) throws(RelayError) {
        guard let owner, owner != touched else { return }
        throw report(StoreFailure.foreignOwner(touched, named: owner))
    }

    /// Writes what was deferred, so that the transaction can be committed.
    func finish() throws {
        if !stamped.isEmpty { try writeStamps() }
        let shared = changedZones.changes(where: isShared)
        if !shared.isEmpty {
            let zones = Set(shared).compactMap { cache.zones[$0] }
            let participants = try sharing.audience.participants(of: zones, rows: self, token: token)
            changedZones.setAudiences(participants)
        }
        if !changedRecords.isEmpty || sharing.audience.hasMovedRecords {
            var records: [CommittedRecord] = []
            swap(&records, &changedRecords)
            try sharing.audience.addViewers(to: &records, zone: { cache.zones[$0] }, rows: self)
            changedRecords = records
        }
        if !changedSubscriptions.isEmpty { changedSubscriptionsVersion = try advanceSubscriptionsVersion() }
    }

    /// Writes the zone's stamp before the commit.
    func stampLater(_ zone: Int64) { if stamped.last != zone { stamped.append(zone) } }

    private func writeStamps() throws {
        // In order of zone numbers, so that neighbouring rows are written together.
        let numbers = stamped.count > 1 ? Set(stamped).sorted() : stamped
        var rest = numbers.compactMap { cache.zones[$0] }[...]
        while rest.count >= Self.stampsAtOnce {
            try write(rest.prefix(Self.stampsAtOnce), by: statement(.stampZones))
            rest = rest.dropFirst(Self.stampsAtOnce)
        }
        for zone in rest { try write(CollectionOfOne(zone), by: statement(.stampZone)) }
        stamped = []
    }

    private func write(_ zones: some Sequence<Zone>, by statement: SQL) throws {
        var first: Int32 = 1
        for zone in zones {
            statement.bind(first, zone.number)
            statement.bind(first + 1, zone.lastChange)
            statement.bind(first + 2, zone.use.records)
            statement.bind(first + 3, zone.use.assets)
            statement.bind(first + 4, zone.lastModified.milliseconds)
            first += 5
        }
        try statement.run()
    }

    /// The number of stamps in one statement.
    private static let stampsAtOnce = 16
    static let stampZone = stamping(zones: 1)
    static let stampZones = stamping(zones: stampsAtOnce)

    private static func stamping(zones: Int) -> String {
        """
        INSERT OR REPLACE INTO zone_stamp (zone, last_change, record_bytes, asset_bytes, last_modified)
        VALUES \(Array(repeating: "(?, ?, ?, ?, ?)", count: zones).joined(separator: ", "))
        """
    }

    private func isShared(_ zone: Int64) -> Bool {
        sharing.audience.hasRecipients || cache.zones.sharing(of: zone) != .nothing
    }

    /// Returns the caches for the next transaction, once this one is committed.
    func takeCache() -> Cache {
        var taken = Cache(schema: cache.schema, lastChange: cache.lastChange, indexes: cache.indexes)
        taken.watchedTypes = cache.watchedTypes
        taken.assetTypes = cache.assetTypes
        taken.userCount = cache.userCount
        taken.idempotencyRows = cache.idempotencyRows
        if cache.access.count <= 10_000 { swap(&taken.access, &cache.access) }
        if cache.zones.count <= 10_000 { swap(&taken.zones, &cache.zones) }
        if cache.use.count <= 10_000 { swap(&taken.use, &cache.use) }
        return taken
    }

    /// The changes to report once the transaction is committed.
    var commit: Commit {
        Commit(
            zones: changedZones.changes,
            records: changedRecords,
            subscriptions: changedSubscriptions,
            subscriptionsVersion: changedSubscriptionsVersion,
            schema: cache.schema
        )
    }

    // MARK: Users and zones

    /// Returns the user's number, inserting a row if there is none.
    func ensureNumber(of user: UserID) throws -> Int64 {
        if let number = try number(of: user) { return number }
        let statement = try SQL("INSERT INTO user (name) VALUES (?)", in: database)
        statement.bind(1, user.recordName)
        try statement.run()
        names.add(user: user, number: database.lastInsertedRowID)
        return database.lastInsertedRowID
    }

    override func storageUse(of owner: UserID) throws(RelayError) -> StorageUse {
        if let use = cache.use[owner] { return use }
        let use = try liveZones(of: owner).reduce(StorageUse()) { $0 + $1.use }
        cache.use[owner] = use
        return use
    }

    override var userCount: Int {
        get throws(RelayError) {
            if let count = cache.userCount { return count }
            let count = try committedUserCount()
            cache.userCount = count
            return count
        }
    }

    private func countUsers(_ more: Int, with zone: Zone) {
        guard zone.id.isDefault, !zone.isPublic, let count = cache.userCount else { return }
        cache.userCount = count + more
    }

    func storedAssets(among hashes: Set<AssetHash>) -> Set<AssetHash> { hashes.filter { assets.isUsable($0) } }

    func takeChangeNumber() -> UInt64 {
        cache.lastChange += 1
        return cache.number(at: cache.lastChange)
    }

    override func zone(_ id: ZoneID) throws(RelayError) -> Zone? {
        if let zone = cache.zones.select(to: id) { return zone }
        let zone = try super.zone(id)
        if let zone { cache.zones.keep(zone) }
        return zone
    }

    override func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
        guard var zone = try super.zone(id, sharedWith: user), let view = zone.view else { return nil }
        if !view.isPartial, let known = cache.zones[id] { zone.lastChange = max(zone.lastChange, known.lastChange) }
        return zone
    }

    override func liveZones(of owner: UserID) throws(RelayError) -> [Zone] {
        let zones = try super.liveZones(of: owner).map { cache.zones[$0.id] ?? $0 }
        return zones.sorted { $0.lastChange < $1.lastChange }
    }

    override func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
        let found = try super.shares(covering: names, in: zone)
        sharing.keep(covers: found, of: names, in: zone.number)
        return found
    }

    func makeZone(_ id: ZoneID, by device: String) throws(RelayError) -> Zone {
        try requireOwner(id.owner)
        return try attempt {
            let change = takeChangeNumber()
            let identity = drawIdentity()
            let statement = try SQL(
                "INSERT INTO zone_row (owner, name, identity) VALUES (?, ?, ?)",
                in: database
            )
            statement.bind(1, try ensureNumber(of: id.owner))
            statement.bind(2, id.zoneName)
            statement.bind(3, identity)
            try statement.run()
            let zone = Zone(number: database.lastInsertedRowID, id: id, identity: identity, lastChange: change)
            try write(CollectionOfOne(zone), by: self.statement(.stampZone))
            cache.zones.keep(zone)
            countUsers(1, with: zone)
            try enterRun(of: change, zone: zone.number)
            changedZones.zoneCreated(zone)
            note(zone, by: device, of: id.owner)
            return zone
        }
    }

    func deleteZone(_ zone: Zone, by device: String) throws(RelayError) {
        try requireOwner(zone.id.owner)
        try attempt {
            var zone = zone
            zone.lastChange = takeChangeNumber()
            zone.isDeleted = true
            if zone.sharing != .nothing {
                sharing.audience.add(try ShareUpdate.end(sharesOf: zone, rows: self, numbers: self), of: zone.id)
            }
            let statement = try SQL("UPDATE zone_row SET deleted = 1, ended = ?, loss = ? WHERE id = ?", in: database)
            statement.bind(1, zone.lastChange)
            statement.bind(2, zone.deletionReason.rawValue)
            statement.bind(3, zone.number)
            try statement.run()
            try write(CollectionOfOne(zone), by: self.statement(.stampZone))
            cache.zones.forget(zone)
            countUsers(-1, with: zone)
            cache.use[zone.id.owner] = nil
            stamped.removeAll { $0 == zone.number }
            note(zone, by: device, of: zone.id.owner)
            changedZones.zoneDeleted(zone)
        }
    }

    /// Records that the zone has a change in the run that contains `change`.
    func enterRun(of change: UInt64, zone: Int64) throws {
        let statement = try SQL("INSERT OR IGNORE INTO zone_run (zone, run) VALUES (?, ?)", in: database)
        statement.bind(1, zone)
        statement.bind(2, change >> StoreLayout.runShift)
        try statement.run()
    }

    /// Adds the zone to the changes that the commit reports.
    ///
    /// `device` is the device of `author` that made the change.
    func note(_ zone: Zone, by device: String, of author: UserID) {
        guard zone.tracksChanges else { return }
        changedZones.note(zone, epoch: epoch, by: device, of: author)
    }
}
