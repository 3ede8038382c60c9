import Foundation
import Synchronization

/// One step of the demo's story.
struct DemoLine: Equatable, Sendable, Encodable {
    /// Since the demo's start.
    var seconds: Double
    var who: String
    var what: String
    var detail: String

    /// The line for people: seconds, who, what and the rest in columns.
    var text: String {
        let time = String(format: "%7.3fs", seconds)
        return "\(time)  \(who.filled(to: 13)) \(what.filled(to: 8)) \(detail)"
    }
}

/// All that has happened, and how long saves took to be shown elsewhere.
final class DemoJournal: Sendable {
    /// Where lines go as they are taken.
    enum Output: Sendable {
        /// Kept for the panes only.
        case none
        case plain
        /// One JSON object for each line.
        case json
    }

    private struct State {
        var lines: [DemoLine] = []
        /// When a version of a note was saved, by note and text.
        var saves: [String: ContinuousClock.Instant] = [:]
        var delays: [Double] = []
        var isCounting = false
        var isConcluded = false
        /// Requests whose answer is still to come.
        var writes: Set<Int> = []
        var lastWrite = 0
        var held: [Held] = []
    }

    /// What a client has heard while others waited for the answer to a write that may be the cause.
    ///
    /// The relay commits, then tells everybody at once: a notice may be here before the writer's own answer, by which alone the
    /// commit is known. The story has them in the order in which they happened.
    private struct Held {
        var step: DemoOverheard.Step
        var client: String
        var writes: Set<Int>
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now
    private let output: Output

    init(_ output: Output) { self.output = output }

    /// Seconds since the demo's start.
    var seconds: Double { (ContinuousClock.now - start).milliseconds / 1000 }

    func note(_ who: String, _ what: String, _ detail: String) {
        state.withLock { state in
            let step = DemoOverheard.Step(who, what, detail)
            // Behind what the same client has heard before.
            guard let last = state.held.last(where: { $0.client == who }) else { return take(step, &state) }
            state.held.append(Held(step: step, client: who, writes: last.writes))
        }
    }

    /// What a client hears from the relay; behind the writes that are under way.
    func hear(_ step: DemoOverheard.Step, by client: String) {
        state.withLock { state in
            let isFirst = state.writes.isEmpty && !state.held.contains { $0.client == client }
            guard !isFirst else { return take(step, &state) }
            state.held.append(Held(step: step, client: client, writes: state.writes))
        }
    }

    /// Gives the write's number, for its end.
    func writeBegins() -> Int {
        state.withLock { state in
            state.lastWrite += 1
            state.writes.insert(state.lastWrite)
            return state.lastWrite
        }
    }

    /// A write is answered, or is not any more; `steps` are what the answer says.
    func writeEnded(_ number: Int, of client: String, _ steps: [DemoOverheard.Step]) {
        state.withLock { state in
            // What its client has done before comes first.
            release(&state) { $0.client == client }
            for step in steps { take(step, &state) }
            state.writes.remove(number)
            for index in state.held.indices { state.held[index].writes.remove(number) }
            release(&state) { $0.writes.isEmpty }
        }
    }

    private func release(_ state: inout State, _ isDue: (Held) -> Bool) {
        let due = state.held.filter(isDue)
        state.held.removeAll(where: isDue)
        for held in due { take(held.step, &state) }
    }

    private func take(_ step: DemoOverheard.Step, _ state: inout State) {
        take(DemoLine(seconds: seconds, who: step.who, what: step.what, detail: step.detail), &state)
    }

    /// A script's verdict: the last line that is put out.
    ///
    /// Clients go on until they are closed; what they say after it is only kept.
    func conclude(_ who: String, _ detail: String) {
        state.withLock { state in
            release(&state) { _ in true }
            take(DemoLine(seconds: seconds, who: who, what: "check", detail: detail), &state)
            state.isConcluded = true
        }
    }

    /// Under the lock, so that lines come out in the order in which they were taken.
    private func take(_ line: DemoLine, _ state: inout State) {
        state.lines.append(line)
        if state.lines.count > 2000 { state.lines.removeFirst(1000) }
        guard !state.isConcluded else { return }
        switch output {
        case .none: break
        case .plain: Terminal.say(line.text)
        case .json: try? Terminal.say(json: line)
        }
    }

    func saved(_ key: String) { state.withLock { $0.saves[key] = .now } }

    /// How many milliseconds ago this was saved; `nil` for what was not saved by this demo.
    func shown(_ key: String, counts: Bool = true) -> Double? {
        state.withLock { state in
            guard let saved = state.saves[key] else { return nil }
            let delay = (ContinuousClock.now - saved).milliseconds
            if counts, state.isCounting { state.delays.append(delay) }
            return delay
        }
    }

    /// Counts delays from now on, or no longer: only while every client is online do they say anything.
    func countDelays(_ isCounting: Bool) {
        state.withLock { state in
            if isCounting { state.delays = [] }
            state.isCounting = isCounting
        }
    }

    var delays: [Double] { state.withLock { $0.delays.sorted() } }

    func last(_ count: Int) -> [DemoLine] { state.withLock { Array($0.lines.suffix(count)) } }
}

extension [Double] {
    /// Of sorted values; `nil` when there are none.
    func percentile(_ share: Double) -> Double? {
        isEmpty ? nil : self[Swift.min(count - 1, Int(share * Double(count)))]
    }
}
