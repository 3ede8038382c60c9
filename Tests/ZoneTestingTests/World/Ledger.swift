import Synchronization
import ZoneKit
import ZoneTesting

/// A program that records each event together with the state that it had saved by then.
final class Ledger: CKSyncEngineDelegate {
    private struct Page: Sendable {
        var event: String
        var state: CKSyncEngine.State.Serialization?
    }

    private struct Contents: Sendable {
        var pages: [Page] = []
        var last: CKSyncEngine.State.Serialization?
        var records: Set<String> = []
        var hold: (event: String, wait: @Sendable () async -> Void)?
        var onAccountChange: (@Sendable (Ledger) -> Void)?
        var engine: CKSyncEngine?
    }

    let zone = CKRecordZone.ID(zoneName: "Notes")
    private let contents = Mutex(Contents())

    init(
        _ device: TestDevice,
        isAutomatic: Bool = false,
        from state: CKSyncEngine.State.Serialization? = nil,
        zones: Int = 1
    ) {
        var configuration = CKSyncEngine.Configuration(
            database: device.privateDatabase,
            stateSerialization: state,
            delegate: self
        )
        configuration.automaticallySync = isAutomatic
        let engine = CKSyncEngine(configuration)
        contents.withLock { $0.engine = engine }
        if zones > 0 { addZone() }
    }

    var engine: CKSyncEngine {
        guard let engine = contents.withLock({ $0.engine }) else { preconditionFailure("made in init") }
        return engine
    }

    var pending: Set<String> { Set(engine.state.pendingRecordZoneChanges.map(\.recordID.recordName)) }
    var records: Set<String> { contents.withLock { $0.records } }
    var last: CKSyncEngine.State.Serialization? { contents.withLock { $0.last } }

    func id(_ name: String) -> CKRecord.ID { CKRecord.ID(recordName: name, zoneID: zone) }
    func addZone() { engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: zone))]) }
    func write(_ name: String) { engine.state.add(pendingRecordZoneChanges: [.saveRecord(id(name))]) }

    /// The state that the program had saved when the event first arrived.
    func state(before event: String) -> CKSyncEngine.State.Serialization? {
        contents.withLock { $0.pages.first { $0.event.hasPrefix(event) }?.state }
    }

    /// Delays the next event of a kind inside the program.
    func hold(at event: String, _ wait: @escaping @Sendable () async -> Void) {
        contents.withLock { $0.hold = (event, wait) }
    }

    func onAccountChange(_ work: @escaping @Sendable (Ledger) -> Void) {
        contents.withLock { $0.onAccountChange = work }
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        let name = event.description
        let wait = contents.withLock { contents -> (@Sendable () async -> Void)? in
            contents.pages.append(Page(event: name, state: contents.last))
            guard let hold = contents.hold, name.hasPrefix(hold.event) else { return nil }
            contents.hold = nil
            return hold.wait
        }
        await wait?()
        switch event {
        case .stateUpdate(let update): contents.withLock { $0.last = update.stateSerialization }
        case .accountChange:
            contents.withLock { $0.records = [] }
            contents.withLock { $0.onAccountChange }?(self)
        case .fetchedRecordZoneChanges(let changes):
            contents.withLock { contents in
                contents.records.formUnion(changes.modifications.map(\.record.recordID.recordName))
            }
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges.filter { context.options.scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) {
            CKRecord(recordType: "Note", recordID: $0)
        }
    }
}
