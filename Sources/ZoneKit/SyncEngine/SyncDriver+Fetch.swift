import Records
import SyncCore

extension SyncDriver {
    /// The errors of a round, and the user for whom it runs.
    struct FetchProgress: FetchRoundProgress {
        let epoch: Int
        var errors: [ZoneID?: CKError] = [:]
    }

    func fetchChanges(asksDatabase: Bool, backingOff: Set<ZoneID>) async throws {
        let context = CKSyncEngine.FetchChangesContext(reason: .scheduled, options: .init())
        try await fetch(context, asksDatabase: asksDatabase, backingOff: backingOff)
    }

    func fetchNow(_ options: CKSyncEngine.FetchChangesOptions, for engine: CKSyncEngine) async throws {
        try requireOutsideOfDelegate("fetchChanges")
        adopt(engine)
        try await checkAccount()
        let context = CKSyncEngine.FetchChangesContext(reason: .manual, options: options)
        try await fetch(context, asksDatabase: true, backingOff: [])
    }

    /// Runs one round of fetching and delivers its events.
    ///
    /// Throws the error that stopped the round, or the errors of single zones.
    private func fetch(
        _ context: CKSyncEngine.FetchChangesContext,
        asksDatabase: Bool,
        backingOff: Set<ZoneID>
    ) async throws {
        try await inLane(.fetching) {
            handle(.fetchBegan)
            let epoch = runner.accountEpoch
            await deliver(.willFetchChanges(.init(context: context)))
            let options = await ask { await $0.nextFetchChangesOptions(context, syncEngine: $1) } ?? context.options
            let round = FetchRound(
                asksDatabase: asksDatabase,
                scope: options.scope.zones,
                prioritized: options.prioritizedZoneIDs.map(\.zone),
                backingOff: backingOff
            )
            var progress = FetchProgress(epoch: epoch)
            var outcome = FetchRound.Outcome()
            if isCurrent(progress) { outcome = await run(round, &progress) }
            await saveState()
            await deliver(.didFetchChanges(.init(context: context)))
            handle(.fetchFinished(outcome))
            // Report a delay that the relay requested before the caller continues.
            await saveState()
            // Nothing has been fetched for the new user yet.
            if epoch != runner.accountEpoch { handle(.noticed(nil)) }
            try Self.throwFailure(outcome, progress.errors)
            try requireSameUser(since: epoch)
        }
    }

    func isCurrent(_ progress: FetchProgress) -> Bool { progress.epoch == runner.accountEpoch }

    func zoneBegins(_ zone: ZoneID, _ progress: FetchProgress) async {
        await deliver(.willFetchRecordZoneChanges(.init(zoneID: CKRecordZone.ID(zone))), of: progress.epoch)
    }

    func listingBegins(_ zone: ZoneID) { state.update { $0.listings[zone] = [] } }

    func zoneEnded(_ zone: ZoneID, _ syncFailure: SyncFailure?, _ progress: FetchProgress) async {
        let error = syncFailure.map { progress.errors[zone] ?? CKError($0) }
        let listed = syncFailure == nil ? state.read { $0.listings[zone] } : nil
        if let listed { await reportMissingRecords(in: zone, from: listed, progress.epoch) }
        let ids = listed.map { Set($0.map { CKRecord.ID(RecordID($0, in: zone)) }) }
        let end = CKSyncEngine.Event.DidFetchRecordZoneChanges(
            zoneID: CKRecordZone.ID(zone),
            error: error,
            listedRecordIDs: ids
        )
        await deliver(.didFetchRecordZoneChanges(end), of: progress.epoch)
        // Clear the listing only after the event: if the app is killed before, the event is delivered after the next
        // start.
        guard isCurrent(progress), listed != nil || syncFailure?.kind == .zoneNotFound else { return }
        state.update { $0.zoneListed(zone, listed) }
    }

    /// Reports deletions, which a listing cannot contain.
    private func reportMissingRecords(in zone: ZoneID, from listed: Set<String>, _ epoch: Int) async {
        let deletions = state.read { $0.missing(in: zone, from: listed) }
        guard !deletions.isEmpty else { return }
        await deliver(.fetchedRecordZoneChanges(.init(modifications: [], deletions: deletions)), of: epoch)
    }

    func databasePage(since token: SyncToken?) async throws -> DatabasePage {
        let database = database
        return try await cancellable(.fetching) { try await database.databasePage(since: token) }
    }

    func zonePage(_ zone: ZoneID, since token: SyncToken?) async -> Result<ZonePage<CKRecord>, CKError> {
        let (database, state) = (database, state)
        do {
            let page = try await cancellable(.fetching) {
                try await database.zonePage(
                    in: zone,
                    since: token,
                    hasUnreadableValues: state.read { $0.unreadable.contains(zone) }
                )
            }
            return .success(page)
        } catch {
            return .failure(CKError(from: error))
        }
    }

    func answerApplied() async { await saveStateAfterPage() }

    func knownZones() -> Set<ZoneID> { state.read { Set($0.unheard.types.keys) } }

    /// Delivers the changes to the app; the state gets the new token afterwards.
    func apply(_ page: DatabasePage, returned: Set<ZoneID>, _ progress: inout FetchProgress) async {
        let lost = page.deleted.map(\.zone)
        if !lost.isEmpty {
            state.update { contents in
                lost.forEach { contents.unheard.forget($0) }
                contents.unreadable.subtract(lost)
            }
        }
        await zonesReturned(returned, progress.epoch)
        await deliverZones(changed: page.changed, deleted: page.deleted, progress.epoch)
    }

    /// Delivers the changes to the app and then stores the new token.
    func apply(
        _ answer: Result<ZonePage<CKRecord>, CKError>,
        of zone: ZoneID,
        _ progress: inout FetchProgress
    ) async -> [FetchRound.Effect] {
        switch answer {
        case .success(let page):
            await beforeDelivery(of: page, in: zone)
            if !page.changed.isEmpty || !page.deleted.isEmpty {
                await deliver(.fetchedRecordZoneChanges(.init(page)), of: progress.epoch)
            }
            guard isCurrent(progress) else { return [] }
            note(page, in: zone)
            let failure = note(page.failures, of: zone, &progress.errors)
            return advance(.zonePage(zone, token: page.token, moreComing: page.moreComing, failure: failure))
        case .failure(let error):
            progress.errors[zone] = error
            if let reason = error.formerZone {
                await zoneEnded(zone, reason, progress.epoch)
                // An app that lists its zones has now removed the new zone of the same name too, so report it as
                // changed.
                await deliverZones(changed: [zone], progress.epoch)
                guard isCurrent(progress) else { return [] }
            }
            // Only the user knows whether the key was reset or this device has the wrong key, so nothing is deleted.
            return advance(.zoneFailed(zone, error.reportsKeyReset ? SyncFailure(.refused) : error.syncFailure))
        }
    }

    /// Reports that a zone was deleted before a new zone of the same name was created; the app's data belong to the old
    /// one.
    ///
    /// The database's feed contains only the new zone.
    private func zoneEnded(_ zone: ZoneID, _ reason: ZoneDeletionReason, _ epoch: Int) async {
        state.update { $0.unheard.forget(zone) }
        await deliverZones(deleted: [(zone, reason)], epoch)
    }

    /// Reports the deletion of zones that were missing at the last request and exist again, because the feed does not
    /// report it.
    private func zonesReturned(_ zones: Set<ZoneID>, _ epoch: Int) async {
        for zone in zones.sorted(by: { $0.description < $1.description }) {
            await lock(of: zone).enter()
            lock(of: zone).leave()
            await zoneEnded(zone, .deleted, epoch)
        }
    }

    private func deliverZones(
        changed: [ZoneID] = [],
        deleted: [(zone: ZoneID, reason: ZoneDeletionReason)] = [],
        _ epoch: Int
    ) async {
        guard !changed.isEmpty || !deleted.isEmpty else { return }
        if !deleted.isEmpty { state.update { $0.zonesRemoved(deleted.map(\.zone)) } }
        await deliver(.fetchedDatabaseChanges(.init(changed: changed, deleted: deleted)), of: epoch)
    }

    /// Adds errors of single records to the error that the zone's fetch reports at its end.
    private func note(
        _ failures: [(id: RecordID, error: any Error)],
        of zone: ZoneID,
        _ errors: inout [ZoneID?: CKError]
    ) -> SyncFailure? {
        guard !failures.isEmpty else { return nil }
        var items = errors[zone]?.partialErrorsByItemID ?? [:]
        for (id, error) in failures { items[CKRecord.ID(id)] = error }
        errors[zone] = CKError.partialFailure(items)
        // The zone is fetched again later; other zones do not wait for it.
        return SyncFailure(
            .refused,
            retryAfter: failures.compactMap { CKError(from: $0.error).syncFailure.retryAfter }.max()
        )
    }

    /// Stores which records a page contained, and whether it could be decrypted.
    private func note(_ page: ZonePage<CKRecord>, in zone: ZoneID) {
        state.update { contents in
            switch page.isReadable {
            case true?: contents.unreadable.remove(zone)
            case false?: contents.unreadable.insert(zone)
            case nil: break
            }
            contents.pageDelivered(page, of: zone)
        }
    }

    /// Deletes a zone whose encrypted values can no longer be read.
    ///
    /// The app then uploads its local records again.
    func resetEncryptedData(in zone: ZoneID) async throws {
        // This method waits for the page that is being delivered and then delivers an event itself.
        try requireOutsideOfDelegate("resetEncryptedData")
        try await checkAccount()
        let epoch = runner.accountEpoch
        let database = database
        do {
            await lock(of: zone).enter()
            defer { lock(of: zone).leave() }
            try await cancellable {
                try await database.end(CKRecordZone.ID(zone), because: .encryptedDataReset)
            }
            if epoch == runner.accountEpoch { state.update { $0.zonesDeleted([CKRecordZone.ID(zone)]) } }
        }
        await zoneEnded(zone, .encryptedDataReset, epoch)
    }

    private static func throwFailure(_ outcome: FetchRound.Outcome, _ errors: [ZoneID?: CKError]) throws {
        let failed = outcome.failedZones
        if let syncFailure = outcome.syncFailure {
            throw errors[nil] ?? failed.compactMap { errors[$0] }.first ?? CKError(syncFailure)
        }
        guard !failed.isEmpty else { return }
        var items: [AnyHashable: any Error] = [:]
        for zone in failed {
            items[CKRecordZone.ID(zone)] = errors[zone] ?? outcome.zoneFailures[zone].map { CKError($0) }
        }
        throw CKError.partialFailure(items)
    }
}
