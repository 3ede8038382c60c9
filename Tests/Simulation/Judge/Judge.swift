import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization
import Wire
import ZoneTesting

/// Observes all traffic between the relay and its devices, and compares it with the store.
///
/// Checks invariants a to l of Reliability.md, "Invariants", as far as they are visible from outside. `Simulation`
/// checks what only the devices can show.
final class Judge: Witness {
    let clock: TestClock
    let state = Mutex(State())
    /// The record name of each user.
    let people = Mutex<[String: String]>([:])

    /// Returns whether the relay's disk works.
    let isDiskSound = Mutex<@Sendable () -> Bool>({ true })

    /// `nil` until the relay exists.
    let files = Mutex<FileCarrier?>(nil)

    init(clock: TestClock) { self.clock = clock }

    var violations: [String] { state.withLock { $0.violations } }
    var truth: Truth { state.withLock { $0.truth } }
    var now: Int64 { clock.now.offset.inMilliseconds }

    func note(_ line: @autoclosure () -> String) {
        let text = "\(now) \(line())"
        state.withLock { $0.note(text) }
    }

    func accuse(_ invariant: Character, _ what: String) {
        let time = now
        state.withLock { $0.accuse(invariant, what, time) }
    }

    /// The user's record name, or `user` itself until `people` is set.
    func names(_ user: String) -> String { people.withLock { $0[user] } ?? user }

    // MARK: Witness

    func opened(_ store: SQLiteStore) {
        do {
            let found = try Truth(store)
            let report = try store.integrityReport()
            if report != "ok" { accuse("k", "the store is damaged: \(report)") }
            let time = now
            state.withLock { state in
                state.isBlind = false
                if found.lastChange < state.toldBlindly {
                    state.accuse(
                        "e",
                        "change \(state.toldBlindly) was announced, and the store ends with \(found.lastChange)",
                        time
                    )
                }
                state.toldBlindly = 0
                // Change numbers are never reused: writes in progress at the crash may be stored, and nothing else.
                for zone in state.truth.zones.keys where !state.mayHaveHappened(found, in: zone) {
                    state.accuse(
                        "a",
                        "after a restart \(zone) is \(found[zone]), and was \(state.truth[zone])",
                        time
                    )
                }
                state.take(found, [:], time)
            }
            note("relay starts")
        } catch {
            accuse("k", "the store cannot be read: \(error)")
        }
    }

    func committed(_ commit: Commit, in store: SQLiteStore) {
        state.withLock { state in
            state.commits += 1
            for change in commit.zones {
                let author = (change.author ?? change.zone.owner).recordName
                state.authors[ZoneName(owner: change.zone.owner.recordName, name: change.zone.zoneName)] =
                    Author(user: author, device: change.device)
            }
        }
    }

    func wrote(in store: SQLiteStore) {
        do {
            let before = state.withLock { $0.truth }
            // Every 16th commit reads the whole store, to find changes without a new change number.
            let isFull = state.withLock { $0.history.count % 16 == 15 }
            let found = isFull ? try Truth(store) : try before.after(store)
            let time = now
            state.withLock { state in
                let authors = state.authors
                state.authors = [:]
                if found != before { state.take(found, authors, time) }
            }
        } catch {
            if isDiskSound.withLock({ $0() }) {
                accuse("k", "the store cannot be read: \(error)")
            } else {
                state.withLock { $0.isBlind = true }
            }
        }
    }

    func asked(_ request: APIRequest, number: UInt64) {
        let body = try? JSONDocument(parsing: request.body).root
        let user = names(request.user)
        let attempts = body.map { self.attempts(in: $0, of: request) } ?? []
        let marked = state.withLock({ $0.secrets.isEmpty }) ? [] : Self.marked(in: request.body)
        state.withLock { state in
            state.requests += 1
            if let secret = marked.first(where: { state.secrets.contains($0) }) {
                state.accuse("f", "\(request.device) told the relay \(secret), which was to be encrypted", now)
            }
            state.open[number] = Open(since: state.history.count - 1, removed: state.removed)
            for attempt in attempts {
                state.attempted[attempt.text, default: []].insert(attempt.home)
                state.refused[attempt.text] = nil
                state.open[number]?.texts.insert(attempt.text)
                state.judgeWriter(of: attempt.text, sentBy: user, now)
            }
            guard request.path.hasSuffix("s/modify"), let id = try? body?["operationID"]?.string() else { return }
            let name = WriteName(user: user, id: id)
            for other in state.open.keys where state.open[other]?.write == name {
                state.open[other]?.isDoubled = true
                state.open[number]?.isDoubled = true
            }
            state.open[number]?.write = name
            state.open[number]?.isRepeat = state.done[name] != nil
        }
    }

    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse) {
        guard let open = state.withLock({ $0.open.removeValue(forKey: number) }) else { return }
        let operation = request.path.split(separator: "/").dropFirst(4).joined(separator: "/")
        let name = request.device.hasPrefix(request.user) ? "" : " as \(request.user)"
        note("\(request.device)\(name) \(operation): \(answer.status.code)")
        guard !state.withLock({ $0.isBlind }) else { return }
        if answer.status.code >= 500, answer.status.code != 503 {
            accuse(
                "k",
                "\(operation) failed with status \(answer.status.code): \(String(decoding: answer.body, as: UTF8.self))"
            )
        }
        let exchange = Exchange(request: request, operation: operation, answer: answer, open: open)
        judgeTexts(of: answer.body, to: names(request.user), in: exchange)
        guard let said = try? JSONDocument(parsing: answer.body).root else { return }
        let asked = try? JSONDocument(parsing: request.body).root
        do {
            try judgeRecords(said, exchange)
            guard let asked else { return }
            if operation.hasSuffix("records/modify") { try judgeWrite(asked, said, exchange) }
            if operation.hasSuffix("zones/modify") { try judgeZones(asked, said, exchange) }
            if operation.hasSuffix("changes/zone") { try judgeFeed(asked, said, exchange) }
            if operation.hasSuffix("changes/database") { try judgeDatabaseFeed(asked, said, exchange) }
        } catch {
            accuse("b", "\(operation) has a malformed response: \(error)")
        }
    }
}

/// A request with its response.
struct Exchange {
    var request: APIRequest
    /// Such as `private/records/modify`.
    var operation: String
    var answer: APIResponse
    var open: Judge.Open

    var isShared: Bool { operation.hasPrefix("shared/") }
    var isPublic: Bool { operation.hasPrefix("public/") }
    var device: String { request.device }
}

extension APIRequest {
    var device: String { headers[.init("X-Zonecast-Device-ID") ?? .userAgent] ?? "?" }

    /// The user: NAME for the token `dev-NAME`; for other tokens, the prefix of the device's name.
    var user: String {
        let token = query?.split(separator: "&").first { $0.hasPrefix("ckWebAuthToken=") }?.dropFirst(15)
        guard let token else { return "" }
        return String(token.hasPrefix("dev-") ? token.dropFirst(4) : device.prefix { $0 != "-" })
    }
}

extension Duration {
    var inMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
