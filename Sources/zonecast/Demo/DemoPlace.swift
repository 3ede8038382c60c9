import Foundation
import Synchronization

/// What all clients of a demo have in common.
struct DemoPlace: Sendable {
    var url: URL
    var container: String
    var apiToken: String?
    /// Web auth tokens by user, for a relay elsewhere; without one, `dev-NAME`.
    var webTokens: [String: String] = [:]
    var folder: String
    /// Part of every device's name, and of record names on a relay elsewhere, so that runs do not meet.
    var run: String
    /// The relay is the demo's own: nobody else's records are there.
    var isOwnRelay: Bool
    var boardInterval: Duration
    var journal: DemoJournal
    let people = DemoPeople()
    let ledger = DemoLedger()

    /// Accounts that hold other things too: the demo stays in a zone of its own there, and takes it away in the end.
    var isBorrowed: Bool { !webTokens.isEmpty }
    var zoneName: String { isBorrowed ? "Notes-\(run)" : "Notes" }
    private var prefix: String { isOwnRelay ? "" : "\(run)-" }

    func webToken(of user: String) -> String { webTokens[user] ?? "dev-\(run)-\(user)" }

    /// A record's name; numbers are given once in a run.
    func name(_ kind: String, _ number: Int) -> String { prefix + kind + String(format: "%03d", number) }

    /// Whether a record is of this run.
    func isOurs(_ name: String) -> Bool { !isBorrowed && isOwnRelay || name.hasPrefix(prefix) }
}

/// The people of a demo by the names that the relay has for them.
final class DemoPeople: Sendable {
    private let names = Mutex<[String: String]>([:])

    func meet(_ user: String, as recordName: String) { names.withLock { $0[recordName] = user } }
    func name(of recordName: String?) -> String? { recordName.flatMap { name in names.withLock { $0[name] } } }
    func recordName(of user: String) -> String? { names.withLock { $0.first { $0.value == user }?.key } }
}

/// What must be there in the end: every note that was written and not deleted, by whose it is.
///
/// A write that the relay refuses is taken back here as it is in the mirrors.
final class DemoLedger: Sendable {
    private struct State {
        /// The owner of each note that must be there.
        var owners: [String: String] = [:]
        /// Of notes deleted, to be put back should the relay refuse that.
        var deleted: [String: String] = [:]
        var refusals = 0
        var lastNumber = 0
    }

    private let state = Mutex(State())

    var nextNumber: Int {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    /// How many writes the relay has refused so far.
    var refusals: Int { state.withLock { $0.refusals } }

    func added(_ note: String, of owner: String) { state.withLock { $0.owners[note] = owner } }

    func deleted(_ note: String) {
        state.withLock { $0.deleted[note] = $0.owners.removeValue(forKey: note) }
    }

    /// The relay refused a write: what it would have made is not expected, what it would have deleted is.
    func refused(_ note: String, isDeletion: Bool, isNew: Bool) {
        state.withLock { state in
            state.refusals += 1
            if isDeletion { state.owners[note] = state.deleted[note] }
            if isNew { state.owners[note] = nil }
        }
    }

    /// A new note went with the list that it was written into, before the relay had it.
    func dropped(_ note: String) { state.withLock { $0.owners[note] = nil } }

    func notes(of owner: String) -> Set<String> {
        state.withLock { Set($0.owners.filter { $0.value == owner }.keys) }
    }
}
