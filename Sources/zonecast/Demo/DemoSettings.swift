import Foundation
import RelayCore
import RelaySystem
import Synchronization

/// The settings that all clients of a demo share.
struct DemoSettings: Sendable {
    var url: URL
    var container: String
    var apiToken: String?
    /// Web auth tokens by user, for a relay that the demo did not start; users without one use `dev-NAME`.
    var webTokens: [String: String] = [:]
    var folder: String
    /// Part of each device name, and of record names on another relay, so that runs do not collide.
    var run: String
    /// Whether the demo started the relay, so that it contains no other records.
    var isOwnRelay: Bool
    var boardInterval: Duration
    var journal: DemoJournal
    let people = DemoPeople()
    let ledger = DemoLedger()

    /// Whether the accounts may contain other data; then the demo uses a separate zone and deletes it at the end.
    var usesExistingAccounts: Bool { !webTokens.isEmpty }
    var zoneName: String { usesExistingAccounts ? "Notes-\(run)" : "Notes" }
    private var prefix: String { isOwnRelay ? "" : "\(run)-" }

    func webToken(of user: String) -> String { webTokens[user] ?? "dev-\(run)-\(user)" }

    /// Returns a record name; each number is used once per run.
    func name(_ kind: String, _ number: Int) -> String { prefix + kind + String(format: "%03d", number) }

    /// Whether a record belongs to this run.
    func belongsToRun(_ name: String) -> Bool { !usesExistingAccounts && isOwnRelay || name.hasPrefix(prefix) }
}

/// The users of a demo by record name.
final class DemoPeople: Sendable {
    private let names = Mutex<[String: String]>([:])

    func register(_ user: String, as recordName: String) { names.withLock { $0[recordName] = user } }
    func name(of recordName: String?) -> String? { recordName.flatMap { name in names.withLock { $0[name] } } }
    func recordName(of user: String) -> String? { names.withLock { $0.first { $0.value == user }?.key } }
}

/// The notes expected at the end, by owner: all that were written and not deleted.
///
/// Writes that the relay refuses are reverted here as they are in the mirrors.
final class DemoLedger: Sendable {
    private struct State {
        /// The owner of each expected note.
        var owners: [String: String] = [:]
        /// The owners of deleted notes, to restore them if the relay refuses the deletion.
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

    /// The number of refused writes.
    var refusals: Int { state.withLock { $0.refusals } }

    func added(_ note: String, of owner: String) { state.withLock { $0.owners[note] = owner } }

    func deleted(_ note: String) {
        state.withLock { $0.deleted[note] = $0.owners.removeValue(forKey: note) }
    }

    /// Called when the relay refuses a write: a new note is no longer expected, a deleted one is expected again.
    func refused(_ note: String, isDeletion: Bool, isNew: Bool) {
        state.withLock { state in
            state.refusals += 1
            if isDeletion { state.owners[note] = state.deleted[note] }
            if isNew { state.owners[note] = nil }
        }
    }

    /// Called when an unsent new note is dropped together with its list.
    func dropped(_ note: String) { state.withLock { $0.owners[note] = nil } }

    func notes(of owner: String) -> Set<String> {
        state.withLock { Set($0.owners.filter { $0.value == owner }.keys) }
    }
}

/// The temporary folder of a demo's relay and clients.
enum DemoFolder {
    /// The free bytes a demo requires: twice what a tour writes.
    private static let room: Int64 = 32_000_000

    /// Returns a path for a new folder.
    static func path() -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-demo-\(UUID().uuidString)").path
    }

    /// Creates the folder with a subfolder for the relay.
    ///
    /// - Throws: `CommandFailure` if it cannot be written or has too little free space.
    static func make(_ folder: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder + "/relay", withIntermediateDirectories: true)
        } catch {
            let place = FileManager.default.temporaryDirectory.path
            throw refusal("\(place) cannot be written: \(FolderAccess.reason(error)).", "Name")
        }
        if let problem = problem(in: folder) { throw problem }
    }

    /// Returns a failure if the folder's disk is nearly full, which explains other failures there.
    static func problem(in folder: String) -> CommandFailure? {
        guard let free = FreeSpace.bytes(in: folder).map({ Int64(clamping: $0) }), free < room else { return nil }
        let place = FileManager.default.temporaryDirectory.path
        let what = "\(place) has \(ByteText.of(free)) free, and a demo needs \(ByteText.of(room))."
        return refusal(what, "Free disk space, or name")
    }

    private static func refusal(_ what: String, _ way: String) -> CommandFailure {
        CommandFailure(.failed, "\(what) \(way) another folder for the demo's files: TMPDIR=/var/tmp zonecast demo")
    }
}
