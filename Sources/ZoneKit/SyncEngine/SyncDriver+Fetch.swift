import Records
import SyncCore

extension SyncDriver {
    /// The errors of a round, and why it fetches.
    struct FetchProgress: FetchRoundProgress {
        let context: CKSyncEngine.FetchChangesContext
        let epoch: Int
        var errors: [ZoneID?: CKError] = [:]
    }

    static var scheduledFetch: CKSyncEngine.FetchChangesContext { .init(reason: .scheduled, options: .init()) }

    func fetchNow(_ options: CKSyncEngine.FetchChangesOptions, for engine: CKSyncEngine) async throws {
        try requireOutsideOfDelegate("fetchChanges")
        adopt(engine)
        try await checkAccount()
        try await fetch(CKSyncEngine.FetchChangesContext(reason: .manual, options: options))
    }

    func fetchBegins(
        _ context: CKSyncEngine.FetchChangesContext,
        asksDatabase: Bool,
        backingOff: Set<ZoneID>
    ) async -> (FetchRound, FetchProgress) {
        let progress = FetchProgress(context: context, epoch: runner.accountEpoch)
        await deliver(.willFetchChanges(.init(context: context)))
        let options = await ask { await $0.nextFetchChangesOptions(context, syncEngine: $1) } ?? context.options
        let round = FetchRound(
            asksDatabase: asksDatabase,
            scope: options.scope.zones,
            prioritized: options.prioritizedZoneIDs.map(\.zone),
            backingOff: backingOff
        )
        return (round, progress)
    }

    func fetchEnds(_ outcome: inout FetchRound.Outcome, _ progress: inout FetchProgress) async {
        await saveState()
        await deliver(.didFetchChanges(.init(context: progress.context)))
    }

    /// Reports a delay that the relay requested before the caller of a round continues.
    func fetchEnded() async { await saveState() }

    nonisolated func failure(of zones: [ZoneID: CKError]) -> CKError? {
        CKError.partialFailure(Dictionary(zones.map { (CKRecordZone.ID($0), $1) }) { first, _ in first })
    }

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
        guard progress.epoch == runner.accountEpoch, listed != nil || syncFailure?.kind == .zoneNotFound else { return }
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

    func zonePage(_ zone: ZoneID, since token: SyncToken?) async throws -> ZonePage<CKRecord> {
        let (database, state) = (database, state)
        return try await cancellable(.fetching) {
            try await database.zonePage(
                in: zone,
                since: token,
                hasUnreadableValues: state.read { $0.unreadable.contains(zone) }
            )
        }
    }

    func pageApplied() async { await saveStateAfterPage() }

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

    /// Delivers the changes to the app; the state gets the new token afterwards.
    func apply(
        _ page: ZonePage<CKRecord>,
        of zone: ZoneID,
        since token: SyncToken?,
        _ progress: inout FetchProgress
    ) async -> FetchRound.Event {
        await beforeDelivery(of: page, in: zone)
        if !page.changed.isEmpty || !page.deleted.isEmpty {
            await deliver(.fetchedRecordZoneChanges(.init(page)), of: progress.epoch)
        }
        if progress.epoch == runner.accountEpoch { note(page, in: zone) }
        let failure = note(page.failures, of: zone, &progress.errors)
        return .zonePage(zone, token: page.token, moreComing: page.moreComing, failure: failure)
    }

    func zoneReplaced(_ zone: ZoneID, _ reason: ZoneDeletionReason, _ progress: inout FetchProgress) async {
        await zoneEnded(zone, reason, progress.epoch)
        // An app that lists its zones has now removed the new zone of the same name too, so report it as changed.
        await deliverZones(changed: [zone], progress.epoch)
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
}
