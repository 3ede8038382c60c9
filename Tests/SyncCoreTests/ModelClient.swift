import Records
import SyncCore

/// A minimal client around the decisions of `SyncCore`: a dictionary serves as its mirror, and effects are performed in
/// the model world.
///
/// The properties that survive a restart are those that a real client stores on disk.
final class ModelClient {
    struct Held: Equatable {
        var fields: [String: Int]
        /// The fields on the relay when the edit began.
        var base: [String: Int]
        var tag: Int?
    }

    let name: String
    private unowned let world: ModelWorld
    // On disk:
    private(set) var mirror: [RecordID: Held] = [:]
    private(set) var feed = FeedState()
    private(set) var outbox = Outbox()
    /// The newest value that the user gave each field; it must reach the relay in the end.
    private(set) var mustArrive: [RecordID: [String: Int]] = [:]
    // In memory:
    private var schedule = SyncSchedule()
    private var round: FetchRound?
    private var seen: [ZoneID: Set<RecordID>] = [:]
    private var generation = 0
    private var alarm = 0
    private var isOnline = false

    init(_ name: String, in world: ModelWorld) {
        self.name = name
        self.world = world
    }

    var fields: [RecordID: [String: Int]] { mirror.mapValues(\.fields) }

    // MARK: Restarting and connecting

    func restart() {
        generation += 1
        world.note("\(name) restarts")
        schedule = SyncSchedule()
        round = nil
        seen = [:]
        isOnline = false
        tell(.outboxChanged(isEmpty: outbox.isEmpty))
        tell(.started)
    }

    func goOnline() {
        isOnline = true
        tell(.channelOpened)
    }

    func goOffline() {
        isOnline = false
        tell(.channelLost)
    }

    func noticeArrived(_ zone: ZoneID, _ token: SyncToken) {
        guard isOnline, feed.noticed(zone, token: token) else { return }
        world.note("\(name) notices \(zone.zoneName)")
        if round != nil { advance(.noticed(zone)) }
        tell(.noticed(feed.zoneTokens[zone] == nil ? nil : zone))
    }

    // MARK: The user

    func edit(_ id: RecordID, _ field: String, _ value: Int) {
        let stored = mirror[id]
        var fields = stored?.fields ?? [:]
        fields[field] = value
        mustArrive[id, default: [:]][field] = value
        mirror[id] = Held(fields: fields, base: stored?.base ?? [:], tag: stored?.tag)
        outbox.add(.save, id)
        tell(.outboxChanged(isEmpty: false))
    }

    func delete(_ id: RecordID) {
        guard mirror[id] != nil else { return }
        mirror[id] = nil
        mustArrive[id] = nil
        outbox.add(.delete, id)
        tell(.outboxChanged(isEmpty: false))
    }

    // MARK: Effects of the schedule

    private func tell(_ event: SyncSchedule.Event) {
        for effect in schedule.handle(event, at: world.now, using: &world.random) {
            switch effect {
            case .fetch(let asksDatabase, let backingOff):
                round = FetchRound(asksDatabase: asksDatabase, backingOff: backingOff)
                advance(.began)
            case .send: send()
            case .wake(let moment): wake(at: moment)
            }
        }
    }

    private func wake(at moment: Instant?) {
        alarm += 1
        guard let moment else { return }
        let (mine, started) = (alarm, generation)
        world.after(max(.zero, moment - world.now)) { [self] in
            if mine == alarm, started == generation { tell(.timerFired) }
        }
    }

    /// Passes an answer on unless the client has restarted since its request.
    private func ifRunning<Answer>(_ act: @escaping (Answer) -> Void) -> (Answer) -> Void {
        let started = generation
        return { [self] answer in
            if started == generation { act(answer) }
        }
    }

    // MARK: Fetching

    private func advance(_ event: FetchRound.Event) {
        guard let effects = round?.handle(event, state: &feed) else { return }
        for effect in effects {
            switch effect {
            case .askDatabase(let token): askDatabase(token)
            case .zoneBegins: break
            case .askZone(let zone, let token): askZone(zone, token)
            case .zoneEnded(let zone, let syncFailure): zoneEnded(zone, syncFailure)
            case .finished(let outcome):
                round = nil
                tell(.fetchFinished(outcome))
            }
        }
    }

    private func askDatabase(_ token: SyncToken?) {
        let answered = ifRunning {
            [self] (result: Result<(zones: [ZoneID], token: SyncToken, more: Bool), SyncFailure>) in
            switch result {
            case .success(let page):
                advance(.databasePage(changed: page.zones, deleted: [], token: page.token, moreComing: page.more))
            case .failure(let syncFailure): advance(.databaseFailed(syncFailure))
            }
        }
        world.request(
            "\(name) database",
            perform: { world throws(SyncFailure) in try world.relay.databaseChanges(since: token) },
            answer: answered
        )
    }

    private func askZone(_ zone: ZoneID, _ token: SyncToken?) {
        if token == nil { seen[zone] = [] }
        let answered = ifRunning {
            [self] (result: Result<(rows: [ModelRelay.Row], token: SyncToken, more: Bool), SyncFailure>) in
            switch result {
            case .success(let page):
                page.rows.forEach(apply)
                seen[zone]?.formUnion(page.rows.map(\.id))
                advance(.zonePage(zone, token: page.token, moreComing: page.more))
            case .failure(let syncFailure): advance(.zoneFailed(zone, syncFailure))
            }
        }
        world.request(
            "\(name) zone",
            perform: { world throws(SyncFailure) in try world.relay.zoneChanges(zone, since: token) },
            answer: answered
        )
    }

    private func apply(_ row: ModelRelay.Row) {
        guard outbox[row.id] == nil else {
            // A pending edit is kept and merged with the relay's current fields.
            if mirror[row.id] != nil { merge(row.id, row.fields, row.tag) }
            return
        }
        mirror[row.id] = row.tag.map { Held(fields: row.fields, base: row.fields, tag: $0) }
    }

    private func merge(_ id: RecordID, _ theirs: [String: Int], _ tag: Int?) {
        guard let stored = mirror[id] else { return }
        let merged = Merge.fields(base: stored.base, mine: stored.fields, theirs: theirs, preferring: .mine)
        mirror[id] = Held(fields: tag == nil ? stored.fields : merged.fields, base: theirs, tag: tag)
    }

    private func zoneEnded(_ zone: ZoneID, _ syncFailure: SyncFailure?) {
        if syncFailure == nil, let listed = seen[zone] {
            // A full fetch reports no deletions: records that it does not list are deleted.
            for id in mirror.keys where id.zone == zone && !listed.contains(id) && outbox[id] == nil {
                mirror[id] = nil
            }
        }
        seen[zone] = nil
    }

    // MARK: Sending

    private func send() {
        let batch = Array(outbox.pending.prefix(3))
        let version = outbox.version
        let writes = batch.map { entry in
            mirror[entry.id].map { ModelRelay.Write.save(entry.id, fields: $0.fields, tag: $0.tag) }
                ?? .delete(entry.id)
        }
        let sent = mirror
        let answered = ifRunning { [self] (result: Result<[RecordID: ModelRelay.Answer], SyncFailure>) in
            switch result {
            case .success(let answers): settle(answers, version, sent)
            case .failure(let syncFailure): tell(.sendFinished(.init(syncFailure: syncFailure)))
            }
        }
        world.request(
            "\(name) sends \(batch.map(\.id.recordName))",
            perform: { [self] world in
                let result = world.relay.modify(writes)
                world.notify(result.changed, except: self)
                return result.answers
            },
            answer: answered
        )
    }

    private func settle(
        _ answers: [RecordID: ModelRelay.Answer],
        _ version: UInt64,
        _ sent: [RecordID: Held]
    ) {
        var outcome = SyncSchedule.SendOutcome()
        for (id, answer) in answers.sorted(by: { $0.key.recordName < $1.key.recordName }) {
            outbox.confirmed(id, version: version)
            switch answer {
            case .saved(let tag):
                outcome.madeProgress = true
                if let newer = mirror[id]?.tag, newer > tag { continue }
                mirror[id]?.tag = tag
                mirror[id]?.base = sent[id]?.fields ?? [:]
            case .deleted: outcome.madeProgress = true
            case .conflict(let row):
                outcome.hadRejections = true
                if mirror[id] != nil { merge(id, row.fields, row.tag) }
                outbox.add(mirror[id] == nil ? .delete : .save, id)
            case .unknown:
                outcome.hadRejections = true
                mirror[id]?.tag = nil
                outbox.add(mirror[id] == nil ? .delete : .save, id)
            }
        }
        // The zone's feed will repeat the records just sent; the model does not filter them.
        tell(.outboxChanged(isEmpty: outbox.isEmpty))
        tell(.sendFinished(outcome))
    }
}
