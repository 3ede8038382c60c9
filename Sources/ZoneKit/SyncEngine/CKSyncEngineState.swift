import Foundation
import Records
import SyncCore
import Synchronization

extension CKSyncEngine {
    /// A change of a record that the relay has not confirmed.
    public enum PendingRecordZoneChange: Sendable, Hashable {
        /// The record is to be saved.
        case saveRecord(CKRecord.ID)
        /// The record is to be deleted.
        case deleteRecord(CKRecord.ID)

        /// The ID of the record.
        public var recordID: CKRecord.ID {
            switch self {
            case .saveRecord(let id), .deleteRecord(let id): id
            }
        }

        var operation: Outbox.Operation {
            switch self {
            case .saveRecord: .save
            case .deleteRecord: .delete
            }
        }
    }

    /// A change of a zone that the relay has not confirmed.
    public enum PendingDatabaseChange: Sendable, Hashable {
        /// The zone is to be created.
        case saveZone(CKRecordZone)
        /// The zone is to be deleted.
        case deleteZone(CKRecordZone.ID)

        /// The ID of the zone.
        public var zoneID: CKRecordZone.ID {
            switch self {
            case .saveZone(let zone): zone.zoneID
            case .deleteZone(let id): id
            }
        }
    }

    /// The state of a sync engine: the changes that are waiting to be sent.
    ///
    /// Add a change to have it sent; an engine that synchronizes automatically sends it at once. The last change of
    /// each record and each zone replaces earlier ones. May be used from any thread, and inside the delegate.
    public final class State: Sendable {
        package struct Contents: Sendable {
            var outbox = Outbox()
            var zones = PendingZones()
            /// Changes that the relay has answered, but whose event the delegate has not received yet.
            var unreported = UnreportedChanges()
            var isUntracked = false
            var feed = FeedState()
            /// The end of the delay that the relay requested, by the wall clock.
            var heldUntil: Date?
            /// The length of that delay in seconds when it was stored.
            ///
            /// Limits the wait if the wall clock was wrong by years.
            var heldFor: TimeInterval?
            /// The record name of the user that the data belong to.
            var user: String?
            /// Increases with every change of the pending changes.
            var revision: UInt64 = 0
            /// Increases with every change that has to be saved.
            var stamp: UInt64 = 0
            /// The record names seen so far in zones that are being listed from their beginning.
            var listings: [ZoneID: Set<String>] = [:]
            /// Saved records that a listing may leave out.
            var unheard = UnlistedRecords()
            /// Whether this is a shared database, where the owners decide what the user sees.
            var isShared = false
            /// Zones with values that could not be decrypted when the app received them.
            var unreadable: Set<ZoneID> = []
            /// The ID objects that the app has passed in, so that it gets the same objects back.
            var recordIDs: [RecordID: CKRecord.ID] = [:]

            /// The number of record names from fetches in the state.
            package var listedCount: Int {
                listings.values.reduce(0) { $0 + $1.count } + (isShared ? unheard.count : 0)
            }

            /// Returns the remaining delay in seconds, at most the original delay.
            func remainingDelay(at now: Date) -> TimeInterval {
                guard let heldUntil, let heldFor else { return 0 }
                return min(heldUntil.timeIntervalSince(now), heldFor)
            }
        }

        /// Identifies what an engine synchronizes.
        ///
        /// A later engine with the same values replaces an earlier one.
        struct EngineIdentity: Hashable, Sendable {
            var delegate: ObjectIdentifier
            var session: RelaySession.Identity
            var scope: CKDatabase.Scope
        }

        /// The state of the engine whose event is being delivered by the current task.
        @TaskLocal static var stateBeingDelivered: State?

        private let contents: Mutex<Contents>
        private let listener = Mutex<(@Sendable () -> Void)?>(nil)
        private let engineIdentity: EngineIdentity

        init(_ serialization: Serialization?, for engineIdentity: EngineIdentity) {
            var restored = serialization?.contents ?? Contents()
            restored.isShared = engineIdentity.scope == .shared
            contents = Mutex(restored)
            self.engineIdentity = engineIdentity
        }

        /// The pending record changes, in the order in which they are sent.
        public var pendingRecordZoneChanges: [PendingRecordZoneChange] {
            read { contents in
                contents.outbox.pending.map { entry in
                    let id = contents.recordIDs[entry.id] ?? CKRecord.ID(entry.id)
                    return entry.operation == .save ? .saveRecord(id) : .deleteRecord(id)
                }
            }
        }

        /// The pending zone changes, which are sent before all records.
        public var pendingDatabaseChanges: [PendingDatabaseChange] { read { $0.zones.pending } }

        /// Whether the app has changes that are not listed in the state, so that the engine asks it for a batch.
        public var hasPendingUntrackedChanges: Bool {
            get { read { $0.isUntracked } }
            set {
                change { contents in
                    // Setting it to `true` again may refer to other changes.
                    defer { contents.isUntracked = newValue }
                    return newValue || contents.isUntracked
                }
            }
        }

        /// Zones that have changed on the relay and are not yet completely fetched.
        public var zoneIDsWithUnfetchedServerChanges: [CKRecordZone.ID] {
            read { $0.feed.unfetched.map { CKRecordZone.ID($0) } }
        }

        /// Adds record changes to send.
        public func add(pendingRecordZoneChanges: [PendingRecordZoneChange]) {
            change { contents in
                for pending in pendingRecordZoneChanges {
                    contents.outbox.add(pending.operation, pending.recordID.record)
                    contents.recordIDs[pending.recordID.record] = pending.recordID
                }
                return !pendingRecordZoneChanges.isEmpty
            }
        }

        /// Removes record changes, so that they are not sent.
        public func remove(pendingRecordZoneChanges: [PendingRecordZoneChange]) {
            change { contents in
                let before = contents.outbox.count
                for pending in pendingRecordZoneChanges {
                    contents.outbox.remove(pending.operation, pending.recordID.record)
                    contents.releaseRecordID(pending.recordID.record)
                }
                return contents.outbox.count != before
            }
        }

        /// Adds zone changes to send.
        public func add(pendingDatabaseChanges: [PendingDatabaseChange]) {
            change { contents in
                pendingDatabaseChanges.forEach { contents.zones.add($0) }
                return !pendingDatabaseChanges.isEmpty
            }
        }

        /// Removes zone changes, so that they are not sent.
        public func remove(pendingDatabaseChanges: [PendingDatabaseChange]) {
            change { contents in
                let before = contents.zones.pending.count
                pendingDatabaseChanges.forEach { contents.zones.remove($0) }
                return contents.zones.pending.count != before
            }
        }

        // MARK: For the engine

        func onChange(_ listener: @escaping @Sendable () -> Void) { self.listener.withLock { $0 = listener } }

        func read<Result>(_ body: (Contents) -> Result) -> Result { contents.withLock { body($0) } }

        /// Changes the contents without calling the listener.
        func update<Result>(_ body: (inout Contents) -> Result) -> Result {
            contents.withLock { contents in
                contents.stamp += 1
                return body(&contents)
            }
        }

        /// Changes the pending changes.
        ///
        /// `body` returns whether it changed anything. If nothing changed, the listener is not called; otherwise an app
        /// that adds the same change in every batch would be asked for batches forever.
        private func change(_ body: (inout Contents) -> Bool) {
            let isNews = contents.withLock { contents in
                guard body(&contents) else { return false }
                contents.revision += 1
                contents.stamp += 1
                return true
            }
            if isNews { listener.withLock { $0 }?() }
            // A delegate that has created a new engine during an event may add its changes to the new one. The engine
            // that delivers the event needs them too, or it would send records without their zone.
            if let delivered = Self.stateBeingDelivered, delivered !== self, delivered.engineIdentity == engineIdentity
            {
                delivered.change(body)
            }
        }
    }
}

extension CKSyncEngine.State.Contents {
    var hasPending: Bool { !outbox.isEmpty || !zones.isEmpty || isUntracked }

    /// Removes a change that the relay has answered finally.
    ///
    /// `version` is the version that was sent.
    mutating func confirmed(_ id: RecordID, version: UInt64) {
        let entry = outbox[id]
        outbox.confirmed(id, version: version)
        if let entry, outbox[id] == nil { unreported.records.append((id, entry.operation)) }
        releaseRecordID(id)
    }

    /// Removes the change of a zone that the relay has answered finally.
    mutating func confirmed(_ zoneID: CKRecordZone.ID, version: UInt64) {
        unreported.zones += zones.confirmed(zoneID, version: version)
    }

    /// Removes pending deletions in zones that no longer exist.
    ///
    /// The app decides about pending saves. A new zone with the same name may have records with the same names, which
    /// this device has not deleted.
    mutating func zonesRemoved(_ removed: [ZoneID]) {
        for entry in outbox.pending where entry.operation == .delete && removed.contains(entry.id.zone) {
            outbox.remove(.delete, entry.id)
            releaseRecordID(entry.id)
        }
    }

    fileprivate mutating func releaseRecordID(_ id: RecordID) {
        if outbox[id] == nil { recordIDs[id] = nil }
    }
}

/// The pending zone changes: one per zone, the last change replaces earlier ones.
struct PendingZones: Sendable {
    private var entries: [(change: CKSyncEngine.PendingDatabaseChange, version: UInt64)] = []
    private var clock: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var pending: [CKSyncEngine.PendingDatabaseChange] { entries.map(\.change) }
    /// The changes with the versions to pass to `confirmed(_:version:)`.
    var versioned: [(change: CKSyncEngine.PendingDatabaseChange, version: UInt64)] { entries }

    mutating func add(_ change: CKSyncEngine.PendingDatabaseChange) {
        clock += 1
        entries.removeAll { $0.change.zoneID == change.zoneID }
        entries.append((change, clock))
    }

    mutating func remove(_ change: CKSyncEngine.PendingDatabaseChange) {
        entries.removeAll { entry in
            switch (entry.change, change) {
            case (.saveZone(let a), .saveZone(let b)): a.zoneID == b.zoneID
            case (.deleteZone(let a), .deleteZone(let b)): a == b
            default: false
            }
        }
    }

    /// Removes the entries up to a version, and returns them.
    mutating func confirmed(
        _ zoneID: CKRecordZone.ID,
        version: UInt64
    ) -> [CKSyncEngine.PendingDatabaseChange] {
        let removed = entries.filter { $0.change.zoneID == zoneID && $0.version <= version }
        entries.removeAll { $0.change.zoneID == zoneID && $0.version <= version }
        return removed.map(\.change)
    }
}

/// Changes that are no longer pending, but whose event the delegate has not completely handled.
///
/// A saved state still contains them as pending. If the app is killed at that point, the next engine sends them again
/// and reports the result. Otherwise a refusal would never be reported.
struct UnreportedChanges: Sendable {
    var records: [(id: RecordID, operation: Outbox.Operation)] = []
    var zones: [CKSyncEngine.PendingDatabaseChange] = []
}

extension CKSyncEngine.State {
    /// The state of an engine in a form that the app saves together with its data.
    ///
    /// The content is opaque. Later versions of this library can read it.
    public struct Serialization: Codable, Sendable {
        struct Zone: Codable, Sendable, Hashable {
            var name: String
            var owner: String
            var token: SyncToken?

            init(_ zone: ZoneID, token: SyncToken? = nil) {
                name = zone.zoneName
                owner = zone.owner.recordName
                self.token = token
            }

            var zone: ZoneID { ZoneID(name, owner: UserID(owner)) }
        }

        struct Change: Codable, Sendable {
            var operation: Outbox.Operation
            /// `nil` for a change of the zone itself.
            var record: String?
            var zone: Zone
        }

        struct Listing: Codable, Sendable {
            var zone: Zone
            var records: [String]
        }

        struct Saves: Codable, Sendable {
            var zone: Zone
            /// The types of the records, by record name.
            var records: [String: String]
        }

        var version = 1
        var databaseToken: SyncToken?
        var zones: [Zone] = []
        var unfetched: [Zone] = []
        var changes: [Change] = []
        var isUntracked = false
        var heldUntil: Date?
        var heldFor: TimeInterval?
        var user: String?
        /// Zones that are being listed from their beginning; `nil` if there are none, as for the following ones.
        var listings: [Listing]?
        /// The zones seen so far while the database is being listed.
        var databaseListing: [Zone]?
        /// Saved records that a listing may leave out.
        var unheard: [Saves]?
        /// Zones that did not exist, and whose absence has not been reported to the app.
        var vanished: [Zone]?
        /// Zones that were written to while the database is being listed.
        var written: [Zone]?
        /// Zones with values that could not be decrypted when they arrived.
        var unreadable: [Zone]?
    }
}

extension CKSyncEngine.State.Serialization {
    init(_ contents: CKSyncEngine.State.Contents) {
        databaseToken = contents.feed.databaseToken
        zones = contents.feed.zoneTokens.map { Zone($0.key, token: $0.value) }
        unfetched = contents.feed.unfetched.map { Zone($0) }
        // If a zone also has a pending change, that change comes later and therefore replaces this one.
        let zoneChanges = (contents.unreported.zones + contents.zones.pending).map { pending in
            switch pending {
            case .saveZone(let zone): Change(operation: .save, zone: Zone(zone.zoneID.zone))
            case .deleteZone(let id): Change(operation: .delete, zone: Zone(id.zone))
            }
        }
        let pending = contents.outbox.pending.map { (id: $0.id, operation: $0.operation) }
        let records = contents.unreported.records + pending
        let recordChanges = records.map { id, operation in
            Change(operation: operation, record: id.recordName, zone: Zone(id.zone))
        }
        changes = zoneChanges + recordChanges
        isUntracked = contents.isUntracked
        heldUntil = contents.heldUntil
        heldFor = contents.heldFor
        user = contents.user
        vanished = contents.feed.vanished.isEmpty ? nil : contents.feed.vanished.map { Zone($0) }
        written = contents.feed.written.isEmpty ? nil : contents.feed.written.map { Zone($0) }
        databaseListing = contents.feed.listing.map { $0.map { Zone($0) } }
        let unheard = contents.unheard.types.map { Saves(zone: Zone($0.key), records: $0.value) }
        self.unheard = unheard.isEmpty ? nil : unheard
        unreadable = contents.unreadable.isEmpty ? nil : contents.unreadable.map { Zone($0) }
        let listings = contents.listings.map { Listing(zone: Zone($0.key), records: $0.value.sorted()) }
        self.listings = listings.isEmpty ? nil : listings
    }

    package var contents: CKSyncEngine.State.Contents {
        var contents = CKSyncEngine.State.Contents()
        let tokens = zones.compactMap { zone in zone.token.map { (zone.zone, $0) } }
        contents.feed = FeedState(
            databaseToken: databaseToken,
            zoneTokens: Dictionary(tokens, uniquingKeysWith: { $1 }),
            unfetched: unfetched.map(\.zone),
            listing: databaseListing.map { Set($0.map(\.zone)) },
            vanished: Set((vanished ?? []).map(\.zone)),
            written: Set((written ?? []).map(\.zone))
        )
        for change in changes {
            switch (change.record, change.operation) {
            case (let record?, let operation): contents.outbox.add(operation, RecordID(record, in: change.zone.zone))
            case (nil, .save): contents.zones.add(.saveZone(CKRecordZone(zoneID: CKRecordZone.ID(change.zone.zone))))
            case (nil, .delete): contents.zones.add(.deleteZone(CKRecordZone.ID(change.zone.zone)))
            }
        }
        contents.isUntracked = isUntracked
        contents.heldUntil = heldUntil
        contents.heldFor = heldFor
        contents.user = user
        contents.unheard = UnlistedRecords(
            Dictionary((unheard ?? []).map { ($0.zone.zone, $0.records) }, uniquingKeysWith: { $1 })
        )
        contents.unreadable = Set((unreadable ?? []).map(\.zone))
        for listing in listings ?? [] {
            contents.listings[listing.zone.zone] = Set(listing.records)
            // The end of the listing has not been reported to the app yet.
            contents.feed.changed(listing.zone.zone)
        }
        return contents
    }
}

/// Records that the app has and that a listing might leave out: their types by name.
///
/// A listing contains a zone's records but no deletions, so the engine compares the two at the end of a listing and
/// reports the missing records as deleted. For the user's own zones it remembers the records that this device saved
/// before the first fetch; otherwise an app that writes first would not learn of deletions by another device. For zones
/// of other users it remembers all delivered records, because such a zone is listed again whenever the user gains or
/// loses access to a part of it, and no other event reports the records that were lost.
struct UnlistedRecords: Sendable {
    /// Limits the state of an app that only sends; deletions of records saved after this limit are not reported.
    private static let maxOwnRecords = 50_000
    /// Limits the state of a shared database, since the state is delivered with every change.
    private static let maxSharedRecords = 10_000

    private(set) var types: [ZoneID: [String: String]] = [:]
    private(set) var count = 0

    init(_ types: [ZoneID: [String: String]] = [:]) {
        self.types = types
        count = types.values.reduce(0) { $0 + $1.count }
    }

    mutating func saved(_ record: RecordID, type: String, isShared: Bool = false) {
        guard count < (isShared ? Self.maxSharedRecords : Self.maxOwnRecords) else { return }
        let known = types[record.zone, default: [:]].updateValue(type, forKey: record.recordName)
        if known == nil { count += 1 }
    }

    /// Adds a zone that was created on this device and not fetched yet.
    mutating func made(_ zone: ZoneID) {
        if types[zone] == nil { types[zone] = [:] }
    }

    mutating func deleted(_ record: RecordID) {
        if types[record.zone]?.removeValue(forKey: record.recordName) != nil { count -= 1 }
    }

    /// Removes a zone that has been listed or no longer exists.
    mutating func forget(_ zone: ZoneID) { count -= types.removeValue(forKey: zone)?.count ?? 0 }

    /// Removes the records that the listing of another user's zone did not contain.
    mutating func keep(in zone: ZoneID, where isThere: (String) -> Bool) {
        guard let known = types[zone] else { return }
        let kept = known.filter { isThere($0.key) }
        count -= known.count - kept.count
        types[zone] = kept
    }
}

extension CKSyncEngine.State.Contents {
    /// Adds the results of a send, for running and future listings.
    ///
    /// Skips the default zone: no feed contains it, so it would appear to be deleted.
    mutating func changesSent(_ sent: CKSyncEngine.Event.SentRecordZoneChanges) {
        for record in sent.savedRecords {
            let id = record.recordID.record
            if id.zone.isDefault { continue }
            // A save during a listing may be too late to be part of it.
            listings[id.zone]?.insert(id.recordName)
            feed.wrote(id.zone)
            if isShared || feed.zoneTokens[id.zone] == nil {
                unheard.saved(id, type: record.recordType, isShared: isShared)
            }
        }
        for id in sent.deletedRecordIDs.map(\.record) {
            listings[id.zone]?.remove(id.recordName)
            unheard.deleted(id)
        }
    }

    /// Adds the contents of a page.
    mutating func pageDelivered(_ page: ZonePage<CKRecord>, of zone: ZoneID) {
        if listings[zone] != nil {
            listings[zone]?.formUnion(page.changed.map(\.recordID.recordName))
            listings[zone]?.subtract(page.deleted.map(\.id.recordName))
        }
        guard isShared else { return }
        for record in page.changed {
            unheard.saved(RecordID(record.recordID.recordName, in: zone), type: record.recordType, isShared: true)
        }
        for (id, _) in page.deleted { unheard.deleted(RecordID(id.recordName, in: zone)) }
    }

    /// Called when a zone has been fetched completely or does not exist.
    ///
    /// `listed` contains its records if it was listed.
    mutating func zoneListed(_ zone: ZoneID, _ listed: Set<String>?) {
        listings[zone] = nil
        guard isShared, let listed else { return unheard.forget(zone) }
        // The relay will refuse pending changes of missing records, and the app decides about them.
        let pending = outbox
        unheard.keep(in: zone) { listed.contains($0) || pending[RecordID($0, in: zone)] != nil }
    }

    /// Adds zones that the relay has created or that already existed.
    mutating func zonesCreated(_ zones: [CKRecordZone]) {
        for zone in zones.map(\.zoneID.zone) where !zone.isDefault {
            feed.wrote(zone)
            feed.zoneCreated(zone)
            if feed.zoneTokens[zone] == nil { unheard.made(zone) }
        }
    }

    /// Removes zones that this device has deleted; a later zone of the same name is unknown.
    mutating func zonesDeleted(_ zones: [CKRecordZone.ID]) {
        for zone in zones.map(\.zone) {
            feed.lost(zone)
            unheard.forget(zone)
            listings[zone] = nil
        }
    }

    /// Returns the app's records that a complete listing of their zone does not contain.
    ///
    /// Pending records count as existing.
    func missing(in zone: ZoneID, from listed: Set<String>) -> [CKDatabase.RecordZoneChange.Deletion] {
        (unheard.types[zone] ?? [:])
            .filter { !listed.contains($0.key) && outbox[RecordID($0.key, in: zone)] == nil }
            .sorted { $0.key < $1.key }
            .map { .init(recordID: CKRecord.ID(RecordID($0.key, in: zone)), recordType: $0.value) }
    }
}
