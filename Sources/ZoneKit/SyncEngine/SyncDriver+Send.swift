import Records
import SyncCore
import Synchronization

extension SyncDriver {
    func sendChanges(backingOff: Set<ZoneID>) async throws {
        let context = CKSyncEngine.SendChangesContext(reason: .scheduled, options: .init())
        try await send(context, backingOff: backingOff)
    }

    func sendNow(_ options: CKSyncEngine.SendChangesOptions, for engine: CKSyncEngine) async throws {
        try requireOutsideOfDelegate("sendChanges")
        adopt(engine)
        try await checkAccount()
        try await send(CKSyncEngine.SendChangesContext(reason: .manual, options: options), backingOff: [])
    }

    private func send(_ context: CKSyncEngine.SendChangesContext, backingOff: Set<ZoneID>) async throws {
        try await inLane(.sending) {
            var progress = SendProgress(context: context, epoch: runner.accountEpoch)
            progress.busyZones = backingOff
            await sendRound(&progress)
            if let error = progress.error { throw error }
            if !progress.failures.isEmpty { throw CKError.partialFailure(progress.failures) }
            try requireSameUser(since: progress.epoch)
        }
    }

    /// Sends the changes and delivers the events.
    func send(_ progress: inout SendProgress) async {
        let (context, epoch) = (progress.context, progress.epoch)
        let included = context.leavingOut(progress.busyZones)
        await deliver(.willSendChanges(.init(context: included)))
        await sendZones(included, &progress, epoch)
        while progress.error == nil, epoch == runner.accountEpoch {
            guard !Task.isCancelled, !isRoundCancelled(.sending) else {
                // The remaining changes were not examined, so the round must not count as successful.
                progress.retryLater(CKError(.operationCancelled))
                break
            }
            let requestedRevision = state.read(\.revision)
            guard await sendBatch(context.leavingOut(progress.busyZones), &progress, epoch) else {
                progress.exhaustedAtRevision = requestedRevision
                break
            }
            await saveState()
        }
        await saveState()
        await deliver(.didSendChanges(.init(context: included)))
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

    /// Sends the app's next batch.
    ///
    /// Returns `false` if there is none.
    private func sendBatch(
        _ context: CKSyncEngine.SendChangesContext,
        _ progress: inout SendProgress,
        _ epoch: Int
    ) async -> Bool {
        // Read before the app reads its data: a later edit has a newer version and stays pending.
        let version = state.read(\.outbox.version)
        guard let batch = await ask({ await $0.nextRecordZoneChangeBatch(context, syncEngine: $1) }) else {
            return false
        }
        let offered = BatchItem.items(of: batch)
        let items = progress.itemsToSend(offered, of: state.read { $0 })
        guard !items.isEmpty, epoch == runner.accountEpoch else { return false }
        var answer = SentBatch()
        var entered: [AsyncLock] = []
        for zone in items.uniqueZones where progress.error == nil {
            let lock = lock(of: zone)
            await lock.enter()
            entered.append(lock)
            guard epoch == runner.accountEpoch else { break }
            let part = items.filter { $0.id.zone == zone }
            await send(part, atomically: batch.atomicByZone, into: &answer, &progress)
        }
        defer { entered.forEach { $0.leave() } }
        guard epoch == runner.accountEpoch else { return false }
        applyResult(answer, version, &progress)
        state.update { $0.changesSent(answer.event) }
        await deliver(.sentRecordZoneChanges(answer.event), of: epoch)
        eventDelivered(epoch)
        return true
    }

    /// Sends one zone's part of a batch, in as many requests as the limits require.
    private func send(
        _ items: [BatchItem],
        atomically: Bool,
        into answer: inout SentBatch,
        _ progress: inout SendProgress
    ) async {
        // Atomic changes go into one request, if the relay accepts that many.
        let isWhole = atomically && items.count <= ZoneChunk<BatchItem>.atomicLimit
        await sendRequests(isWhole ? [items] : runner.limits.requests(of: items), split: { $0.requests(of: $1) }) {
            do {
                answer.addResults($0, try await modify($0, atomically: atomically))
                runner.limits.accepted()
            } catch {
                let error = CKError(from: error)
                if error.code == .limitExceeded, $0.count > 1 {
                    runner.limits.exceeded(by: $0.count)
                    return $0
                }
                answer.fail($0, error)
                if error.isServiceFailure { progress.recordsStayPending.formUnion($0.map(\.id)) }
                if error.syncFailure.isRetriedAutomatically || error.isServiceFailure {
                    progress.retryLater(error, in: $0.first?.id.zone)
                    return nil
                }
            }
            return []
        }
    }

    private func modify(_ request: [BatchItem], atomically: Bool) async throws -> ModifyOutcome {
        let database = database
        let saves = request.compactMap(\.record)
        let deletes = request.filter { $0.record == nil }.map(\.id)
        return try await cancellable(.sending) {
            try await database.send(saving: saves, deleting: deletes, atomically: atomically)
        }
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

/// One change in a batch.
struct BatchItem: Sendable {
    var id: RecordID
    /// `nil` for a deletion.
    var record: CKRecord?
    var size: Int

    static func items(of batch: CKSyncEngine.RecordZoneChangeBatch) -> [BatchItem] {
        batch.recordsToSave.map { BatchItem(id: $0.recordID.record, record: $0, size: $0.sizeToSend) }
            + batch.recordIDsToDelete.map { BatchItem(id: $0.record, record: nil, size: $0.recordName.utf8.count + 60) }
    }
}

extension [BatchItem] {
    /// The zones of the items, in the order of their first occurrence.
    var uniqueZones: [ZoneID] {
        var seen: Set<ZoneID> = []
        return map(\.id.zone).filter { seen.insert($0).inserted }
    }

    /// Returns the items in an order in which each item follows the items it refers to.
    fileprivate func inDependencyOrder() -> [BatchItem] {
        let saves = filter { $0.record != nil }
        let places = Dictionary(saves.map { ($0.id, $0) }) { first, _ in first }
        guard places.count == saves.count else { return self }
        let order = ModifyItem.items(
            saving: saves.compactMap(\.record).map(Draft.init),
            deleting: [],
            .ifServerRecordUnchanged
        )
        return order.inDependencyOrder().compactMap { places[$0.id.record] } + filter { $0.record == nil }
    }
}

extension BatchLimits {
    /// Splits one zone's changes into requests.
    ///
    /// Within a request the relay accepts changes in any order. If there are several requests, parents and shared
    /// records must be sent before the records that refer to them.
    func requests(of items: [BatchItem]) -> [[BatchItem]] {
        let requests = split(items, size: \.size)
        return requests.count > 1 ? split(items.inDependencyOrder(), size: \.size) : requests
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
