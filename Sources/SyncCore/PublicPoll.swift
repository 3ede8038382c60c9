package import Records

/// Polls the public database, which sends no notices and has no change feed: queries for records modified since the
/// last poll, at the start and every 30 minutes.
///
/// Each query overlaps the last by a few seconds, because modification times come from a clock and commits from a
/// queue. Records that are already known (same name, same change tag) are skipped. Deletions are not detected. See
/// Sync.md, "Public databases".
package struct PublicPoll: Sendable {
    package struct Settings: Hashable, Sendable {
        /// The time from the start of one poll to the start of the next; 1 min to 24 h.
        package var interval: Duration = .seconds(1800)
        /// How far before the watermark a query begins.
        package var overlap: Duration = .seconds(5)

        package init() {}
    }

    /// A record in a page of results.
    package struct ListedRecord: Hashable, Sendable {
        package var recordName: String
        package var changeTag: String
        /// Assigned by the relay, never by this client.
        package var modified: Timestamp

        package init(recordName: String, changeTag: String, modified: Timestamp) {
            self.recordName = recordName
            self.changeTag = changeTag
            self.modified = modified
        }
    }

    package enum Event: Sendable {
        case started
        /// The application requests a poll now.
        case pollNow
        case page(type: String, [ListedRecord], moreComing: Bool)
        case failed(type: String, SyncFailure)
        /// The relay asked the whole database to wait: no poll begins by itself before that time.
        case backingOff(until: Instant)
        case timerFired
    }

    package enum Effect: Equatable, Sendable {
        /// Query the type for records modified at or after `since` (all, if `nil`), oldest change first.
        case query(type: String, since: Timestamp?)
        case nextPage(type: String)
        /// Apply the new records of the page just reported, given by their positions.
        case apply(type: String, positions: [Int])
        /// All pages of this type were read, or the type failed.
        case ended(type: String, SyncFailure?)
        /// All types have ended.
        case pollEnded
        case wake(at: Instant?)
    }

    /// The progress of one record type; to be stored with the data.
    package struct Mark: Hashable, Sendable {
        /// The latest modification time received.
        package var watermark: Timestamp?
        /// The change tags, by record name, of the records within the overlap before the watermark.
        package var recent: [String: String] = [:]
        package var recentTimes: [String: Timestamp] = [:]

        package init() {}
    }

    private let settings: Settings
    private let types: [String]
    /// The parameters of this poll, for creating another one from other marks.
    package var currentSettings: Settings { settings }
    package var polledTypes: [String] { types }
    package private(set) var marks: [String: Mark]
    private var queryingTypes: Set<String> = []
    private var wantsAnotherPoll = false
    private var backoff = Backoff.requests
    private var syncFailure: SyncFailure?
    private var began = Instant.start
    private var dueAt: Instant?
    private var notBefore: Instant?

    /// Creates a poll; `marks` are those stored at the end of the last run.
    package init(types: [String], settings: Settings = Settings(), marks: [String: Mark] = [:]) {
        self.types = types
        self.settings = settings
        self.marks = marks
    }

    /// The time of the next poll; `nil` before the start and during a poll.
    package var nextPoll: Instant? { due }

    package mutating func handle(
        _ event: Event,
        at now: Instant,
        using random: inout some RandomNumberGenerator
    ) -> [Effect] {
        switch event {
        case .started:
            dueAt = now
            return beginIfDue(now)
        case .pollNow: return begin(now)
        case .timerFired: return beginIfDue(now)
        case .backingOff(let until):
            notBefore = until
            return [.wake(at: due)]
        case .page(let type, let listed, let moreComing):
            guard queryingTypes.contains(type) else { return [] }
            let news = newPositions(listed, type)
            var effects: [Effect] = news.isEmpty ? [] : [.apply(type: type, positions: news)]
            if moreComing { effects.append(.nextPage(type: type)) } else { effects += end(type, nil, now, &random) }
            return effects
        case .failed(let type, let syncFailure):
            guard queryingTypes.contains(type) else { return [] }
            return end(type, syncFailure, now, &random)
        }
    }

    private var due: Instant? { dueAt.map { max($0, notBefore ?? $0) } }

    private mutating func beginIfDue(_ now: Instant) -> [Effect] {
        guard let due, due <= now else { return [.wake(at: due)] }
        return begin(now)
    }

    private mutating func begin(_ now: Instant) -> [Effect] {
        guard queryingTypes.isEmpty else {
            wantsAnotherPoll = true
            return []
        }
        began = now
        syncFailure = nil
        dueAt = nil
        queryingTypes = Set(types)
        guard !types.isEmpty else { return [.pollEnded] }
        return [.wake(at: nil)] + types.map { .query(type: $0, since: start(of: $0)) }
    }

    /// Resets a type to its mark before the last page, which could not be stored.
    ///
    /// Must be followed by a `failed` event.
    package mutating func restore(_ type: String, to mark: Mark?) { marks[type] = mark }

    private func start(of type: String) -> Timestamp? {
        guard let watermark = marks[type]?.watermark else { return nil }
        return watermark + (.zero - settings.overlap)
    }

    /// Records a page's records and returns the positions of the new ones.
    private mutating func newPositions(_ listed: [ListedRecord], _ type: String) -> [Int] {
        var mark = marks[type] ?? Mark()
        var news: [Int] = []
        for (position, sighting) in listed.enumerated() where mark.recent[sighting.recordName] != sighting.changeTag {
            news.append(position)
            mark.recent[sighting.recordName] = sighting.changeTag
            mark.recentTimes[sighting.recordName] = sighting.modified
            mark.watermark = max(mark.watermark ?? sighting.modified, sighting.modified)
        }
        if let watermark = mark.watermark {
            // Twice the overlap, because the next query starts before a watermark that may still grow during this poll.
            let oldest = watermark + (.zero - settings.overlap * 2)
            for (name, time) in mark.recentTimes where time < oldest {
                mark.recent[name] = nil
                mark.recentTimes[name] = nil
            }
        }
        marks[type] = mark
        return news
    }

    private mutating func end(
        _ type: String,
        _ failure: SyncFailure?,
        _ now: Instant,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        queryingTypes.remove(type)
        if let failure, failure.isRetriedAutomatically { syncFailure = syncFailure ?? failure }
        var effects: [Effect] = [.ended(type: type, failure)]
        guard queryingTypes.isEmpty else { return effects }
        effects.append(.pollEnded)
        if wantsAnotherPoll {
            wantsAnotherPoll = false
            return effects + begin(now)
        }
        if let syncFailure {
            dueAt = now + (syncFailure.retryAfter ?? min(backoff.failed(using: &random), settings.interval))
        } else {
            backoff.succeeded()
            dueAt = max(now, began + settings.interval)
        }
        return effects + [.wake(at: due)]
    }
}
