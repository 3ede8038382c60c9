import Foundation
import Records
import Synchronization
import Wire
import ZoneKit

/// One line of the demo's log.
struct DemoLine: Equatable, Sendable, Encodable {
    /// Seconds since the demo's start.
    var seconds: Double
    var who: String
    var what: String
    var detail: String

    /// The line as text: seconds, who, what and detail in columns.
    var text: String {
        let time = String(format: "%7.3fs", seconds)
        return "\(time)  \(who.filled(to: 13)) \(what.filled(to: 8)) \(detail)"
    }
}

/// The demo's log, and the delays from a save to its display elsewhere.
final class DemoJournal: Sendable {
    /// Where lines are printed.
    enum Output: Sendable {
        /// Nowhere; the panes show them.
        case none
        case plain
        /// One JSON object for each line.
        case json
    }

    private struct State {
        var lines: [DemoLine] = []
        /// When a version of a note was saved, by name and text.
        var saves: [String: ContinuousClock.Instant] = [:]
        var delays: [Double] = []
        var isCounting = false
        var isConcluded = false
        /// Write requests in flight.
        var writes: Set<Int> = []
        var lastWrite = 0
        var delayed: [DelayedStep] = []
    }

    /// A step that a client received while write requests were in flight, which may be its cause.
    ///
    /// The relay commits, then sends notices: a notice may arrive before the writer's response, by which the commit
    /// becomes known. The log shows them in causal order.
    private struct DelayedStep {
        var step: DemoTranscript.Step
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
            let step = DemoTranscript.Step(who, what, detail)
            // After the same client's earlier steps that are still held back.
            guard let last = state.delayed.last(where: { $0.client == who }) else { return take(step, &state) }
            state.delayed.append(DelayedStep(step: step, client: who, writes: last.writes))
        }
    }

    /// Logs a step that a client received from the relay, after the writes in flight.
    func received(_ step: DemoTranscript.Step, by client: String) {
        state.withLock { state in
            let isFirst = state.writes.isEmpty && !state.delayed.contains { $0.client == client }
            guard !isFirst else { return take(step, &state) }
            state.delayed.append(DelayedStep(step: step, client: client, writes: state.writes))
        }
    }

    /// Returns the write's number, for `writeEnded`.
    func writeStarted() -> Int {
        state.withLock { state in
            state.lastWrite += 1
            state.writes.insert(state.lastWrite)
            return state.lastWrite
        }
    }

    /// Called when a write is answered or has failed; `steps` come from the response.
    func writeEnded(_ number: Int, of client: String, _ steps: [DemoTranscript.Step]) {
        state.withLock { state in
            // The client's earlier steps come first.
            release(&state) { $0.client == client }
            for step in steps { take(step, &state) }
            state.writes.remove(number)
            for index in state.delayed.indices { state.delayed[index].writes.remove(number) }
            release(&state) { $0.writes.isEmpty }
        }
    }

    private func release(_ state: inout State, _ isDue: (DelayedStep) -> Bool) {
        let due = state.delayed.filter(isDue)
        state.delayed.removeAll(where: isDue)
        for delayed in due { take(delayed.step, &state) }
    }

    private func take(_ step: DemoTranscript.Step, _ state: inout State) {
        take(DemoLine(seconds: seconds, who: step.who, what: step.what, detail: step.detail), &state)
    }

    /// Logs a script's verdict, the last line that is printed.
    ///
    /// Clients continue until they are closed; their later lines are only stored.
    func conclude(_ who: String, _ detail: String) {
        state.withLock { state in
            release(&state) { _ in true }
            take(DemoLine(seconds: seconds, who: who, what: "check", detail: detail), &state)
            state.isConcluded = true
        }
    }

    /// Called with the lock held, so that lines are printed in order.
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

    /// Returns the milliseconds since this version was saved; `nil` if this demo did not save it.
    func shown(_ key: String, counts: Bool = true) -> Double? {
        state.withLock { state in
            guard let saved = state.saves[key] else { return nil }
            let delay = (ContinuousClock.now - saved).milliseconds
            if counts, state.isCounting { state.delays.append(delay) }
            return delay
        }
    }

    /// Starts or stops counting delays; they are meaningful only while all clients are online.
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
    /// Returns a percentile of sorted values; `nil` if there are none.
    func percentile(_ share: Double) -> Double? {
        isEmpty ? nil : self[Swift.min(count - 1, Int(share * Double(count)))]
    }
}

/// Translates a client's requests and responses into log steps; a pure function of the exchanged bytes.
enum DemoTranscript {
    struct Step: Equatable, Sendable {
        var who: String
        var what: String
        var detail: String

        init(_ who: String, _ what: String, _ detail: String) {
            self.who = who
            self.what = what
            self.detail = detail
        }
    }

    /// Whether the request may cause notices to other clients.
    static func isWrite(_ request: RelayRequest) -> Bool {
        ["/records/modify", "/records/move", "/zones/modify"].contains { request.path.hasSuffix($0) }
    }

    static func steps(_ request: RelayRequest, _ response: RelayResponse, client: String) -> [Step] {
        guard let root = try? JSONDocument(parsing: response.body, limits: .response).root else { return [] }
        if request.path.hasSuffix("/records/modify") { return modified(root, client) }
        if request.path.hasSuffix("/changes/zone") { return fetched(request, root, client) }
        if request.path.hasSuffix("/records/move") { return moved(root) }
        if request.path.hasSuffix("/zones/modify") { return zones(root, client) }
        return []
    }

    private static func modified(_ root: JSONValue, _ client: String) -> [Step] {
        var steps: [Step] = []
        try? ClientResponse.records(root, zone: nil) { entry in
            switch entry {
            case .record(let record):
                let what = "\(record.type)/\(record.id.recordName)  tag \(record.changeTag ?? "–")"
                steps.append(Step("relay", "commit", what))
            case .share(let record, _):
                var title = ""
                if case .string(let text)? = record.fields["cloudkit.title"] { title = " \"\(text)\"" }
                let what = "share\(title)  tag \(record.changeTag ?? "–")"
                steps.append(Step("relay", "commit", what))
            case .deleted(let name, let type, _):
                let what = "\(type ?? "Note")/\(name) deleted"
                steps.append(Step("relay", "commit", what))
            case .failed(let name, let failure): steps += refused(name, failure, client)
            }
        }
        return steps
    }

    private static func refused(_ name: String?, _ failure: ClientResponse.Failure, _ client: String) -> [Step] {
        let name = name ?? "a record"
        switch failure.error.code {
        case .conflict:
            let what = "Note/\(name) has changed on the relay too: merged here and sent again"
            return [Step(client, "conflict", what)]
        // Another record of the same request is the cause, and is reported itself.
        case .atomicError: return []
        default:
            let what = "Note/\(name) by \(client): \(failure.error.code.rawValue)"
            return [Step("relay", "refuse", what)]
        }
    }

    private static func fetched(_ request: RelayRequest, _ root: JSONValue, _ client: String) -> [Step] {
        guard let entry = try? root.required("zones").elements().first,
            let end = try? ClientResponse.pageEnd(entry)
        else { return [] }
        var (changed, deleted) = (0, 0)
        try? ClientResponse.records(entry, zone: nil) { item in
            switch item {
            case .record, .share: changed += 1
            case .deleted: deleted += 1
            case .failed: break
            }
        }
        guard changed + deleted > 0 else { return [] }
        let requested = try? JSONDocument(parsing: request.body, limits: .response).root.required("zones").elements()
            .first
        let since = (try? requested?["syncToken"]?.string()).flatMap { $0 }
        let name = (try? ClientResponse.zone(of: entry)).flatMap { $0 }.map { zone($0.zoneName) } ?? "a zone"
        let (from, to) = (position(since), position(end.syncToken))
        let what = "\(name) since \(from) → \(changed) changed, \(deleted) deleted, token \(to)"
        return [Step(client, "fetch", what)]
    }

    /// Records that move when a share begins or ends, all in one commit or not at all.
    private static func moved(_ root: JSONValue) -> [Step] {
        let entries = (try? root.required("records").elements()) ?? []
        let names = entries.compactMap { entry in
            entry["serverErrorCode"] == nil ? try? entry["recordName"]?.string() : nil
        }
        let target = root["destination"].flatMap { (try? ClientResponse.zone(of: $0)).flatMap { $0 } }
        guard let target, !names.isEmpty else { return [] }
        let what = "\(names.joined(separator: ", ")) moved to \(zone(target.zoneName)), all at once"
        return [Step("relay", "commit", what)]
    }

    private static func zones(_ root: JSONValue, _ client: String) -> [Step] {
        let entries = (try? ClientResponse.zones(root)) ?? []
        return entries.compactMap { entry in
            switch entry {
            case .zone(let made):
                Step("relay", "commit", "zone \(zone(made.id.zoneName)) of \(client)")
            case .deleted(let removed, _):
                Step("relay", "commit", "zone \(zone(removed.zoneName)) deleted")
            case .failed: nil
            }
        }
    }

    /// Returns a change token's position, for comparison.
    static func position(_ token: String?) -> String {
        token.flatMap { ChangeToken(encoded: $0) }.map { "\($0.position)" } ?? "–"
    }

    /// Returns a zone's name for the log; shortens the UUID of a share's zone.
    static func zone(_ name: String) -> String {
        guard name.hasPrefix("com.apple.coredata.cloudkit.share.") else { return name }
        return "share-\(name.suffix(4).lowercased())"
    }
}
