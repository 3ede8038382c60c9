import Foundation
import Records
package import SyncCore

/// Keeps an application up with the public database, which sends no notices: asks at start and every 30 minutes for what
/// was modified since.
///
///     let poller = PublicDatabasePoller(database: container.publicCloudDatabase, recordTypes: ["Post"]) { records in
///         …  // keep them
///     }
///     await poller.run()
///
/// Deletions do not travel this way: mark a record as deleted instead. Reads without an account where the World role may
/// read. SDK reference 7.
public actor PublicDatabasePoller {
    /// Called with records that are new or changed, in the order of their modification; the next page comes only after
    /// it returns.
    public typealias Apply = @Sendable ([CKRecord]) async -> Void

    private let database: CKDatabase
    private let apply: Apply
    private let time: Timekeeper
    private var chance: Chance
    private var poll: PublicPoll
    private var page: [CKRecord.RecordType: [CKRecord]] = [:]
    private var cursors: [CKRecord.RecordType: CKQueryOperation.Cursor] = [:]

    /// A poller that asks once it runs.
    ///
    /// - Parameters:
    ///   - database: The public database.
    ///   - recordTypes: The kinds of records wanted.
    ///   - interval: From the start of one poll to the start of the next; half an hour if left out.
    ///   - apply: Called with what is news.
    public init(
        database: CKDatabase,
        recordTypes: [CKRecord.RecordType],
        interval: Duration = .seconds(1800),
        apply: @escaping Apply
    ) {
        var settings = PublicPoll.Settings()
        settings.interval = interval
        self.init(
            database: database,
            recordTypes: recordTypes,
            settings: settings,
            time: .system,
            chance: .system,
            apply: apply
        )
    }

    package init(
        database: CKDatabase,
        recordTypes: [CKRecord.RecordType],
        settings: PublicPoll.Settings,
        time: Timekeeper,
        chance: Chance,
        apply: @escaping Apply
    ) {
        self.database = database
        self.apply = apply
        self.time = time
        self.chance = chance
        poll = PublicPoll(types: recordTypes, settings: settings)
    }

    /// Polls until the task is cancelled; failures are tried again later, and later still.
    public func run() async {
        await perform(.started)
        while let next = poll.nextPoll {
            guard (try? await time.sleep(next)) != nil else { return }
            await perform(.timerFired)
        }
    }

    /// Asks now, without waiting for the interval; returns when the answer is applied or could not be had.
    public func pollNow() async { await perform(.pollNow) }

    private func perform(_ event: PublicPoll.Event) async {
        var effects = poll.handle(event, at: time.now(), using: &chance)[...]
        while let effect = effects.popFirst() {
            guard !Task.isCancelled else { return }
            switch effect {
            case .query(let type, let since): effects += await ask(type, since: since)
            case .nextPage(let type): effects += await askOn(type)
            case .apply(let type, let positions):
                let records = page[type] ?? []
                await apply(positions.map { records[$0] })
            case .ended, .pollEnded, .wake: break  // `run` sleeps until the time that the value names.
            }
        }
    }

    private func ask(_ type: CKRecord.RecordType, since: Timestamp?) async -> [PublicPoll.Effect] {
        var query = Query(recordType: type, sorts: [.init(.modified)])
        if let since { query.filters = [.init(.modified, .greaterThanOrEquals, [.timestamp(since)])] }
        let asked = CKQuery(query)
        return await take(type) { try await self.database.records(matching: asked) }
    }

    private func askOn(_ type: CKRecord.RecordType) async -> [PublicPoll.Effect] {
        guard let cursor = cursors[type] else { return [] }
        return await take(type) { try await self.database.records(continuingMatchFrom: cursor) }
    }

    private func take(
        _ type: CKRecord.RecordType,
        _ fetch: () async throws -> (
            matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
        )
    ) async -> [PublicPoll.Effect] {
        do {
            let answer = try await fetch()
            let records = answer.matchResults.compactMap { try? $0.1.get() }
            page[type] = records
            cursors[type] = answer.queryCursor
            return poll.handle(
                .page(type: type, records.map(\.sighting), moreComing: answer.queryCursor != nil),
                at: time.now(),
                using: &chance
            )
        } catch {
            let trouble = (error as? CKError)?.trouble ?? Trouble(.network)
            return poll.handle(.failed(type: type, trouble), at: time.now(), using: &chance)
        }
    }
}

extension CKRecord {
    /// What the poll's decisions need to know of a record.
    fileprivate var sighting: PublicPoll.Sighting {
        let seconds = modificationDate?.timeIntervalSince1970 ?? 0
        return PublicPoll.Sighting(
            recordName: recordID.recordName,
            changeTag: recordChangeTag ?? "",
            modified: Timestamp(milliseconds: Int64((seconds * 1000).rounded()))
        )
    }
}
