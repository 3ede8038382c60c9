import Synchronization
import ZoneKit
import ZoneTesting

extension EngineSide {
    /// How a program's delegate reacts to its engine.
    struct Manner: Sendable {
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

    func perform(_ deed: Step.EngineDeed, _ zone: CKRecordZone.ID?, on device: TestDevice, _ clock: TestClock) {
        switch deed {
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
            manner.withLock { _ = $0.paused.insert(zone) }
        case .resume: resume(on: device)
        case .atomic(let isOn): manner.withLock { $0.isAtomic = isOn }
        case .dawdle(let milliseconds):
            let pause: @Sendable () async -> Void = { try? await clock.sleep(for: .milliseconds(milliseconds)) }
            manner.withLock { $0.pause = milliseconds > 0 ? pause : nil }
        case .endZone: end(zone)
        }
    }

    /// Resumes all zones and restores the default behavior.
    func resume(on device: TestDevice) {
        let wasPaused = manner.withLock { manner in
            defer { manner = Manner() }
            return !manner.paused.isEmpty
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
        Task(executorPreference: device.party) { [judge] in
            do {
                try await work(engine)
                judge.note("\(device.name)'s \(what) by hand done")
            } catch {
                judge.note("\(device.name)'s \(what) by hand failed: \((error as? CKError)?.code ?? .internalError)")
            }
        }
    }

    /// Sends changes, and checks that no change is still pending after success unless it was edited meanwhile.
    private func send(_ scope: CKSyncEngine.SendChangesOptions.Scope, on device: TestDevice) {
        act(on: device, "send") { [self] engine in
            let before = pending(scope, engine)
            try await engine.sendChanges(.init(scope: scope))
            guard self.engine.withLock({ $0 === engine }), manner.withLock(\.paused.isEmpty) else { return }
            let after = pending(scope, engine)
            for (id, values) in before where after[id] == values {
                judge.accuse("b", "\(device.name) reported success, but \(id.recordName) is still pending")
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
