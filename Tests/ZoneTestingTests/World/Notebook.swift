import Foundation
import Synchronization
import ZoneKit
import ZoneTesting

/// A minimal program with a sync engine.
///
/// Its stored data can be passed to a new instance.
final class Notebook: CKSyncEngineDelegate {
    struct Stored: Sendable {
        var texts: [String: String] = [:]
        var known: [String: CKRecord] = [:]
        var state: CKSyncEngine.State.Serialization?
    }

    private let stored: Mutex<Stored>
    private let engine = Mutex<CKSyncEngine?>(nil)
    let zone = CKRecordZone.ID(zoneName: "Notes")

    init(on device: TestDevice, with stored: Stored = Stored()) {
        self.stored = Mutex(stored)
        let made = CKSyncEngine(
            .init(database: device.privateDatabase, stateSerialization: stored.state, delegate: self)
        )
        if stored.state == nil { made.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }
        engine.withLock { $0 = made }
    }

    var texts: [String: String] { stored.withLock { $0.texts } }
    var storedData: Stored { stored.withLock { $0 } }

    func write(_ name: String, _ text: String) {
        stored.withLock { stored in
            stored.texts[name] = text
            add(.saveRecord(CKRecord.ID(recordName: name, zoneID: zone)))
        }
    }

    private func add(_ change: CKSyncEngine.PendingRecordZoneChange) {
        engine.withLock { $0 }?.state.add(pendingRecordZoneChanges: [change])
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let update): stored.withLock { $0.state = update.stateSerialization }
        case .fetchedRecordZoneChanges(let changes):
            stored.withLock { stored in
                // Edits take the same lock, so each edit is either already pending or comes later.
                let pending = Set(syncEngine.state.pendingRecordZoneChanges.map(\.recordID.recordName))
                for record in changes.modifications.map(\.record) {
                    let name = record.recordID.recordName
                    stored.known[name] = record
                    if !pending.contains(name) { stored.texts[name] = record["text"] }
                }
                for name in changes.deletions.map(\.recordID.recordName) where !pending.contains(name) {
                    stored.texts[name] = nil
                }
            }
        case .sentRecordZoneChanges(let sent):
            for record in sent.savedRecords { stored.withLock { $0.known[record.recordID.recordName] = record } }
            for failure in sent.failedRecordSaves where failure.error.code == .serverRecordChanged {
                stored.withLock { $0.known[failure.record.recordID.recordName] = failure.error.serverRecord }
                add(.saveRecord(failure.record.recordID))
            }
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) { id in
            self.stored.withLock { stored in
                guard let text = stored.texts[id.recordName] else { return nil }
                let record =
                    stored.known[id.recordName]?.copy() as? CKRecord ?? CKRecord(recordType: "Note", recordID: id)
                record["text"] = text
                return record
            }
        }
    }
}
