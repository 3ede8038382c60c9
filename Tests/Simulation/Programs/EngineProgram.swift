import Synchronization
import ZoneKit
import ZoneTesting

/// An application with sync engines, one for its private database and one for its shared database.
///
/// Its storage is a value that survives restarts. An edit and its mark as changed are stored in one step, as in a
/// program that keeps both in one file. A new engine gets the marks as pending changes.
final class EngineProgram: Program, @unchecked Sendable {
    // Unchecked because of `device` and `sides`: only the simulation's thread accesses them, between two steps.

    private(set) var device: TestDevice
    private let userName: String
    let judge: Judge
    private var sides: [EngineSide] = []

    init(_ device: TestDevice, userName: String, judge: Judge) {
        self.device = device
        self.userName = userName
        self.judge = judge
        sides = [EngineSide(isShared: false, userName, judge), EngineSide(isShared: true, userName, judge)]
        begin(on: device)
    }

    func begin(on device: TestDevice) {
        self.device = device
        for side in sides { side.begin(on: device) }
    }

    /// Performs an explicit action of the user or the system on the engines.
    func perform(_ deed: Step.EngineDeed, on number: Int?, clock: TestClock) {
        let zone = number.map { self.zone($0) }
        for side in zone.map({ [self.side(of: $0)] }) ?? sides { side.perform(deed, zone, on: device, clock) }
    }

    private func side(of zone: CKRecordZone.ID) -> EngineSide {
        sides[zone.ownerName == CKCurrentUserDefaultName ? 0 : 1]
    }

    /// Zones 0 and 1 are the user's own; if a zone is shared with the user, it replaces zone 1.
    private func zone(_ number: Int) -> CKRecordZone.ID {
        if number == 1, let shared = sides[1].zones.first(where: { $0.zoneName == "Z0" }) { return shared }
        return CKRecordZone.ID(zoneName: "Z\(number)")
    }

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        let zone = self.zone(zone)
        side(of: zone).edit(CKRecord.ID(recordName: record, zoneID: zone), field, value)
    }

    func delete(_ zone: Int, _ record: String) {
        let zone = self.zone(zone)
        side(of: zone).delete(CKRecord.ID(recordName: record, zoneID: zone))
    }

    func keepState() { sides.forEach { $0.keepState() } }
    func putStateBack() { sides.forEach { $0.putStateBack() } }

    func retry() { sides.forEach { $0.retry() } }

    func holdings() -> [ZoneName: [String: [String: String]]]? {
        sides.reduce(into: [:]) { $0.merge($1.holdings) { $1 } }
    }

    func expected(from truth: Truth) -> [ZoneName: [String: Version]] {
        let zones = truth.zones(of: userName, shared: false).union(truth.zones(of: userName, shared: true))
        return zones.reduce(into: [:]) { $0[$1] = truth.visible($1, to: userName) }
    }

    func unsent() -> [String] { sides.flatMap(\.unsent) }
}

/// One engine of an `EngineProgram`, with its storage.
final class EngineSide: CKSyncEngineDelegate {
    struct Storage: Sendable {
        var fields: [CKRecord.ID: [String: String]] = [:]
        /// The last known server records.
        var known: [CKRecord.ID: CKRecord] = [:]
        /// Fields with local changes that the relay has not confirmed.
        var changed: [CKRecord.ID: Set<String>] = [:]
        var deleted: Set<CKRecord.ID> = []
        /// The values sent last, to detect fields that were edited again meanwhile.
        ///
        /// The response to a repeated write contains the current record, with other users' changes.
        var sent: [CKRecord.ID: [String: String]] = [:]
        var zones: [CKRecordZone.ID] = []
        var state: CKSyncEngine.State.Serialization?
        /// Zones to create before their records are sent.
        var wanted: Set<CKRecordZone.ID> = []
        /// Zones to delete; the program writes nothing to them until they are deleted.
        var ending: Set<CKRecordZone.ID> = []
    }

    let storage = Mutex(Storage())
    let engine = Mutex<CKSyncEngine?>(nil)
    /// How the delegate reacts to its engine.
    let manner = Mutex(Manner())
    /// The listener of the current run; the events of earlier runs are not delivered.
    private let listener = Mutex<EngineEar?>(nil)
    let isShared: Bool
    /// The user of the stored data, and the unsent changes of other accounts of this device.
    private let account: Mutex<(user: String, others: [String: Storage])>
    /// A saved copy of both.
    private let copy = Mutex<(Storage, (user: String, others: [String: Storage]))?>(nil)
    let judge: Judge

    init(isShared: Bool, _ userName: String, _ judge: Judge) {
        self.isShared = isShared
        account = Mutex((userName, [:]))
        self.judge = judge
    }

    func keepState() {
        let now = (storage.withLock { $0 }, account.withLock { $0 })
        copy.withLock { $0 = now }
    }

    func putStateBack() {
        guard let kept = copy.withLock({ $0 }) else { return }
        storage.withLock { $0 = kept.0 }
        account.withLock { $0 = kept.1 }
    }

    var zones: [CKRecordZone.ID] { storage.withLock { $0.zones } }

    func begin(on device: TestDevice) {
        let ear = EngineEar(self)
        listener.withLock { $0 = ear }
        let database = isShared ? device.sharedDatabase : device.privateDatabase
        let made = CKSyncEngine(
            .init(database: database, stateSerialization: storage.withLock { $0.state }, delegate: ear)
        )
        engine.withLock { $0 = made }
        retry()
    }

    func retry() {
        let (wanted, changed, deleted, ending) = storage.withLock {
            ($0.wanted, Set($0.changed.keys), $0.deleted, $0.ending)
        }
        guard let state = engine.withLock({ $0 })?.state else { return }
        state.add(
            pendingDatabaseChanges: wanted.sorted { $0.zoneName < $1.zoneName }.map {
                .saveZone(CKRecordZone(zoneID: $0))
            } + ending.sorted { $0.zoneName < $1.zoneName }.map { .deleteZone($0) }
        )
        state.add(
            pendingRecordZoneChanges: changed.inOrder.map { .saveRecord($0) }
                + deleted.inOrder.map { .deleteRecord($0) }
        )
    }

    private func ask(_ change: CKSyncEngine.PendingRecordZoneChange) {
        engine.withLock { $0 }?.state.add(pendingRecordZoneChanges: [change])
    }

    func edit(_ id: CKRecord.ID, _ field: String, _ value: String) {
        if storage.withLock({ $0.ending.contains(id.zoneID) }) { return }
        judge.wrote(value, by: account.withLock { $0.user })
        let isNewZone = storage.withLock { storage in
            storage.fields[id, default: [:]][field] = value
            storage.changed[id, default: []].insert(field)
            storage.deleted.remove(id)
            let isNew = !isShared && !storage.zones.contains(id.zoneID) && storage.wanted.insert(id.zoneID).inserted
            return isNew
        }
        if isNewZone {
            engine.withLock { $0 }?.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: id.zoneID))])
        }
        ask(.saveRecord(id))
    }

    func delete(_ id: CKRecord.ID) {
        let isThere = storage.withLock { storage in
            guard storage.fields.removeValue(forKey: id) != nil else { return false }
            storage.changed[id] = nil
            // A save of a record that seems never sent may be in progress.
            storage.deleted.insert(id)
            return true
        }
        if isThere { ask(.deleteRecord(id)) }
    }

    func name(_ zone: CKRecordZone.ID) -> ZoneName {
        let user = account.withLock { $0.user }
        return ZoneName(owner: zone.ownerName == CKCurrentUserDefaultName ? user : zone.ownerName, name: zone.zoneName)
    }

    var holdings: [ZoneName: [String: [String: String]]] {
        storage.withLock { storage in
            var all: [ZoneName: [String: [String: String]]] = [:]
            for zone in storage.zones { all[name(zone)] = [:] }
            for (id, fields) in storage.fields { all[name(id.zoneID), default: [:]][id.recordName] = fields }
            return all
        }
    }

    var unsent: [String] {
        storage.withLock { $0.changed.keys.inOrder.map(\.recordName) + $0.deleted.inOrder.map { "-\($0.recordName)" } }
    }

    // MARK: CKSyncEngineDelegate, called by EngineEar

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .accountChange(let change):
            switch change.changeType {
            case .signIn(let user), .switchAccounts(_, let user): become(user.recordName)
            case .signOut: become("")
            }
        case .stateUpdate(let update): storage.withLock { $0.state = update.stateSerialization }
        case .fetchedDatabaseChanges(let changes): storage.withLock { $0.take(changes) }
        case .fetchedRecordZoneChanges(let changes): storage.withLock { $0.take(changes) }
        case .didFetchRecordZoneChanges(let end):
            if let listed = end.listedRecordIDs { storage.withLock { $0.sweep(end.zoneID, listed) } }
        case .sentDatabaseChanges(let sent):
            storage.withLock { $0.take(sent) }
        case .sentRecordZoneChanges(let sent): settle(sent)
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let manner = manner.withLock { $0 }
        let pending = syncEngine.state.pendingRecordZoneChanges.filter {
            context.options.scope.contains($0) && !manner.paused.contains($0.recordID.zoneID)
        }
        var batch = await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) { id in
            self.storage.withLock { $0.record(id) }
        }
        batch?.atomicByZone = manner.isAtomic
        return batch
    }

    /// Switches to another account or to none: removes the former user's data and keeps their unsent changes.
    private func become(_ user: String) {
        let isOther = account.withLock { account in
            guard account.user != user else { return false }
            storage.withLock { storage in
                account.others[account.user] = storage.unsentPart
                let state = storage.state
                storage = account.others.removeValue(forKey: user) ?? Storage()
                storage.state = state
            }
            account.user = user
            return true
        }
        if isOther, !user.isEmpty { retry() }
    }

    private func settle(_ sent: CKSyncEngine.Event.SentRecordZoneChanges) {
        storage.withLock { storage in
            for record in sent.savedRecords { storage.saved(record) }
            for id in sent.deletedRecordIDs { storage.gone(id) }
        }
        for failure in sent.failedRecordSaves {
            let again = storage.withLock { $0.failed(failure.record, failure.error) }
            if again { ask(.saveRecord(failure.record.recordID)) }
        }
        for (id, error) in sent.failedRecordDeletes {
            storage.withLock { storage in
                if [.zoneNotFound, .unknownItem, .permissionFailure, .userDeletedZone].contains(error.code) {
                    storage.refused(id, error)
                }
            }
            if error.code == .batchRequestFailed { ask(.deleteRecord(id)) }
        }
    }
}
