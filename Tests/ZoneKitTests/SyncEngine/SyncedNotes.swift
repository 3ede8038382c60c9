import Foundation
import Synchronization
import ZoneKit
import ZoneTesting

/// A minimal application store with a sync engine.
final class SyncedNotes: CKSyncEngineDelegate {
    struct Contents: Sendable {
        var texts: [CKRecord.ID: String] = [:]
        /// The last records that the relay returned, for their change tags.
        var known: [CKRecord.ID: CKRecord] = [:]
        var saved: CKSyncEngine.State.Serialization?
        var events: [CKSyncEngine.Event] = []
        /// Called once, when the engine next asks for a record, before the record is returned.
        var beforeNextRecord: (@Sendable (SyncedNotes) -> Void)?
        var asked: [CKSyncEngine.FetchChangesContext] = []
        var engine: CKSyncEngine?
        var isHandling = false
        var overlaps = 0
    }

    let contents = Mutex(Contents())
    /// Signals after each event.
    let signal = ChangeSignal()
    let device: TestDevice
    let zone: CKRecordZone.ID
    /// Recreates the zone and saves the record again if the zone is missing, as CloudKit's own sample does.
    let restoresZones: Bool
    /// Handles records that a listing omits, which Apple's events do not support.
    let sweeps: Bool

    init(
        _ device: TestDevice,
        zone: String = "Notes",
        isAutomatic: Bool = false,
        restoresZones: Bool = false,
        sweeps: Bool = true,
        from state: CKSyncEngine.State.Serialization? = nil,
        texts: [CKRecord.ID: String] = [:],
        relay: TestRelay? = nil,
        database: CKDatabase? = nil
    ) {
        self.device = device
        self.zone = CKRecordZone.ID(zoneName: zone)
        self.restoresZones = restoresZones
        self.sweeps = sweeps
        var configuration = CKSyncEngine.Configuration(
            database: database ?? device.privateDatabase,
            stateSerialization: state,
            delegate: self
        )
        configuration.automaticallySync = isAutomatic
        var conditions = SyncConditions()
        if let relay {
            conditions.time = Scheduler(relay.clock)
            conditions.wallClock = { relay.clock.date }
        }
        let engine = CKSyncEngine(configuration, conditions: conditions)
        contents.withLock {
            $0.engine = engine
            $0.texts = texts
            $0.saved = state
        }
    }

    var engine: CKSyncEngine {
        guard let engine = contents.withLock({ $0.engine }) else { preconditionFailure("made in init") }
        return engine
    }

    var texts: [String: String] {
        contents.withLock { Dictionary(uniqueKeysWithValues: $0.texts.map { ($0.key.recordName, $0.value) }) }
    }

    var saved: CKSyncEngine.State.Serialization? { contents.withLock { $0.saved } }

    /// The descriptions of the events so far, without state updates.
    var log: [String] { contents.withLock { $0.events.map(\.description) }.filter { $0 != "stateUpdate" } }

    func id(_ name: String) -> CKRecord.ID { CKRecord.ID(recordName: name, zoneID: zone) }

    func addZone() { engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }

    func write(_ name: String, _ text: String) { edit(name, text, .saveRecord(id(name))) }

    /// Writes into another zone, which is created if necessary.
    func write(_ text: String, as id: CKRecord.ID) {
        contents.withLock { $0.texts[id] = text }
        engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: id.zoneID))])
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    func delete(_ name: String) { edit(name, nil, .deleteRecord(id(name))) }

    /// Uses the same lock as `apply`: otherwise a fetched version could replace an edit that is not pending yet.
    private func edit(_ name: String, _ text: String?, _ change: CKSyncEngine.PendingRecordZoneChange) {
        contents.withLock { contents in
            contents.texts[id(name)] = text
            contents.engine?.state.add(pendingRecordZoneChanges: [change])
        }
    }

    /// The answer of a relay for a zone that is busy for ten minutes.
    static let busyZone = TestNetwork.Fault.answered(
        status: 503,
        body: #"{"serverErrorCode":"TRY_AGAIN_LATER","ckErrorCode":"ZONE_BUSY","reason":"busy","retryAfter":600}"#
    )

    // MARK: CKSyncEngineDelegate

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        contents.withLock { contents in
            contents.overlaps += contents.isHandling ? 1 : 0
            contents.isHandling = true
            contents.events.append(event)
        }
        await Task.yield()
        switch event {
        case .stateUpdate(let update): contents.withLock { $0.saved = update.stateSerialization }
        case .fetchedRecordZoneChanges(let changes): apply(changes, syncEngine)
        case .fetchedDatabaseChanges(let changes): forget(changes.deletions.map(\.zoneID))
        case .sentRecordZoneChanges(let sent): settle(sent, syncEngine)
        case .didFetchRecordZoneChanges(let end):
            if sweeps, let listed = end.listedRecordIDs { sweep(end.zoneID, listed, syncEngine) }
        default: break
        }
        contents.withLock { $0.isHandling = false }
        signal.send()
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) { id in
            let text = self.contents.withLock { $0.texts[id] }
            let record =
                self.contents.withLock { $0.known[id]?.copy() as? CKRecord }
                ?? CKRecord(recordType: "Note", recordID: id)
            record["text"] = text
            let hook = self.contents.withLock { contents in
                defer { contents.beforeNextRecord = nil }
                return contents.beforeNextRecord
            }
            hook?(self)
            return text == nil ? nil : record
        }
    }

    func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions {
        contents.withLock { $0.asked.append(context) }
        return context.options
    }

    private func apply(_ changes: CKSyncEngine.Event.FetchedRecordZoneChanges, _ engine: CKSyncEngine) {
        contents.withLock { contents in
            let pending = Set(engine.state.pendingRecordZoneChanges.map(\.recordID))
            for change in changes.modifications {
                contents.known[change.record.recordID] = change.record
                if !pending.contains(change.record.recordID) {
                    contents.texts[change.record.recordID] = change.record["text"]
                }
            }
            for deletion in changes.deletions {
                contents.known[deletion.recordID] = nil
                if !pending.contains(deletion.recordID) { contents.texts[deletion.recordID] = nil }
            }
        }
    }

    /// A listing from the beginning reports no deletions: records that it omits and that the relay once had are
    /// deleted.
    private func sweep(_ zone: CKRecordZone.ID, _ listed: Set<CKRecord.ID>, _ engine: CKSyncEngine) {
        contents.withLock { contents in
            let pending = Set(engine.state.pendingRecordZoneChanges.map(\.recordID))
            for id in contents.known.keys where id.zoneID == zone && !listed.contains(id) {
                contents.known[id] = nil
                if !pending.contains(id) { contents.texts[id] = nil }
            }
        }
    }

    private func forget(_ zones: [CKRecordZone.ID]) {
        contents.withLock { contents in
            contents.texts = contents.texts.filter { !zones.contains($0.key.zoneID) }
            contents.known = contents.known.filter { !zones.contains($0.key.zoneID) }
        }
    }

    private func settle(_ sent: CKSyncEngine.Event.SentRecordZoneChanges, _ engine: CKSyncEngine) {
        for record in sent.savedRecords { contents.withLock { $0.known[record.recordID] = record } }
        for id in sent.deletedRecordIDs { contents.withLock { $0.known[id] = nil } }
        for failure in sent.failedRecordSaves {
            let id = failure.record.recordID
            switch failure.error.code {
            case .serverRecordChanged:
                // The own version wins, on top of the relay's.
                contents.withLock { $0.known[id] = failure.error.serverRecord }
                engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
            case .zoneNotFound where restoresZones:
                contents.withLock { $0.known[id] = nil }
                engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: id.zoneID))])
                engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
            default: break
            }
        }
    }
}
