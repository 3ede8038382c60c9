import GRDB
import Records
import RelayCore

/// The state that the next commit will make.
///
/// Lives for one transaction, on the commit thread.
final class SQLiteWriter: SQLiteReader, StoreWriter {
    /// What the writer knows and need not ask the file for, being the only one that writes it.
    struct Memory {
        var schema: Schema
        var lastChange: UInt64
        var zones = KnownZones()
        /// `nil` until they are looked up.
        var indexes: KeptIndexes?
        /// How many query subscriptions watch each record type; types that nobody watches are not in it.
        var watchedTypes: [String: Int] = [:]
        /// Types with fields for assets, in one version of the schema.
        var assetTypes: (version: Int, names: Set<String>)?
        /// What owners have stored, of those whom somebody asked about.
        var use: [UserID: StorageUse] = [:]
        /// `nil` until somebody asks.
        var userCount: Int?
        /// With whom zones are shared, by their numbers; only zones that were asked about.
        var listeners: [Int64: [Listener]] = [:]
        /// `nil` until a write comes that may be repeated.
        var doneWrites: DoneWriteRows?
    }

    var memory: Memory
    /// Zones, by their numbers, whose rows have to be written before the commit: once each, however many requests touched
    /// them.
    var stamped: Set<Int64> = []
    private var changedZones = ChangedZones()
    /// Changed records of watched types, in their order.
    var changedRecords: [CommittedRecord] = []
    /// Bytes of fields, of records that were replaced or have moved, that are kept for listeners.
    var notedBytes = 0
    /// Which hierarchies those of zones with such stood and stand in, by the numbers of the changes.
    var sights: [UInt64: RecordSight] = [:]
    /// Records of watched types that have only moved into hierarchies or out of them, with one above them.
    var movedRecords: [(record: CommittedRecord, sight: RecordSight)] = []
    var changedSubscriptions: [CommittedSubscription] = []
    /// The record type that was asked for last: most of what one commit writes is of one.
    var latestType: (name: String, number: Int64)?
    /// Whether indexes have been given up whose entries have to go.
    var hasDroppedIndexes = false
    /// Set when SQL failed: then nothing of this transaction may be committed.
    private(set) var failure: (any Error)?
    /// Participants who are told of a zone though they have lost it, or have yet to join.
    var told: [ZoneID: [CommittedChange.Participant]] = [:]
    /// Hierarchies in which something has changed, by the zones.
    var touchedShares: [ZoneID: Set<Int64>] = [:]
    /// Hierarchies that came to be shared and whose records have still to be entered.
    var newHierarchies: [(share: Int64, root: String)] = []
    /// `nil` until somebody asks, and after each write.
    var rootSearch: ShareRootSearch?
    let epoch: UInt64
    /// Writes of a generation of those that may be repeated.
    let rememberedWrites: Int
    private let assets: AssetFolder
    let drawIdentity: () -> UInt64

    init(
        _ database: Database,
        of connection: StoreConnection,
        names: StoreNames,
        memory: consuming Memory,
        epoch: UInt64,
        rememberedWrites: Int,
        assets: AssetFolder,
        drawIdentity: @escaping () -> UInt64
    ) {
        let schema = memory.schema
        self.memory = memory
        self.epoch = epoch
        self.rememberedWrites = rememberedWrites
        self.assets = assets
        self.drawIdentity = drawIdentity
        super.init(database, of: connection, names: names, schema: schema)
    }

    override var schema: Schema {
        get throws(RelayError) { memory.schema }
    }

    override func report(_ error: any Error) -> RelayError {
        failure = failure ?? error
        return super.report(error)
    }

    /// Writes what was put off, so that the transaction can be committed.
    func finish() throws {
        if !stamped.isEmpty { try writeStamps() }
        try changedZones.setAudiences(where: isShared) { Self.told(try audience(of: $0)) }
        if !changedRecords.isEmpty || !movedRecords.isEmpty { try noteViewers() }
    }

    private func writeStamps() throws {
        // Neighbours one after the other.
        var rest = stamped.sorted().compactMap { memory.zones[$0] }[...]
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

    /// Stamps of one statement.
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
        !told.isEmpty || memory.zones.sharing(of: zone) != .nothing
    }

    /// Gives its memory to the next transaction, once this one is committed.
    func takeMemory() -> Memory {
        var taken = Memory(schema: memory.schema, lastChange: memory.lastChange, indexes: memory.indexes)
        taken.watchedTypes = memory.watchedTypes
        taken.assetTypes = memory.assetTypes
        taken.userCount = memory.userCount
        taken.doneWrites = memory.doneWrites
        if memory.listeners.count <= 10_000 { swap(&taken.listeners, &memory.listeners) }
        if memory.zones.count <= 10_000 { swap(&taken.zones, &memory.zones) }
        if memory.use.count <= 10_000 { swap(&taken.use, &memory.use) }
        return taken
    }

    /// All that listeners hear of.
    var commit: Commit {
        Commit(
            zones: changedZones.changes,
            records: changedRecords,
            subscriptions: changedSubscriptions,
            schema: memory.schema
        )
    }

    // MARK: Users and zones

    /// The user's number, made where there was none.
    func ensureNumber(of user: UserID) throws -> Int64 {
        if let number = try number(of: user) { return number }
        let statement = try SQL("INSERT INTO user (name) VALUES (?)", in: database)
        statement.bind(1, user.recordName)
        try statement.run()
        names.add(user: user, number: database.lastInsertedRowID)
        return database.lastInsertedRowID
    }

    override func storageUse(of owner: UserID) throws(RelayError) -> StorageUse {
        if let use = memory.use[owner] { return use }
        let use = try livingZones(of: owner).reduce(StorageUse()) { $0 + $1.use }
        memory.use[owner] = use
        return use
    }

    override var userCount: Int {
        get throws(RelayError) {
            if let count = memory.userCount { return count }
            let count = try committedUserCount()
            memory.userCount = count
            return count
        }
    }

    private func countUsers(_ more: Int, with zone: Zone) {
        guard zone.id.isDefault, !zone.isPublic, let count = memory.userCount else { return }
        memory.userCount = count + more
    }

    func hasAsset(_ hash: AssetHash) -> Bool { assets.isUsable(hash) }

    func takeChangeNumber() -> UInt64 {
        memory.lastChange += 1
        return memory.number(at: memory.lastChange)
    }

    override func zone(_ id: ZoneID) throws(RelayError) -> Zone? {
        if let zone = memory.zones.turn(to: id) { return zone }
        let zone = try super.zone(id)
        if let zone { memory.zones.keep(zone) }
        return zone
    }

    override func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
        guard var zone = try super.zone(id, sharedWith: user), let view = zone.view else { return nil }
        if !view.isPartial, let known = memory.zones[id] { zone.lastChange = max(zone.lastChange, known.lastChange) }
        return zone
    }

    override func livingZones(of owner: UserID) throws(RelayError) -> [Zone] {
        let zones = try super.livingZones(of: owner).map { memory.zones[$0.id] ?? $0 }
        return zones.sorted { $0.lastChange < $1.lastChange }
    }

    func makeZone(_ id: ZoneID, by device: String) throws(RelayError) -> Zone {
        try attempt {
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
            memory.zones.keep(zone)
            countUsers(1, with: zone)
            try enterRun(of: change, zone: zone.number)
            changedZones.made(zone)
            note(zone, by: device, of: id.owner)
            return zone
        }
    }

    func deleteZone(_ zone: Zone, by device: String) throws(RelayError) {
        try attempt {
            var zone = zone
            zone.lastChange = takeChangeNumber()
            zone.isDeleted = true
            if zone.sharing != .nothing { try endSharing(in: zone) }
            let statement = try SQL("UPDATE zone_row SET deleted = 1, ended = ?, loss = ? WHERE id = ?", in: database)
            statement.bind(1, zone.lastChange)
            statement.bind(2, zone.loss.rawValue)
            statement.bind(3, zone.number)
            try statement.run()
            try write(CollectionOfOne(zone), by: self.statement(.stampZone))
            memory.zones.forget(zone)
            countUsers(-1, with: zone)
            memory.use[zone.id.owner] = nil
            stamped.remove(zone.number)
            note(zone, by: device, of: zone.id.owner)
            changedZones.gone(zone)
        }
    }

    /// Marks that the zone has a change in the run of `change`.
    func enterRun(of change: UInt64, zone: Int64) throws {
        let statement = try SQL("INSERT OR IGNORE INTO zone_run (zone, run) VALUES (?, ?)", in: database)
        statement.bind(1, zone)
        statement.bind(2, change >> StoreLayout.runShift)
        try statement.run()
    }

    /// Remembers for listeners that the zone has changed; `device` is one of `author`'s.
    func note(_ zone: Zone, by device: String, of author: UserID) {
        guard zone.tracksChanges else { return }
        changedZones.note(zone, epoch: epoch, by: device, of: author)
    }
}
