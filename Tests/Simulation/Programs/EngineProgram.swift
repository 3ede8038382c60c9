import Synchronization
import ZoneKit
import ZoneTesting

/// An application with sync engines, one for its private database and one for its shared database.
///
/// Its storage is a value that survives restarts. An edit and its mark as changed are stored in one step, as in a
/// program that keeps both in one file. A new engine gets the marks as pending changes.
final class EngineProgram: Program, @unchecked Sendable {
    // Unchecked because of `device` and `instances`: only the simulation's thread accesses them, between two steps.

    private(set) var device: TestDevice
    private let userName: String
    let checker: Checker
    private var instances: [EngineInstance] = []

    init(_ device: TestDevice, userName: String, checker: Checker) {
        self.device = device
        self.userName = userName
        self.checker = checker
        instances = [
            EngineInstance(isShared: false, userName, checker), EngineInstance(isShared: true, userName, checker),
        ]
        begin(on: device)
    }

    func begin(on device: TestDevice) {
        self.device = device
        for instance in instances { instance.begin(on: device) }
    }

    /// Performs an explicit action of the user or the system on the engines.
    func perform(_ action: Step.EngineAction, on number: Int?, clock: TestClock) {
        let zone = number.map { self.zone($0) }
        for instance in zone.map({ [self.instance(of: $0)] }) ?? instances {
            instance.perform(action, zone, on: device, clock)
        }
    }

    private func instance(of zone: CKRecordZone.ID) -> EngineInstance {
        instances[zone.ownerName == CKCurrentUserDefaultName ? 0 : 1]
    }

    /// Zones 0 and 1 are the user's own; if a zone is shared with the user, it replaces zone 1.
    private func zone(_ number: Int) -> CKRecordZone.ID {
        if number == 1, let shared = instances[1].zones.first(where: { $0.zoneName == "Z0" }) { return shared }
        return CKRecordZone.ID(zoneName: "Z\(number)")
    }

    func edit(_ zone: Int, _ record: String, _ field: String, _ value: String) {
        let zone = self.zone(zone)
        instance(of: zone).edit(CKRecord.ID(recordName: record, zoneID: zone), field, value)
    }

    func delete(_ zone: Int, _ record: String) {
        let zone = self.zone(zone)
        instance(of: zone).delete(CKRecord.ID(recordName: record, zoneID: zone))
    }

    func saveState() { instances.forEach { $0.saveState() } }
    func restoreState() { instances.forEach { $0.restoreState() } }

    func retry() { instances.forEach { $0.retry() } }

    func localRecords() -> [ZoneName: [String: [String: String]]]? {
        instances.reduce(into: [:]) { $0.merge($1.localRecords) { $1 } }
    }

    func expected(from snapshot: StoreSnapshot) -> [ZoneName: [String: Version]] {
        let zones = snapshot.zones(of: userName, shared: false).union(snapshot.zones(of: userName, shared: true))
        return zones.reduce(into: [:]) { $0[$1] = snapshot.visible($1, to: userName) }
    }

    func unsent() -> [String] { instances.flatMap(\.unsent) }
}

/// One engine of an `EngineProgram`, with its storage.
final class EngineInstance: CKSyncEngineDelegate {
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
    let behavior = Mutex(DelegateBehavior())
    /// The listener of the current run; the events of earlier runs are not delivered.
    private let listener = Mutex<EngineEventForwarder?>(nil)
    let isShared: Bool
    /// The user of the stored data, and the unsent changes of other accounts of this device.
    private let account: Mutex<(user: String, others: [String: Storage])>
    /// A saved copy of both.
    private let copy = Mutex<(Storage, (user: String, others: [String: Storage]))?>(nil)
    let checker: Checker

    init(isShared: Bool, _ userName: String, _ checker: Checker) {
        self.isShared = isShared
        account = Mutex((userName, [:]))
        self.checker = checker
    }

    func saveState() {
        let now = (storage.withLock { $0 }, account.withLock { $0 })
        copy.withLock { $0 = now }
    }

    func restoreState() {
        guard let kept = copy.withLock({ $0 }) else { return }
        storage.withLock { $0 = kept.0 }
        account.withLock { $0 = kept.1 }
    }

    var zones: [CKRecordZone.ID] { storage.withLock { $0.zones } }

    func begin(on device: TestDevice) {
        let forwarder = EngineEventForwarder(self)
        listener.withLock { $0 = forwarder }
        let database = isShared ? device.sharedDatabase : device.privateDatabase
        let made = CKSyncEngine(
            .init(database: database, stateSerialization: storage.withLock { $0.state }, delegate: forwarder)
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
        checker.wrote(value, by: account.withLock { $0.user })
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

    var localRecords: [ZoneName: [String: [String: String]]] {
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
        case .sentRecordZoneChanges(let sent): changesSent(sent)
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let behavior = behavior.withLock { $0 }
        let pending = syncEngine.state.pendingRecordZoneChanges.filter {
            context.options.scope.contains($0) && !behavior.paused.contains($0.recordID.zoneID)
        }
        var batch = await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: pending) { id in
            self.storage.withLock { $0.record(id) }
        }
        batch?.atomicByZone = behavior.isAtomic
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

    private func changesSent(_ sent: CKSyncEngine.Event.SentRecordZoneChanges) {
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

extension EngineInstance {
    /// How a program's delegate reacts to its engine.
    struct DelegateBehavior: Sendable {
        /// Zones whose sync the user has switched off.
        var paused: Set<CKRecordZone.ID> = []
        /// Whether each zone's changes are sent atomically.
        var isAtomic = false
        /// A delay before each event is handled.
        var pause: (@Sendable () async -> Void)?

        /// Excludes paused zones from the requested options.
        func options(_ wanted: CKSyncEngine.FetchChangesOptions) -> CKSyncEngine.FetchChangesOptions {
            guard !paused.isEmpty else { return wanted }
            var options = wanted
            switch wanted.scope {
            case .zoneIDs(let zones): options.scope = .zoneIDs(zones.filter { !paused.contains($0) })
            case .allExcluding(let zones): options.scope = .allExcluding(zones + paused)
            case .all: options.scope = .allExcluding(Array(paused))
            }
            return options
        }
    }

    func perform(_ action: Step.EngineAction, _ zone: CKRecordZone.ID?, on device: TestDevice, _ clock: TestClock) {
        switch action {
        case .fetch:
            act(on: device, "fetch") { try await $0.fetchChanges(.init(scope: zone.map { .zoneIDs([$0]) } ?? .all)) }
        case .fetchOthers:
            act(on: device, "fetch of others") {
                try await $0.fetchChanges(.init(scope: .allExcluding(zone.map { [$0] } ?? [])))
            }
        case .send: send(zone.map { .zoneIDs([$0]) } ?? .all, on: device)
        case .sendOthers: send(.allExcluding(zone.map { [$0] } ?? []), on: device)
        case .sendRecord(let record):
            guard let zone else { return }
            send(.recordIDs([CKRecord.ID(recordName: "r\(record)", zoneID: zone)]), on: device)
        case .cancel: act(on: device, "cancelling") { await $0.cancelOperations() }
        case .renew: begin(on: device)
        case .pause:
            guard let zone else { return }
            behavior.withLock { _ = $0.paused.insert(zone) }
        case .resume: resume(on: device)
        case .atomic(let isOn): behavior.withLock { $0.isAtomic = isOn }
        case .delayEvents(let milliseconds):
            let pause: @Sendable () async -> Void = { try? await clock.sleep(for: .milliseconds(milliseconds)) }
            behavior.withLock { $0.pause = milliseconds > 0 ? pause : nil }
        case .endZone: end(zone)
        }
    }

    /// Resumes all zones and restores the default behavior.
    func resume(on device: TestDevice) {
        let wasPaused = behavior.withLock { behavior in
            defer { behavior = DelegateBehavior() }
            return !behavior.paused.isEmpty
        }
        guard wasPaused else { return }
        act(on: device, "fetch of what was paused") { try await $0.fetchChanges() }
        retry()
    }

    private func act(
        on device: TestDevice,
        _ what: String,
        _ work: @escaping @Sendable (CKSyncEngine) async throws -> Void
    ) {
        guard let engine = engine.withLock({ $0 }) else { return }
        Task(executorPreference: device.process) { [checker] in
            do {
                try await work(engine)
                checker.note("\(device.name)'s \(what) by hand done")
            } catch {
                checker.note("\(device.name)'s \(what) by hand failed: \((error as? CKError)?.code ?? .internalError)")
            }
        }
    }

    /// Sends changes, and checks that no change is still pending after success unless it was edited meanwhile.
    private func send(_ scope: CKSyncEngine.SendChangesOptions.Scope, on device: TestDevice) {
        act(on: device, "send") { [self] engine in
            let before = pending(scope, engine)
            try await engine.sendChanges(.init(scope: scope))
            guard self.engine.withLock({ $0 === engine }), behavior.withLock(\.paused.isEmpty) else { return }
            let after = pending(scope, engine)
            for (id, values) in before where after[id] == values {
                checker.reportViolation("b", "\(device.name) reported success, but \(id.recordName) is still pending")
            }
        }
    }

    /// The records that the engine has still to save, with their values.
    private func pending(
        _ scope: CKSyncEngine.SendChangesOptions.Scope,
        _ engine: CKSyncEngine
    ) -> [CKRecord.ID: [String: String]] {
        let saves = engine.state.pendingRecordZoneChanges.compactMap { change -> CKRecord.ID? in
            guard case .saveRecord(let id) = change, scope.contains(id) else { return nil }
            return id
        }
        return storage.withLock { storage in
            saves.filter { storage.changed[$0] != nil }.reduce(into: [:]) { $0[$1] = storage.fields[$1] ?? [:] }
        }
    }

    /// Deletes one of the user's own zones, and drops the pending changes of that zone.
    private func end(_ zone: CKRecordZone.ID?) {
        guard let zone, !isShared, let state = engine.withLock({ $0 })?.state else { return }
        let pending = state.pendingRecordZoneChanges.filter { $0.recordID.zoneID == zone }
        let isThere = storage.withLock { storage in
            guard storage.zones.contains(zone) else { return false }
            storage.forget(zone)
            storage.ending.insert(zone)
            return true
        }
        guard isThere else { return }
        state.remove(pendingRecordZoneChanges: pending)
        state.add(pendingDatabaseChanges: [.deleteZone(zone)])
    }
}

/// Forwards the events of one engine instance to its `EngineInstance`, during one run of the device.
final class EngineEventForwarder: CKSyncEngineDelegate {
    private let instance: EngineInstance
    private let isTold = Mutex(false)

    init(_ instance: EngineInstance) { self.instance = instance }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        let overlaps = isTold.withLock { isTold in
            defer { isTold = true }
            return isTold
        }
        if overlaps { instance.checker.reportViolation("b", "\(event) is delivered during another event") }
        await instance.behavior.withLock { $0.pause }?()
        await instance.handleEvent(event, syncEngine: syncEngine)
        isTold.withLock { $0 = false }
    }

    func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions { instance.behavior.withLock { $0.options(context.options) } }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        await instance.nextRecordZoneChangeBatch(context, syncEngine: syncEngine)
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

/// How an `EngineProgram` handles engine events: the merging that every application needs.
extension EngineInstance.Storage {
    /// The part that is kept when the device switches to another account.
    var unsentPart: EngineInstance.Storage {
        var part = EngineInstance.Storage()
        part.changed = changed
        part.deleted = deleted
        for (id, mine) in changed { part.fields[id] = fields[id]?.filter { mine.contains($0.key) } }
        part.wanted = Set(changed.keys.map(\.zoneID).filter { $0.ownerName == CKCurrentUserDefaultName })
        return part
    }

    mutating func found(_ zone: CKRecordZone.ID) {
        wanted.remove(zone)
        if !zones.contains(zone) { zones.append(zone) }
    }

    mutating func take(_ changes: CKSyncEngine.Event.FetchedDatabaseChanges) {
        for change in changes.modifications { found(change.zoneID) }
        for zone in changes.deletions.map(\.zoneID) { forget(zone) }
    }

    mutating func take(_ sent: CKSyncEngine.Event.SentDatabaseChanges) {
        for zone in sent.savedZones { found(zone.zoneID) }
        for zone in sent.deletedZoneIDs {
            ending.remove(zone)
            // Records of the zone may have been fetched meanwhile.
            forget(zone)
        }
        for (zone, error) in sent.failedZoneDeletes where error.code == .zoneNotFound {
            ending.remove(zone)
            forget(zone)
        }
    }

    mutating func forget(_ zone: CKRecordZone.ID) {
        zones.removeAll { $0 == zone }
        wanted.remove(zone)
        fields = fields.filter { $0.key.zoneID != zone }
        known = known.filter { $0.key.zoneID != zone }
        changed = changed.filter { $0.key.zoneID != zone }
        deleted = deleted.filter { $0.zoneID != zone }
    }

    mutating func take(_ changes: CKSyncEngine.Event.FetchedRecordZoneChanges) {
        for record in changes.modifications.map(\.record) where record.recordType == "Item" { merge(record) }
        for deletion in changes.deletions {
            known[deletion.recordID] = nil
            deleted.remove(deletion.recordID)
            // A record with local changes stays, and is created again.
            if changed[deletion.recordID] == nil { fields[deletion.recordID] = nil }
        }
    }

    /// Removes records that are missing from a complete listing of a zone, except those with unsent changes.
    mutating func sweep(_ zone: CKRecordZone.ID, _ listed: Set<CKRecord.ID>) {
        for id in known.keys.inOrder where id.zoneID == zone && !listed.contains(id) { known[id] = nil }
        for id in fields.keys.inOrder where id.zoneID == zone && !listed.contains(id) && changed[id] == nil {
            fields[id] = nil
        }
    }

    /// Merges a server record with the local changes, which win.
    private mutating func merge(_ record: CKRecord) {
        let id = record.recordID
        known[id] = record
        guard !deleted.contains(id) else { return }
        let mine = changed[id] ?? []
        var merged: [String: String] = [:]
        for key in record.allKeys() where !mine.contains(key) { merged[key] = record[key] }
        for key in mine { merged[key] = fields[id]?[key] }
        fields[id] = merged
    }

    /// The record to send.
    mutating func record(_ id: CKRecord.ID) -> CKRecord? {
        guard let values = fields[id], let mine = changed[id] else { return nil }
        sent[id] = values
        guard let record = known[id]?.copy() as? CKRecord else {
            let record = CKRecord(recordType: "Item", recordID: id)
            for (key, value) in values.sorted(by: { $0.key < $1.key }) { record[key] = value }
            return record
        }
        for key in mine.sorted() { record[key] = values[key] }
        return record
    }

    mutating func saved(_ record: CKRecord) {
        let id = record.recordID
        known[id] = record
        guard let mine = changed[id] else { return }
        // A field that was edited again meanwhile must be sent again.
        let left = mine.filter { sent[id]?[$0] != fields[id]?[$0] }
        changed[id] = left.isEmpty ? nil : left
        if left.isEmpty { merge(record) }
    }

    mutating func gone(_ id: CKRecord.ID) {
        known[id] = nil
        deleted.remove(id)
    }

    /// Handles a deletion that the relay rejected, or whose zone is gone.
    mutating func refused(_ id: CKRecord.ID, _ error: CKError) {
        deleted.remove(id)
        if error.code == .permissionFailure, let server = known[id], fields[id] == nil { merge(server) }
    }

    /// Handles a rejected save; returns `true` if it should be retried at once.
    mutating func failed(_ record: CKRecord, _ error: CKError) -> Bool {
        let id = record.recordID
        switch error.code {
        case .serverRecordChanged:
            if let server = error.serverRecord { merge(server) }
            return changed[id] != nil
        case .unknownItem:
            known[id] = nil
            return changed[id] != nil
        case .batchRequestFailed: return changed[id] != nil
        case .permissionFailure, .zoneNotFound, .userDeletedZone:
            // The user may not change the record, or no longer.
            changed[id] = nil
            fields[id] = nil
            if let server = known[id], error.code == .permissionFailure { merge(server) }
            return false
        // An exceeded quota, and errors after which the engine retries automatically.
        default: return false
        }
    }
}
