import Records
import SyncCore
import Synchronization

extension SyncDriver {
    static var scheduledSend: CKSyncEngine.SendChangesContext { .init(reason: .scheduled, options: .init()) }

    func sendNow(_ options: CKSyncEngine.SendChangesOptions, for engine: CKSyncEngine) async throws {
        try requireOutsideOfDelegate("sendChanges")
        adopt(engine)
        try await checkAccount()
        try await send(CKSyncEngine.SendChangesContext(reason: .manual, options: options))
    }

    func sendProgress(_ context: CKSyncEngine.SendChangesContext) -> SendProgress {
        SendProgress(context: context, epoch: runner.accountEpoch)
    }

    /// Reports the begin of the round and sends the zones.
    func passBegins(_ progress: inout SendProgress) async {
        progress.included = progress.context.leavingOut(progress.busyZones)
        await deliver(.willSendChanges(.init(context: progress.included)))
        await sendZones(progress.included, &progress, progress.epoch)
    }

    func sendEnds(_ progress: inout SendProgress) async {
        let (context, epoch) = (progress.context, progress.epoch)
        await saveState()
        await deliver(.didSendChanges(.init(context: progress.included)))
        if epoch != runner.accountEpoch || context.options.scope != .all { progress.exhaustedAtRevision = nil }
        // If the app provides no batch although changes are pending, ask it again after the next change and not in a
        // loop.
        let (hasPending, revision) = state.read { ($0.hasPending, $0.revision) }
        let hasNoMore =
            progress.error == nil && progress.exhaustedAtRevision == revision && !progress.outcome.hadRejections
        // The app was not asked for changes in busy zones.
        progress.outcome.onlyZonesBackingOffRemain = hasNoMore && !progress.busyZones.isEmpty
        handle(.outboxChanged(isEmpty: !hasPending || (hasNoMore && progress.busyZones.isEmpty)))
    }

    /// The app may exit as soon as the round returns, so this reports a delay that the relay requested before.
    func sendEnded(_ progress: SendProgress) async { await saveState() }

    // MARK: Zones

    private func sendZones(_ context: CKSyncEngine.SendChangesContext, _ progress: inout SendProgress, _ epoch: Int)
        async
    {
        guard epoch == runner.accountEpoch else { return }
        let entries = state.read(\.zones.versioned).filter { context.options.scope.contains($0.change.zoneID) }
        guard !entries.isEmpty else { return }
        var saves: [CKRecordZone] = []
        var deletes: [CKRecordZone.ID] = []
        for entry in entries {
            switch entry.change {
            case .saveZone(let zone): saves.append(zone)
            case .deleteZone(let id): deletes.append(id)
            }
        }
        await runner.zoneListLock.enter()
        defer { runner.zoneListLock.leave() }
        // A page that is being fetched belongs to a zone that is about to be deleted.
        let ending = deletes.map { lock(of: $0.zone) }
        for lock in ending { await lock.enter() }
        defer { ending.forEach { $0.leave() } }
        guard epoch == runner.accountEpoch else { return }
        let answer = await modifyZones(saves, deletes, &progress)
        // The previous user's result is reported when that user signs in again and the change is sent again.
        guard epoch == runner.accountEpoch else { return }
        var saved: [CKRecordZone] = []
        var failedSaves: [CKSyncEngine.Event.SentDatabaseChanges.FailedZoneSave] = []
        var deleted: [CKRecordZone.ID] = []
        var failedDeletes: [CKRecordZone.ID: CKError] = [:]
        for entry in entries {
            let id = entry.change.zoneID
            var error: CKError?
            switch entry.change {
            case .saveZone(let zone):
                switch answer.saveResults[id] ?? .failure(CKError(.internalError)) {
                case .success(let zone): saved.append(zone)
                case .failure(let failure):
                    error = CKError(from: failure)
                    failedSaves.append(.init(zone: zone, error: CKError(from: failure)))
                }
            case .deleteZone:
                do {
                    try answer.deleteResults[id]?.get()
                    deleted.append(id)
                } catch let failure {
                    error = CKError(from: failure)
                    failedDeletes[id] = error
                }
            }
            applyResult(id, version: entry.version, error, &progress)
        }
        let (made, ended) = (saved, deleted)
        state.update { contents in
            contents.zonesCreated(made)
            contents.zonesDeleted(ended)
        }
        await deliver(
            .sentDatabaseChanges(
                .init(
                    savedZones: saved,
                    failedZoneSaves: failedSaves,
                    deletedZoneIDs: deleted,
                    failedZoneDeletes: failedDeletes
                )
            ),
            of: epoch
        )
        eventDelivered(epoch)
        await saveState()
    }

    /// Called when the app has received the event about the last request.
    private func eventDelivered(_ epoch: Int) {
        // The state of another user contains nothing about that request.
        if epoch == runner.accountEpoch { state.update { $0.unreported = UnreportedChanges() } }
    }

    private func modifyZones(
        _ saves: [CKRecordZone],
        _ deletes: [CKRecordZone.ID],
        _ progress: inout SendProgress
    ) async -> (
        saveResults: [CKRecordZone.ID: Result<CKRecordZone, any Error>],
        deleteResults: [CKRecordZone.ID: Result<Void, any Error>]
    ) {
        let database = database
        do {
            return try await cancellable(.sending) {
                try await database.modifyRecordZones(saving: saves, deleting: deletes)
            }
        } catch {
            progress.zonesStayPending = CKError(from: error).isServiceFailure
            let saved = saves.map { ($0.zoneID, Result<CKRecordZone, any Error>.failure(error)) }
            let deleted = deletes.map { ($0, Result<Void, any Error>.failure(error)) }
            return (
                Dictionary(saved, uniquingKeysWith: { $1 }), Dictionary(deleted, uniquingKeysWith: { $1 })
            )
        }
    }

    private func applyResult(_ id: CKRecordZone.ID, version: UInt64, _ error: CKError?, _ progress: inout SendProgress)
    {
        if let error {
            progress.failures[id] = error
            guard !error.syncFailure.isRetriedAutomatically, !progress.zonesStayPending else {
                return progress.retryLater(error, in: id.zone)
            }
            progress.outcome.hadRejections = true
        } else {
            progress.outcome.madeProgress = true
            progress.changedZones.insert(id.zone)
        }
        state.update { $0.confirmed(id, version: version) }
    }

    // MARK: Records

    /// Asks the app for its next batch.
    func pendingBatch(_ progress: inout SendProgress) async -> EngineBatch? {
        // Read before the app reads its data: a later edit has a newer version and stays pending.
        let (version, revision) = state.read { ($0.outbox.version, $0.revision) }
        let context = progress.context.leavingOut(progress.busyZones)
        if let batch = await ask({ await $0.nextRecordZoneChangeBatch(context, syncEngine: $1) }) {
            let items = progress.itemsToSend(BatchItem.items(of: batch), of: state.read { $0 })
            progress.sent = SentBatch()
            if !items.isEmpty { return EngineBatch(items: items, isAtomic: batch.atomicByZone, version: version) }
        }
        progress.exhaustedAtRevision = revision
        return nil
    }

    func request(
        for items: [BatchItem],
        of batch: EngineBatch,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) -> EngineRequest? { EngineRequest(items: items, isAtomic: batch.isAtomic) }

    func answer(to request: EngineRequest, in zone: ZoneID, _ progress: SendProgress) async throws -> ModifyOutcome {
        let database = database
        let saves = request.items.compactMap(\.record)
        let deletes = request.items.filter { $0.record == nil }.map(\.id)
        return try await cancellable(.sending) {
            try await database.send(saving: saves, deleting: deletes, atomically: request.isAtomic)
        }
    }

    func settle(_ request: EngineRequest, _ answer: ModifyOutcome, in _: ZoneID, _ progress: inout SendProgress)
        -> [BatchItem]
    {
        progress.sent.addResults(request.items, answer)
        return []
    }

    func settle(
        _ request: EngineRequest,
        _ error: CKError,
        _ decision: WriteAttempts.Decision,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) -> [BatchItem] {
        guard decision != .split else { return [] }
        progress.sent.fail(request.items, error)
        if decision == .keep {
            progress.recordsStayPending.formUnion(request.items.map(\.id))
            progress.retryLater(error, in: zone)
        }
        return []
    }

    /// Reports the results of a batch to the app.
    func settle(_ batch: EngineBatch, _ progress: inout SendProgress) async {
        let sent = progress.sent
        applyResult(sent, batch.version, &progress)
        state.update { $0.changesSent(sent.event) }
        await deliver(.sentRecordZoneChanges(sent.event), of: progress.epoch)
        eventDelivered(progress.epoch)
        await saveState()
    }

    private func applyResult(_ answer: SentBatch, _ version: UInt64, _ progress: inout SendProgress) {
        for (id, error) in answer.results {
            if let error {
                progress.failedRecords.insert(id)
                progress.failures[CKRecord.ID(id)] = error
                if error.syncFailure.isRetriedAutomatically || progress.recordsStayPending.contains(id) {
                    progress.retryLater(error, in: id.zone)
                    continue
                }
                progress.outcome.hadRejections = true
            } else {
                progress.outcome.madeProgress = true
                progress.sentRecords.insert(id)
                progress.changedZones.insert(id.zone)
            }
            state.update { $0.confirmed(id, version: version) }
        }
    }
}

extension SyncDriver {
    /// The results of one round of sending.
    struct SendProgress: SendRoundProgress {
        let context: CKSyncEngine.SendChangesContext
        let epoch: Int
        /// The context without the zones that are backing off.
        var included: CKSyncEngine.SendChangesContext
        /// The results of the current batch.
        var sent = SentBatch()
        var outcome = SyncSchedule.SendOutcome()
        var error: CKError?
        var failures: [AnyHashable: any Error] = [:]
        /// Records that failed in this round and are not sent again in it, even if the app adds them again at once.
        var failedRecords: Set<RecordID> = []
        /// Records that the relay has accepted in this round.
        var sentRecords: Set<RecordID> = []
        /// A hash of each record's last content while the app had untracked changes.
        private(set) var editHashes: [RecordID: Int] = [:]
        /// Records whose requests never reached a decision of the relay; they stay pending.
        var recordsStayPending: Set<RecordID> = []
        var zonesStayPending = false
        var busyZones: Set<ZoneID> = []
        var busy: CKError?
        var changedZones: Set<ZoneID> = []
        /// The revision of the state at which the app was asked for all changes and had none left.
        var exhaustedAtRevision: UInt64?

        init(context: CKSyncEngine.SendChangesContext, epoch: Int) {
            (self.context, self.epoch, included) = (context, epoch, context)
        }

        var failure: CKError? { error ?? (failures.isEmpty ? nil : CKError.partialFailure(failures)) }

        /// Returns the items to send, without those that must not be sent in this round.
        ///
        /// A record that the relay has accepted in this round is sent again only if it is pending again, or if the app
        /// has untracked changes and its content differs from the last one. Otherwise an app that always returns the
        /// same batch would never let the round end.
        mutating func itemsToSend(_ items: [BatchItem], of contents: CKSyncEngine.State.Contents) -> [BatchItem] {
            items.filter { item in
                guard !failedRecords.contains(item.id), !busyZones.contains(item.id.zone) else { return false }
                let isChanged = contents.isUntracked && isChanged(item)
                return !sentRecords.contains(item.id) || contents.outbox[item.id] != nil || isChanged
            }
        }

        /// Returns whether the item's content differs from the last one with the same ID.
        private mutating func isChanged(_ item: BatchItem) -> Bool {
            let hash = item.record?.editsHash ?? 0
            defer { editHashes[item.id] = hash }
            return editHashes[item.id] != hash
        }
    }
}

extension CKRecord {
    /// A hash of the record's changes; equal for equal changes of equal values.
    fileprivate var editsHash: Int {
        var hasher = Hasher()
        state.withLock { state in
            for (key, edit) in state.edits.sorted(by: { $0.key < $1.key }) {
                hasher.combine(key)
                hasher.combine(edit.original)
                hasher.combine(state.fields[key])
                for asset in state.assets[key] ?? [] { hasher.combine(asset.ownFile) }
            }
            for (key, edit) in (state.secrets?.edits ?? [:]).sorted(by: { $0.key < $1.key }) {
                hasher.combine(key)
                hasher.combine(edit.value)
            }
            if state.parentEdit != nil { hasher.combine(state.parent) }
        }
        guard let share = self as? CKShare else { return hasher.finalize() }
        hasher.combine(share.publicPermission)
        for participant in share.participants {
            hasher.combine(participant.participantID)
            hasher.combine(participant.permission)
            hasher.combine(participant.role)
        }
        return hasher.finalize()
    }
}

/// The app's next changes.
struct EngineBatch: SendBatch {
    var items: [BatchItem]
    var isAtomic: Bool
    var isReportedAsWhole: Bool { true }
    /// The outbox's version before the app read its data.
    var version: UInt64
}

/// A request with changes of one zone.
struct EngineRequest: SendRequest {
    var items: [BatchItem]
    var isAtomic: Bool
    var attempts = WriteAttempts()
}

/// One change in a batch.
struct BatchItem: SendItem {
    var id: RecordID
    /// `nil` for a deletion.
    var record: CKRecord?
    var size: Int

    var zone: ZoneID { id.zone }

    static func items(of batch: CKSyncEngine.RecordZoneChangeBatch) -> [BatchItem] {
        batch.recordsToSave.map { BatchItem(id: $0.recordID.record, record: $0, size: $0.sizeToSend) }
            + batch.recordIDsToDelete.map { BatchItem(id: $0.record, record: nil, size: $0.recordName.utf8.count + 60) }
    }

    static func inDependencyOrder(_ items: [BatchItem]) -> [BatchItem] {
        let saves = items.filter { $0.record != nil }
        let places = Dictionary(saves.map { ($0.id, $0) }) { first, _ in first }
        guard places.count == saves.count else { return items }
        let order = ModifyItem.items(
            saving: saves.compactMap(\.record).map(Draft.init),
            deleting: [],
            .ifServerRecordUnchanged
        )
        return order.inDependencyOrder().compactMap { places[$0.id.record] } + items.filter { $0.record == nil }
    }
}

/// The result of a batch, collected from the results of its requests.
struct SentBatch {
    private(set) var results: [(id: RecordID, error: CKError?)] = []
    private var saved: [CKRecord] = []
    private var failedSaves: [CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave] = []
    private var deleted: [CKRecord.ID] = []
    private var failedDeletes: [CKRecord.ID: CKError] = [:]

    var event: CKSyncEngine.Event.SentRecordZoneChanges {
        .init(
            savedRecords: saved,
            failedRecordSaves: failedSaves,
            deletedRecordIDs: deleted,
            failedRecordDeletes: failedDeletes
        )
    }

    mutating func addResults(_ request: [BatchItem], _ answer: ModifyOutcome) {
        for item in request {
            if let record = item.record {
                switch answer.saveResults[record.recordID] ?? .failure(CKError(.internalError)) {
                case .success(let record):
                    saved.append(record)
                    results.append((item.id, nil))
                case .failure(let error): fail(item, record, CKError(from: error))
                }
            } else {
                switch answer.deleteResults[CKRecord.ID(item.id)] ?? .success(()) {
                case .success:
                    deleted.append(CKRecord.ID(item.id))
                    results.append((item.id, nil))
                case .failure(let error): fail(item, nil, CKError(from: error))
                }
            }
        }
    }

    mutating func fail(_ request: [BatchItem], _ error: CKError) {
        for item in request { fail(item, item.record, error) }
    }

    private mutating func fail(_ item: BatchItem, _ record: CKRecord?, _ error: CKError) {
        results.append((item.id, error))
        if let record {
            failedSaves.append(.init(record: record, error: error))
        } else {
            failedDeletes[CKRecord.ID(item.id)] = error
        }
    }
}
