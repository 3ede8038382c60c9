import Foundation
import Records
import SyncCore
import Synchronization

extension CKSyncEngine {
    /// A record's change that the relay has not confirmed.
    public enum PendingRecordZoneChange: Sendable, Hashable {
        /// The record is to be saved.
        case saveRecord(CKRecord.ID)
        /// The record is to be deleted.
        case deleteRecord(CKRecord.ID)

        /// The record.
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

    /// A zone's change that the relay has not confirmed.
    public enum PendingDatabaseChange: Sendable, Hashable {
        /// The zone is to be created.
        case saveZone(CKRecordZone)
        /// The zone is to be deleted.
        case deleteZone(CKRecordZone.ID)

        /// The zone.
        public var zoneID: CKRecordZone.ID {
            switch self {
            case .saveZone(let zone): zone.zoneID
            case .deleteZone(let id): id
            }
        }
    }

    /// What is pending.
    ///
    /// Adding a change says that it is to be sent; with an engine that works by itself, that is at once.
    ///
    /// Per record and per zone the last change counts. May be used from any thread, and from inside the delegate.
    public final class State: Sendable {
        struct Contents: Sendable {
            var outbox = Outbox()
            var zones = PendingZones()
            /// What the relay has answered for, and the application is still to be told of.
            var untold = UntoldChanges()
            var isUntracked = false
            var feed = FeedState()
            /// Until when the relay asked to wait, by the wall clock.
            var heldUntil: Date?
            /// How long that was when it was noted, in seconds: what a wall clock that was ahead says may be years from now.
            var heldFor: TimeInterval?
            /// Whose data these are.
            var user: String?
            /// Grows with every change of what is pending.
            var revision: UInt64 = 0
            /// Grows with every change of anything that is to be kept.
            var stamp: UInt64 = 0
            /// The names seen so far in zones that are being listed from their beginning.
            var listings: [ZoneID: Set<String>] = [:]
            /// What a listing might leave out.
            var unheard = UnheardSaves()
            /// The zones are others', who give and take what is seen of them.
            var isShared = false
            /// Zones with values that the application was given while they could not be read.
            var unreadable: Set<ZoneID> = []
            /// The address objects that the program knows, so that it gets its own back.
            var recordIDs: [RecordID: CKRecord.ID] = [:]

            /// All names that the state holds of what was fetched.
            var listedCount: Int { listings.values.reduce(0) { $0 + $1.count } + (isShared ? unheard.count : 0) }

            /// How much of the relay's wait is left at this time; never more than it was.
            func hold(at now: Date) -> TimeInterval {
                guard let heldUntil else { return 0 }
                return min(heldUntil.timeIntervalSince(now), heldFor ?? SyncSchedule.longestUnknownHold.inSeconds)
            }
        }

        /// For whom an engine keeps what in step: another one for the same has taken its place.
        struct Post: Hashable, Sendable {
            var delegate: ObjectIdentifier
            var session: RelaySession.Identity
            var scope: CKDatabase.Scope
        }

        /// The state of the engine whose event the delegate is just being told, in the task that tells it.
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

        /// The records to be sent, in the order in which they will be.
        public var pendingRecordZoneChanges: [PendingRecordZoneChange] {
            read { contents in
                contents.outbox.pending.map { entry in
                    let id = contents.recordIDs[entry.id] ?? CKRecord.ID(entry.id)
                    return entry.operation == .save ? .saveRecord(id) : .deleteRecord(id)
                }
            }
        }

        /// The zones to be sent; they go before all records.
        public var pendingDatabaseChanges: [PendingDatabaseChange] { read { $0.zones.pending } }

        /// The application has changes that it does not list here: ask it for a batch.
        public var hasPendingUntrackedChanges: Bool {
            get { read { $0.isUntracked } }
            set {
                change { contents in
                    // Said once more, it may be of other changes.
                    defer { contents.isUntracked = newValue }
                    return newValue || contents.isUntracked
                }
            }
        }

        /// Zones known to have changed on the relay, and not yet fetched to the end.
        public var zoneIDsWithUnfetchedServerChanges: [CKRecordZone.ID] {
            read { $0.feed.unfetched.map { CKRecordZone.ID($0) } }
        }

        /// Says that records are to be sent.
        public func add(pendingRecordZoneChanges: [PendingRecordZoneChange]) {
            change { contents in
                for pending in pendingRecordZoneChanges {
                    contents.outbox.add(pending.operation, pending.recordID.record)
                    contents.recordIDs[pending.recordID.record] = pending.recordID
                }
                return !pendingRecordZoneChanges.isEmpty
            }
        }

        /// Says that records need not be sent after all.
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

        /// Says that zones are to be sent.
        public func add(pendingDatabaseChanges: [PendingDatabaseChange]) {
            change { contents in
                pendingDatabaseChanges.forEach { contents.zones.add($0) }
                return !pendingDatabaseChanges.isEmpty
            }
        }

        /// Says that zones need not be sent after all.
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

        /// Changes what is pending; `body` says whether there was anything to change.
        ///
        /// What changes nothing is no news: a program that says so each time it is asked would be asked for ever.
        private func change(_ body: (inout Contents) -> Bool) {
            let isNews = contents.withLock { contents in
                guard body(&contents) else { return false }
                contents.revision += 1
                contents.stamp += 1
                return true
            }
            if isNews { listener.withLock { $0 }?() }
            // A delegate that has made itself another engine meanwhile answers an event of the one before by what it adds
            // to the new one. Without it the old one, which is at work, would go on to send records without their zone.
            if let told = Self.beingTold, told !== self, told.post == post { told.change(body) }
        }
    }
}

extension CKSyncEngine.State.Contents {
    var hasPending: Bool { !outbox.isEmpty || !zones.isEmpty || isUntracked }

    /// The relay has answered for good what was sent as `version`.
    mutating func settled(_ id: RecordID, version: UInt64) {
        let entry = outbox[id]
        outbox.settled(id, version: version)
        if let entry, outbox[id] == nil { untold.records.append((id, entry.operation)) }
        forgetSettled(id)
    }

    /// The same of a zone.
    mutating func settled(_ zoneID: CKRecordZone.ID, version: UInt64) {
        untold.zones += zones.settled(zoneID, version: version)
    }

    /// Zones are gone, with what was to be deleted in them; what was to be saved is the program's to decide.
    ///
    /// Another one that has taken the name since may have records of the same names, which nobody here has deleted.
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

/// The zones to be sent: one entry per zone, the last change wins, as with records.
struct PendingZones: Sendable {
    private var entries: [(change: CKSyncEngine.PendingDatabaseChange, version: UInt64)] = []
    private var clock: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var pending: [CKSyncEngine.PendingDatabaseChange] { entries.map(\.change) }
    /// With the versions to settle them by.
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

    /// Gives what is pending no more.
    mutating func settled(
        _ zoneID: CKRecordZone.ID,
        version: UInt64
    ) -> [CKSyncEngine.PendingDatabaseChange] {
        let gone = entries.filter { $0.change.zoneID == zoneID && $0.version <= version }
        entries.removeAll { $0.change.zoneID == zoneID && $0.version <= version }
        return gone.map(\.change)
    }
}

/// Changes that are pending no more, while their event waits to be told or is being told.
///
/// A state that is kept in between still has them as pending: a program that is killed there sends them once more, and hears
/// of them. Without that nobody would ever hear of what was refused.
struct UntoldChanges: Sendable {
    var records: [(id: RecordID, operation: Outbox.Operation)] = []
    var zones: [CKSyncEngine.PendingDatabaseChange] = []
}
