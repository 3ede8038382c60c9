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
        struct Contents: Sendable {
            var outbox = Outbox()
            var zones = PendingZones()
            /// Changes that the relay has answered, but whose event the delegate has not received yet.
            var untold = UntoldChanges()
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
            var unheard = UnheardSaves()
            /// Whether this is a shared database, where the owners decide what the user sees.
            var isShared = false
            /// Zones with values that could not be decrypted when the app received them.
            var unreadable: Set<ZoneID> = []
            /// The ID objects that the app has passed in, so that it gets the same objects back.
            var recordIDs: [RecordID: CKRecord.ID] = [:]

            /// The number of record names from fetches in the state.
            var listedCount: Int { listings.values.reduce(0) { $0 + $1.count } + (isShared ? unheard.count : 0) }

            /// Returns the remaining delay in seconds, at most the original delay.
            func hold(at now: Date) -> TimeInterval {
                guard let heldUntil, let heldFor else { return 0 }
                return min(heldUntil.timeIntervalSince(now), heldFor)
            }
        }

        /// Identifies what an engine synchronizes.
        ///
        /// A later engine with the same values replaces an earlier one.
        struct Post: Hashable, Sendable {
            var delegate: ObjectIdentifier
            var session: RelaySession.Identity
            var scope: CKDatabase.Scope
        }

        /// The state of the engine whose event is being delivered by the current task.
        @TaskLocal static var beingTold: State?

        private let contents: Mutex<Contents>
        private let listener = Mutex<(@Sendable () -> Void)?>(nil)
        private let post: Post

        init(_ serialization: Serialization?, for post: Post) {
            var kept = serialization?.contents ?? Contents()
            kept.isShared = post.scope == .shared
            contents = Mutex(kept)
            self.post = post
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
                    contents.forgetSettled(pending.recordID.record)
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
            if let told = Self.beingTold, told !== self, told.post == post { told.change(body) }
        }
    }
}

extension CKSyncEngine.State.Contents {
    var hasPending: Bool { !outbox.isEmpty || !zones.isEmpty || isUntracked }

    /// Removes a change that the relay has answered finally.
    ///
    /// `version` is the version that was sent.
    mutating func settled(_ id: RecordID, version: UInt64) {
        let entry = outbox[id]
        outbox.settled(id, version: version)
        if let entry, outbox[id] == nil { untold.records.append((id, entry.operation)) }
        forgetSettled(id)
    }

    /// Removes the change of a zone that the relay has answered finally.
    mutating func settled(_ zoneID: CKRecordZone.ID, version: UInt64) {
        untold.zones += zones.settled(zoneID, version: version)
    }

    /// Removes pending deletions in zones that no longer exist.
    ///
    /// The app decides about pending saves. A new zone with the same name may have records with the same names, which
    /// this device has not deleted.
    mutating func noteGone(_ gone: [ZoneID]) {
        for entry in outbox.pending where entry.operation == .delete && gone.contains(entry.id.zone) {
            outbox.remove(.delete, entry.id)
            forgetSettled(entry.id)
        }
    }

    fileprivate mutating func forgetSettled(_ id: RecordID) {
        if outbox[id] == nil { recordIDs[id] = nil }
    }
}

/// The pending zone changes: one per zone, the last change replaces earlier ones.
struct PendingZones: Sendable {
    private var entries: [(change: CKSyncEngine.PendingDatabaseChange, version: UInt64)] = []
    private var clock: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var pending: [CKSyncEngine.PendingDatabaseChange] { entries.map(\.change) }
    /// The changes with the versions to pass to `settled(_:version:)`.
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
    mutating func settled(
        _ zoneID: CKRecordZone.ID,
        version: UInt64
    ) -> [CKSyncEngine.PendingDatabaseChange] {
        let gone = entries.filter { $0.change.zoneID == zoneID && $0.version <= version }
        entries.removeAll { $0.change.zoneID == zoneID && $0.version <= version }
        return gone.map(\.change)
    }
}

/// Changes that are no longer pending, but whose event the delegate has not completely handled.
///
/// A saved state still contains them as pending. If the app is killed at that point, the next engine sends them again
/// and reports the result. Otherwise a refusal would never be reported.
struct UntoldChanges: Sendable {
    var records: [(id: RecordID, operation: Outbox.Operation)] = []
    var zones: [CKSyncEngine.PendingDatabaseChange] = []
}
