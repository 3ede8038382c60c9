import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization
import Wire
import ZoneTesting

/// Watches everything that relay and devices say to each other, and holds it against the store itself.
///
/// Invariants a to k of the reliability reference, each by what can be seen from outside; what only the devices can show is
/// `Simulation`'s.
final class Judge: Witness {
    struct State {
        var truth = Truth()
        /// Every state that a zone was in, by the zone's last change then.
        var snapshots: [ZoneName: [(position: UInt64, records: [String: Version])]] = [:]
        /// Every version that was ever committed.
        var committed: [ZoneName: [String: Set<UInt64>]] = [:]
        var highest: UInt64 = 0
        /// What clients asked to be written: nothing else may ever be read.
        var attempted: Set<String> = []
        /// The state that each zone token stands for, as its holders have it.
        var known: [String: Known] = [:]
        /// Whose update of which version was taken.
        var winners: [Base: UInt64] = [:]
        /// Who was removed from a share, and by which request from then on.
        var removed: Set<Removal> = []
        var barred: [UInt64: Set<Removal>] = [:]
        var violations: [String] = []
        var trace: [String] = []
        /// Whether all of the family were there once.
        var isFamilyWhole = false
        var requests = 0
        var commits = 0
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    }

    struct Known: Sendable {
        var zone: ZoneName
        var tags: [String: UInt64]
    }

    struct Base: Hashable, Sendable {
        var zone: ZoneName
        var record: String
        var tag: String
    }

    /// A user, by record name, who is not to see a zone any more.
    struct Removal: Hashable, Sendable {
        var user: String
        var zone: ZoneName
    }

    let clock: TestClock
    let state = Mutex(State())
    /// The record names of users.
    let people = Mutex<[String: String]>([:])

    init(clock: TestClock) { self.clock = clock }

    var violations: [String] { state.withLock { $0.violations } }
    var truth: Truth { state.withLock { $0.truth } }

    func note(_ line: @autoclosure () -> String) {
        let text = "\(clock.now.offset.inMilliseconds) \(line())"
        state.withLock { $0.note(text) }
    }

    func accuse(_ invariant: Character, _ what: String) {
        let time = clock.now.offset.inMilliseconds
        state.withLock { $0.accuse(invariant, what, time) }
    }

    // MARK: Witness

    func opened(_ store: SQLiteStore) {
        do {
            let found = try Truth(store)
            let report = try store.integrityReport()
            if report != "ok" { accuse("k", "the store is damaged: \(report)") }
            let before = truth
            // Commits to the public database are told to nobody, so of that one only what was seen is known.
            let zones = Set(before.zones.keys).union(found.zones.keys).filter { !$0.isPublic }
            for zone in zones where before[zone] != found[zone] {
                accuse("a", "after a restart \(zone) is \(found[zone]), and was \(before[zone])")
            }
            state.withLock { $0.truth = found }
            note("relay begins")
        } catch {
            accuse("k", "the store cannot be read: \(error)")
        }
    }

    func committed(_ commit: Commit, in store: SQLiteStore) {
        do {
            let found = try Truth(store)
            let time = clock.now.offset.inMilliseconds
            state.withLock { state in
                state.commits += 1
                state.take(found, time)
            }
        } catch {
            accuse("k", "the store cannot be read: \(error)")
        }
    }

    func asked(_ request: APIRequest, number: UInt64) {
        state.withLock { state in
            state.requests += 1
            if !state.removed.isEmpty { state.barred[number] = state.removed }
        }
        guard request.path.hasSuffix("/records/modify"), let body = try? JSONDocument(parsing: request.body).root
        else { return }
        let values = Self.texts(ofOperations: body)
        state.withLock { $0.attempted.formUnion(values) }
    }

    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse) {
        let barred = state.withLock { $0.barred.removeValue(forKey: number) } ?? []
        let operation = request.path.split(separator: "/").dropFirst(4).joined(separator: "/")
        note("\(request.device) \(operation): \(answer.status.code)")
        if answer.status.code >= 500, answer.status.code != 503 {
            accuse(
                "k",
                "\(operation) was answered by \(answer.status.code): \(String(decoding: answer.body, as: UTF8.self))"
            )
        }
        guard let asked = try? JSONDocument(parsing: request.body).root,
            let said = try? JSONDocument(parsing: answer.body).root
        else { return }
        do {
            if operation.hasSuffix("records/modify") { try judgeWrite(asked, said, request) }
            if operation.hasSuffix("changes/zone"), answer.status.code == 200 {
                try judgeFeed(asked, said, request, barred)
            }
        } catch {
            accuse("b", "\(operation) has an answer of another form: \(error)")
        }
    }

    func noticed(_ frame: [UInt8], device: String) {
        guard case .notice(let notice)? = try? ServerFrame(decoding: frame), let zone = notice.zone,
            let token = notice.syncToken.flatMap({ ChangeToken(encoded: $0) })
        else { return }
        note("notice to \(device) about \(zone.zoneName)")
        let owner = notice.scope == .private ? notice.user.recordName : zone.owner.recordName
        let name = ZoneName(owner: owner, name: zone.zoneName)
        if token.position > state.withLock({ $0.highest }) {
            accuse("e", "\(device) was told of change \(token.position) of \(name) before it was committed")
        }
    }
}

extension APIRequest {
    var device: String { headers[.init("X-Zonecast-Device-ID") ?? .userAgent] ?? "?" }

    /// `dev-NAME` gives NAME.
    var user: String {
        let token = query?.split(separator: "&").first { $0.hasPrefix("ckWebAuthToken=dev-") }
        return token.map { String($0.dropFirst("ckWebAuthToken=dev-".count)) } ?? ""
    }

}

extension Duration {
    var inMilliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
