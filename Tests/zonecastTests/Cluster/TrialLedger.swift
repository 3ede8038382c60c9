import Foundation
import Synchronization

/// What the writers of a trial have sent, what was confirmed, and what devices on each node have seen.
final class TrialLedger: Sendable {
    struct Entry {
        enum Deletion { case none, sent, confirmed }

        var sent = 0
        var confirmed = 0
        var deletion = Deletion.none
    }

    /// A confirmed value, or deletion, that a device has not seen yet.
    fileprivate struct Unseen {
        var name: String
        /// `nil` if the record was deleted.
        var value: Int?
        var number: Int
        var since: ContinuousClock.Instant
    }

    fileprivate struct State {
        var entries: [String: Entry] = [:]
        var confirmations = 0
        /// How many answers were missing or asked for a repetition.
        var refusals = 0
        var latest = ContinuousClock.now
        /// The longest time without a confirmation in this round.
        var longestGap = Duration.zero
        /// By listener.
        var unseen: [String: [Unseen]] = [:]
        /// Since when a listener's requests have succeeded; `nil` while they fail.
        var healthySince: [String: ContinuousClock.Instant] = [:]
        var objections: [String] = []
        var slowest = Duration.zero
        var seen = 0
    }

    /// How long a change may stay unannounced, with two seconds for the request that fetches it.
    private static let mostTime = Duration.seconds(17)

    /// Whether times are judged, which a busy machine would fail.
    private let judgesTimes: Bool
    private let state = Mutex(State())

    init(judgesTimes: Bool) { self.judgesTimes = judgesTimes }

    var entries: [String: Entry] { state.withLock { $0.entries } }
    var confirmations: Int { state.withLock { $0.confirmations } }
    var refusals: Int { state.withLock { $0.refusals } }
    var longestGap: Duration { state.withLock { max($0.longestGap, .now - $0.latest) } }

    func noteRefusal() { state.withLock { $0.refusals += 1 } }

    func beginRound() { state.withLock { ($0.longestGap, $0.latest, $0.slowest) = (.zero, .now, .zero) } }
    /// What contradicts an invariant.
    var objections: [String] { state.withLock { $0.objections } }
    /// The longest time from a confirmation until a device of a working node had the value.
    var slowest: Duration { state.withLock { $0.slowest } }
    var seen: Int { state.withLock { $0.seen } }

    func object(_ words: String) { state.withLock { if $0.objections.count < 20 { $0.objections.append(words) } } }

    func willSend(_ value: Int, to name: String) { state.withLock { $0.entries[name, default: Entry()].sent = value } }

    func willDelete(_ name: String) { state.withLock { $0.entries[name]?.deletion = .sent } }

    func confirmed(_ value: Int, of name: String) {
        state.withLock { state in
            state.entries[name]?.confirmed = value
            state.confirm(name, value)
        }
    }

    func confirmedDeletion(of name: String) {
        state.withLock { state in
            state.entries[name]?.deletion = .confirmed
            state.confirm(name, nil)
        }
    }

    func add(listener: String) { state.withLock { $0.unseen[listener] = [] } }

    /// A listener's requests succeed or fail.
    func listener(_ name: String, isHealthy: Bool) {
        state.withLock { state in
            state.healthySince[name] = isHealthy ? state.healthySince[name] ?? .now : nil
        }
    }

    /// A listener has read the feed.
    func saw(_ values: [String: Int], by listener: String) {
        state.withLock { state in
            let now = ContinuousClock.now
            let healthySince = state.healthySince[listener] ?? now
            var rest: [Unseen] = []
            for each in state.unseen[listener] ?? [] {
                let isSeen =
                    if let value = each.value {
                        // A deletion that is under way may have hidden it.
                        values[each.name] ?? 0 >= value || state.entries[each.name]?.deletion != Entry.Deletion.none
                    } else {
                        values[each.name] == nil
                    }
                guard isSeen else {
                    rest.append(each)
                    continue
                }
                state.seen += 1
                state.slowest = max(state.slowest, now - max(each.since, healthySince))
            }
            state.unseen[listener] = rest
        }
    }

    /// The number of the latest confirmation that every listener has seen.
    var seenByAll: Int {
        state.withLock { state in
            state.unseen.values.compactMap { $0.first.map { $0.number - 1 } }.min() ?? state.confirmations
        }
    }

    /// Objects to changes that a device of a working node should have been told of.
    func checkNotices() {
        guard judgesTimes else { return }
        state.withLock { state in
            for (listener, unseen) in state.unseen {
                guard let oldest = unseen.first, let healthySince = state.healthySince[listener] else { continue }
                let age = ContinuousClock.now - max(oldest.since, healthySince)
                guard age > Self.mostTime else { continue }
                state.objections.append("e: \(listener) has not been told of \(oldest.name) for \(age)")
                state.unseen[listener] = []
            }
        }
    }
}

extension TrialLedger.State {
    fileprivate mutating func confirm(_ name: String, _ value: Int?) {
        let now = ContinuousClock.now
        confirmations += 1
        (longestGap, latest) = (max(longestGap, now - latest), now)
        for listener in unseen.keys {
            unseen[listener]?.append(.init(name: name, value: value, number: confirmations, since: now))
        }
    }
}
