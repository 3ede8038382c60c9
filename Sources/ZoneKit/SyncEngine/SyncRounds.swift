package import Records
package import SyncCore

/// An answer to a request of a fetch round.
private enum Arrival<Page: Sendable>: Sendable {
    case database(Result<DatabasePage, CKError>)
    /// A page after the token `since`, requested after this number of changes by this device.
    case zone(ZoneID, since: SyncToken?, changes: Int, Result<Page, CKError>)
}

extension CKError {
    /// Returns how to retry after a failed import, such as one caused by a full disk or a cancelled task.
    ///
    /// The relay did not report this failure, so the page is fetched again without waiting for the next notice.
    package func ofImport(_ kind: SyncFailure.Kind) -> SyncFailure {
        syncFailure.isRetriedAutomatically ? syncFailure : SyncFailure(kind)
    }
}

// MARK: Rounds of fetching

extension SyncTarget {
    /// Runs one round of fetching.
    ///
    /// Throws the error that stopped the round, or the errors of single zones.
    package func fetch(
        _ context: FetchContext,
        asksDatabase: Bool = true,
        backingOff: Set<ZoneID> = []
    ) async throws {
        try await inLane(.fetching) {
            handle(.fetchBegan)
            var (round, progress) = await fetchBegins(context, asksDatabase: asksDatabase, backingOff: backingOff)
            var outcome = FetchRound.Outcome()
            if isCurrent(progress) { outcome = await run(round, &progress) }
            await fetchEnds(&outcome, &progress)
            handle(.fetchFinished(outcome))
            await fetchEnded()
            // Nothing has been fetched for the new user yet.
            if !isCurrent(progress) { handle(.noticed(nil)) }
            if let failure = failure(of: outcome, progress) { throw failure }
            try requireSameUser(since: progress.epoch)
        }
    }

    /// Returns the error that stopped a round, or those of its zones.
    package nonisolated func failure(of outcome: FetchRound.Outcome, _ progress: FetchProgress) -> CKError? {
        let errors = outcome.failedZones.map { zone in
            (zone, progress.errors[zone] ?? CKError(outcome.zoneFailures[zone] ?? SyncFailure(.refused)))
        }
        if let failure = outcome.syncFailure {
            let ofZone = errors.first { progress.errors[$0.0] != nil }
            return progress.errors[nil] ?? ofZone?.1 ?? CKError(failure)
        }
        return errors.isEmpty ? nil : failure(of: Dictionary(errors) { first, _ in first })
    }

    private func isCurrent(_ progress: FetchProgress) -> Bool { progress.epoch == runner.accountEpoch }

    /// Runs one round, and returns its outcome when all answers have been applied.
    private func run(_ round: FetchRound, _ progress: inout FetchProgress) async -> FetchRound.Outcome {
        var outcome = FetchRound.Outcome()
        runner.round = round
        await withTaskGroup(of: Arrival<Page>.self) { group in
            var effects = advance(.began)
            while true {
                for effect in effects where isCurrent(progress) {
                    switch effect {
                    case .askDatabase(let token): group.addTask { .database(await self.askDatabase(since: token)) }
                    case .zoneBegins(let zone): await zoneBegins(zone, progress)
                    case .askZone(let zone, let token):
                        if token == nil { listingBegins(zone) }
                        group.addTask { await self.ask(zone, since: token) }
                    case .zoneEnded(let zone, let failure): await zoneEnded(zone, failure, progress)
                    case .finished(let end): outcome = end
                    }
                }
                guard let arrival = await group.next() else { break }
                effects = await apply(arrival, &progress)
                await pageApplied()
            }
        }
        runner.round = nil
        return outcome
    }

    private func askDatabase(since token: SyncToken?) async -> Result<DatabasePage, CKError> {
        do {
            return .success(try await databasePage(since: token))
        } catch {
            return .failure(CKError(from: error))
        }
    }

    /// Acquires the zone's lock, which is released when the answer has been applied.
    ///
    /// Sends the zone's unanswered request first: in the page, this device's own writes would look like those of others.
    private func ask(_ zone: ZoneID, since token: SyncToken?) async -> Arrival<Page> {
        await lock(of: zone).enter()
        do {
            try await repeatUnanswered(beforeReading: zone)
            let changes = runner.changes[zone, default: 0]
            do {
                return .zone(zone, since: token, changes: changes, .success(try await zonePage(zone, since: token)))
            } catch {
                return .zone(zone, since: token, changes: changes, .failure(CKError(from: error)))
            }
        } catch {
            return .zone(zone, since: token, changes: 0, .failure(CKError(from: error)))
        }
    }

    private func apply(_ arrival: Arrival<Page>, _ progress: inout FetchProgress) async -> [FetchRound.Effect] {
        defer {
            if case .zone(let zone, _, _, _) = arrival { lock(of: zone).leave() }
        }
        guard isCurrent(progress) else { return [] }
        switch arrival {
        case .database(.success(var page)):
            let changed = page.changed
            let returned = updateFeed { $0.vanished.intersection(changed) }
            await addMissingDeletions(&page)
            do {
                try await apply(page, returned: returned, &progress)
            } catch {
                let error = CKError(from: error)
                progress.errors[nil] = error
                return advance(.databaseFailed(error.ofImport(.busy)))
            }
            return advance(
                .databasePage(
                    changed: page.changed,
                    deleted: page.deleted.map(\.zone),
                    token: page.token,
                    moreComing: page.moreComing
                )
            )
        case .database(.failure(let error)):
            progress.errors[nil] = error
            return advance(.databaseFailed(error.syncFailure))
        case .zone(let zone, let token, let changes, .success(let page)):
            // The page was read before this device changed the zone, and would undo that here.
            guard changes == runner.changes[zone, default: 0] else { return [.askZone(zone, since: token)] }
            do {
                let event = try await apply(page, of: zone, since: token, &progress)
                return isCurrent(progress) ? advance(event) : []
            } catch {
                let error = CKError(from: error)
                progress.errors[zone] = error
                return advance(.zoneFailed(zone, error.ofImport(.zoneBusy)))
            }
        case .zone(let zone, _, _, .failure(let error)):
            progress.errors[zone] = error
            if let reason = error.formerZone {
                do {
                    try await zoneReplaced(zone, reason, &progress)
                } catch {
                    return advance(.zoneFailed(zone, CKError(from: error).ofImport(.zoneBusy)))
                }
                return isCurrent(progress) ? advance(.zoneReplaced(zone)) : []
            }
            return advance(.zoneFailed(zone, syncFailure(of: error)))
        }
    }

    /// Adds the deletions that a full listing omits, and waits for running requests about deleted zones.
    private func addMissingDeletions(_ page: inout DatabasePage) async {
        var known: Set<ZoneID> = []
        if !page.moreComing, updateFeed({ $0.listing != nil }) {
            await awaitZoneLocks()
            known = await knownZones()
        }
        let (changed, moreComing) = (page.changed, page.moreComing)
        let missing = updateFeed { $0.missing(after: changed, moreComing: moreComing, besides: known) }
        page.deleted += missing.filter { !page.deleted.map(\.zone).contains($0) }.map { ($0, .deleted) }
        for (zone, _) in page.deleted {
            // The answer to a request that was sent before the deletion would bring the zone's records back.
            await lock(of: zone).enter()
            lock(of: zone).leave()
        }
    }

    func advance(_ event: FetchRound.Event) -> [FetchRound.Effect] {
        guard var round = runner.round else { return [] }
        defer { runner.round = round }
        return updateFeed { round.handle(event, state: &$0) }
    }
}

// MARK: Rounds of sending

extension SyncTarget {
    /// Runs one round of sending.
    ///
    /// Throws the error that ended the round, or those of single changes.
    @discardableResult
    package func send(_ context: SendContext, backingOff: Set<ZoneID> = []) async throws -> SendProgress {
        try await inLane(.sending) {
            var progress = sendProgress(context)
            progress.busyZones = backingOff
            handle(.sendBegan)
            do {
                var isPending = true
                while isPending {
                    try await repeatUnanswered(&progress)
                    if progress.error == nil { try await passBegins(&progress) }
                    await sendBatches(&progress)
                    guard progress.error == nil else { break }
                    isPending = try await passEnds(&progress)
                }
            } catch {
                progress.error = progress.error ?? CKError(from: error)
            }
            await sendEnds(&progress)
            progress.outcome.syncFailure = progress.error?.syncFailure
            handle(.sendFinished(progress.outcome))
            await sendEnded(progress)
            await notifyOtherListeners(progress.changedZones)
            if let failure = progress.failure { throw failure }
            try requireSameUser(since: progress.epoch)
            return progress
        }
    }

    private func isCurrent(_ progress: SendProgress) -> Bool { progress.epoch == runner.accountEpoch }

    private func sendBatches(_ progress: inout SendProgress) async {
        while progress.error == nil, isCurrent(progress), !isStopped {
            guard !Task.isCancelled, !isRoundCancelled(.sending) else {
                // The remaining changes were not examined, so the round must not count as successful.
                return progress.retryLater(CKError(.operationCancelled))
            }
            do {
                guard let batch = try await pendingBatch(&progress) else { return }
                try await send(batch, &progress)
            } catch {
                progress.error = CKError(from: error)
            }
        }
    }

    private func send(_ batch: Batch, _ progress: inout SendProgress) async throws {
        var held: [AsyncLock] = []
        defer { held.forEach { $0.leave() } }
        var seen: Set<ZoneID> = []
        for zone in batch.items.map(\.zone) where progress.error == nil && seen.insert(zone).inserted {
            guard !progress.busyZones.contains(zone) else { continue }
            let lock = lock(of: zone)
            await lock.enter()
            held.append(lock)
            guard isCurrent(progress) else { return }
            let items = batch.items.filter { $0.zone == zone }
            if try await createZone(zone, for: items, &progress) {
                try await send(items, of: batch, in: zone, &progress)
            }
            if !batch.isReportedAsWhole { held.popLast()?.leave() }
        }
        if isCurrent(progress) { try await settle(batch, &progress) }
    }

    /// Sends one zone's changes in as many requests as the limits require.
    ///
    /// Ends when the user changes, or when the zone or the relay is busy.
    private func send(_ items: [Batch.Item], of batch: Batch, in zone: ZoneID, _ progress: inout SendProgress)
        async throws
    {
        let isWhole = batch.isAtomic && items.count <= ZoneChunk<Batch.Item>.atomicLimit
        var waiting = (isWhole ? [items] : split(items))[...]
        while progress.error == nil, !progress.busyZones.contains(zone), isCurrent(progress),
            let part = waiting.popFirst()
        {
            guard let request = try await request(for: part, of: batch, in: zone, &progress) else { continue }
            let rest = try await exchange(request, in: zone, &progress)
            if !rest.isEmpty { waiting = split(rest + waiting.joined())[...] }
        }
    }

    /// Splits one zone's changes into requests.
    ///
    /// Within a request the relay accepts changes in any order. If there are several requests, parents and shared
    /// records must be sent before the records that refer to them.
    private func split(_ items: [Batch.Item]) -> [[Batch.Item]] {
        let requests = runner.limits.split(items, size: \.size)
        return requests.count > 1
            ? runner.limits.split(Batch.Item.inDependencyOrder(items), size: \.size) : requests
    }

    /// Sends a request and settles its answer, with the zone's lock held; returns the changes to send again at once.
    private func exchange(_ request: Request, in zone: ZoneID, _ progress: inout SendProgress) async throws
        -> [Batch.Item]
    {
        runner.changes[zone, default: 0] += 1
        let answer: Answer
        do {
            answer = try await self.answer(to: request, in: zone, progress)
        } catch {
            let error = CKError(from: error)
            var request = request
            let decision = request.attempts.failed(
                error.syncFailure,
                isOpen: error.leavesOutcomeOpen,
                isOfService: error.isServiceFailure,
                count: request.items.count
            )
            let rest = try await settle(request, error, decision, in: zone, &progress)
            switch decision {
            case .split:
                runner.limits.exceeded(by: request.items.count)
                return request.items
            case .repeatUnchanged, .later: progress.retryLater(error, in: zone)
            case .keep, .refuse: break
            }
            return rest
        }
        runner.limits.accepted()
        return try await settle(request, answer, in: zone, &progress)
    }

    // MARK: Requests without an answer

    /// Repeats requests that the relay may have executed without its answer having arrived.
    ///
    /// Later changes build on them: they are sent only when the result is known.
    private func repeatUnanswered(_ progress: inout SendProgress) async throws {
        for zone in try await unansweredZones() where progress.error == nil && !progress.busyZones.contains(zone) {
            let lock = lock(of: zone)
            await lock.enter()
            defer { lock.leave() }
            guard let request = try await unansweredRequest(in: zone) else { continue }
            _ = try await exchange(request, in: zone, &progress)
        }
    }

    /// Repeats a zone's unanswered request, with the zone's lock held.
    ///
    /// - Throws: An error while the result of the request is unknown; nothing may be read of the zone then.
    package func repeatUnanswered(beforeReading zone: ZoneID) async throws {
        guard let request = try await unansweredRequest(in: zone) else { return }
        var progress = sendProgress(Self.scheduledSend)
        _ = try await exchange(request, in: zone, &progress)
        await requestRepeated(progress)
        let isOpen = try await unansweredRequest(in: zone) != nil
        if isOpen, let error = progress.error ?? progress.busy { throw error }
    }
}
