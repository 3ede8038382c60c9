import Synchronization
import ZoneKit

/// Forwards the events of one engine instance to its `EngineSide`, during one run of the device.
final class EngineEar: CKSyncEngineDelegate {
    private let side: EngineSide
    private let isTold = Mutex(false)

    init(_ side: EngineSide) { self.side = side }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        let overlaps = isTold.withLock { isTold in
            defer { isTold = true }
            return isTold
        }
        if overlaps { side.judge.accuse("b", "\(event) is delivered during another event") }
        await side.manner.withLock { $0.pause }?()
        await side.handleEvent(event, syncEngine: syncEngine)
        isTold.withLock { $0 = false }
    }

    func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions { side.manner.withLock { $0.options(context.options) } }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        await side.nextRecordZoneChangeBatch(context, syncEngine: syncEngine)
    }
}

extension Collection<CKRecord.ID> {
    /// Sorted, for an order that does not depend on the collection's own.
    var inOrder: [CKRecord.ID] {
        sorted {
            ($0.zoneID.ownerName, $0.zoneID.zoneName, $0.recordName) < (
                $1.zoneID.ownerName, $1.zoneID.zoneName, $1.recordName
            )
        }
    }
}
