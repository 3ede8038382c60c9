package import Records

/// Keeping up with the public database, which tells nobody anything: ask for what was modified since, at start and
/// every 30 minutes.
///
/// See Sync.md, "Public databases".
///
/// Asking overlaps what was seen by a few seconds, because modification times come from a clock and commits from a queue;
/// what is held already (same record, same change tag) is left out. Deletions do not travel this way.
package struct PublicPoll: Sendable {
    package struct Settings: Hashable, Sendable {
        /// Between two polls, from the start of one to the start of the next; 1 min to 24 h.
        package var interval: Duration = .seconds(1800)
        /// How far before the watermark to ask again.
        package var overlap: Duration = .seconds(5)

        package init() {}
    }

    /// One record as a page names it.
    package struct Sighting: Hashable, Sendable {
        package var recordName: String
        package var changeTag: String
        /// The relay's time, never ours.
        package var modified: Timestamp

        package init(recordName: String, changeTag: String, modified: Timestamp) {
            self.recordName = recordName
            self.changeTag = changeTag
            self.modified = modified
        }
    }

    package enum Event: Sendable {
        case started
        /// The application wants to know now.
        case pollNow
        case page(type: String, [Sighting], moreComing: Bool)
        case failed(type: String, Trouble)
        /// The relay asked the whole database to wait until then: nothing begins by itself before.
        case held(until: Moment)
        case timerFired
    }

    package enum Effect: Equatable, Sendable {
        /// Query the type for records modified at or after `since` (all, if `nil`), oldest change first.
        case query(type: String, since: Timestamp?)
        case nextPage(type: String)
        /// The records of the page just reported that are news, by position.
        case apply(type: String, positions: [Int])
        /// This type is seen to the end, or failed.
        case ended(type: String, Trouble?)
        /// All types have ended.
        case pollEnded
        case wake(at: Moment?)
    }

    /// What is known of one record type; to be kept with the data.
    package struct Mark: Hashable, Sendable {
        /// The greatest modification time received.
        package var watermark: Timestamp?
        /// Change tags of the records within the overlap before the watermark, by record name.
        package var recent: [String: String] = [:]
        package var recentTimes: [String: Timestamp] = [:]

        package init() {}
    }

    private let settings: Settings
    private let types: [String]
    /// What the poll was made with, to make another from other marks.
    package var followedSettings: Settings { settings }
    package var followedTypes: [String] { types }
    package private(set) var marks: [String: Mark]
    private var asking: Set<String> = []
    private var wantsAgain = false
    private var backoff = Backoff.requests
    private var trouble: Trouble?
    private var began = Moment.start
    private var dueAt: Moment?
    private var heldUntil: Moment?

    /// `marks` are as they were kept at the end of the last run.
    package init(types: [String], settings: Settings = Settings(), marks: [String: Mark] = [:]) {
        self.types = types
        self.settings = settings
        self.marks = marks
    }

    /// When the next poll is due; `nil` before the start and while one is under way.
    package var nextPoll: Moment? { due }

    package mutating func handle(
        _ event: Event,
        at now: Moment,
        using random: inout some RandomNumberGenerator
    ) -> [Effect] {
        switch event {
        case .started:
            dueAt = now
            return beginIfDue(now)
        case .pollNow: return begin(now)
        case .timerFired: return beginIfDue(now)
        case .held(let until):
            heldUntil = until
            return [.wake(at: due)]
        case .page(let type, let sightings, let moreComing):
            guard asking.contains(type) else { return [] }
            let news = see(sightings, type)
            var effects: [Effect] = news.isEmpty ? [] : [.apply(type: type, positions: news)]
            if moreComing { effects.append(.nextPage(type: type)) } else { effects += end(type, nil, now, &random) }
            return effects
        case .failed(let type, let trouble):
            guard asking.contains(type) else { return [] }
            return end(type, trouble, now, &random)
        }
    }

    private var due: Moment? { dueAt.map { max($0, heldUntil ?? $0) } }

    private mutating func beginIfDue(_ now: Moment) -> [Effect] {
        guard let due, due <= now else { return [.wake(at: due)] }
        return begin(now)
    }

    private mutating func begin(_ now: Moment) -> [Effect] {
        guard asking.isEmpty else {
            wantsAgain = true
            return []
        }
        began = now
        trouble = nil
        dueAt = nil
        asking = Set(types)
        guard !types.isEmpty else { return [.pollEnded] }
        return [.wake(at: nil)] + types.map { .query(type: $0, since: start(of: $0)) }
    }

    /// What the last page of a type brought could not be kept: the type is as far as it was before that page.
    ///
    /// To be followed by `failed`.
    package mutating func takeBack(_ type: String, to mark: Mark?) { marks[type] = mark }

    private func start(of type: String) -> Timestamp? {
        guard let watermark = marks[type]?.watermark else { return nil }
        return watermark + (.zero - settings.overlap)
    }

    /// Notes what a page holds and says which of it is news.
    private mutating func see(_ sightings: [Sighting], _ type: String) -> [Int] {
        var mark = marks[type] ?? Mark()
        var news: [Int] = []
        for (position, sighting) in sightings.enumerated() where mark.recent[sighting.recordName] != sighting.changeTag
        {
            news.append(position)
            mark.recent[sighting.recordName] = sighting.changeTag
            mark.recentTimes[sighting.recordName] = sighting.modified
            mark.watermark = max(mark.watermark ?? sighting.modified, sighting.modified)
        }
        if let watermark = mark.watermark {
            // Twice the overlap: the next question reaches back from a watermark that may still grow within this poll.
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
        _ failure: Trouble?,
        _ now: Moment,
        _ random: inout some RandomNumberGenerator
    ) -> [Effect] {
        asking.remove(type)
        if let failure, failure.isRetriedAutomatically { trouble = trouble ?? failure }
        var effects: [Effect] = [.ended(type: type, failure)]
        guard asking.isEmpty else { return effects }
        effects.append(.pollEnded)
        if wantsAgain {
            wantsAgain = false
            return effects + begin(now)
        }
        if let trouble {
            dueAt = now + (trouble.retryAfter ?? min(backoff.failed(using: &random), settings.interval))
        } else {
            backoff.succeeded()
            dueAt = max(now, began + settings.interval)
        }
        return effects + [.wake(at: due)]
    }
}
