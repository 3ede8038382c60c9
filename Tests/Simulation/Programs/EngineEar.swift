import Synchronization
import ZoneKit

/// Hears an engine for a side, in one life of the device.
final class EngineEar: CKSyncEngineDelegate {
    private let side: EngineSide
    private let isTold = Mutex(false)

    init(_ side: EngineSide) { self.side = side }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        let overlaps = isTold.withLock { isTold in
            defer { isTold = true }
            return isTold
        }
        if overlaps { side.judge.accuse("b", "\(event) is told while another event is") }
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
    /// In an order that does not depend on how they are kept.
    var inOrder: [CKRecord.ID] {
        sorted {
            ($0.zoneID.ownerName, $0.zoneID.zoneName, $0.recordName) < (
                $1.zoneID.ownerName, $1.zoneID.zoneName, $1.recordName
            )
        }
    }
}
