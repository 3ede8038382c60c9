import Foundation
import ZoneMirror

/// Random concurrent load for a bounded time: clients write, go offline and restart, and the relay is killed.
///
/// At the end everything is restored, and every mirror must equal the relay.
final class DemoChaos: Sendable {
    private let world: DemoWorld
    private let length: Duration
    private let seed: UInt64
    /// The time between two steps.
    private static let pace = Duration.milliseconds(100)

    /// Counts of the steps, for the last line.
    private struct Sum {
        var writes = 0
        var cuts = 0
        var restarts = 0
        var kills = 0

        var words: String {
            "\(writes) writes, \(cuts) cuts, \(restarts) client restart\(restarts == 1 ? "" : "s"), the relay killed \(kills == 1 ? "once" : "\(kills) times")"
        }
    }

    init(world: DemoWorld, length: Duration, seed: UInt64) {
        self.world = world
        self.length = length
        self.seed = seed
    }

    private var journal: DemoJournal { world.journal }

    /// Runs the plan; returns whether the check passed.
    func play() async -> Bool {
        journal.note("chaos", "begin", "for \(length.inWords); to repeat: --script chaos --seed \(seed)")
        let refusals = world.ledger.refusals
        var sum = Sum()
        do {
            let plan = ChaosPlan(clients: world.clients.count, hasRelay: world.relay != nil, seed: seed)
            sum = try await run(plan)
            try await mend()
            try await world.waitUntilEqual()
            let comparison = try await world.compareWithRelay()
            let refused = world.ledger.refusals - refusals
            let facts =
                "\(sum.words) · \(world.clients.count) mirrors equal the relay · \(comparison.lost) lost · "
                + "\(comparison.duplicated) duplicated"
            guard refused == 0 else {
                journal.conclude("chaos", "✘ \(refused) writes refused, 0 expected · \(facts)")
                return false
            }
            journal.conclude("chaos", "✔ \(facts)")
            return true
        } catch {
            // Cancelled by the caller, who reports the reason.
            guard !Task.isCancelled else { return false }
            journal.conclude("chaos", "✘ \(DemoTour.words(error)) · seed \(seed), \(sum.words)")
            return false
        }
    }

    private func run(_ first: ChaosPlan) async throws -> Sum {
        var (plan, sum) = (first, Sum())
        let end = ContinuousClock.now + length
        while ContinuousClock.now < end {
            let step = plan.next { client in world.clients[client].notes().map(\.name) }
            try await perform(step, &plan, &sum)
            try await Task.sleep(for: Self.pace)
        }
        return sum
    }

    private func perform(_ step: ChaosPlan.Step, _ plan: inout ChaosPlan, _ sum: inout Sum) async throws {
        switch step {
        case .add(let number):
            plan.added(try world.add("Note \(sum.writes + 1)", on: world.clients[number]).name, by: number)
            sum.writes += 1
        case .edit(let number, let name):
            let client = world.clients[number]
            // The note may have been deleted meanwhile.
            guard var note = client.notes().first(where: { $0.name == name }) else { return }
            note.title = "Note \(sum.writes + 1)"
            note.done.toggle()
            try client.save(note)
            sum.writes += 1
        case .delete(let number, let name):
            try world.delete(name, on: world.clients[number])
            sum.writes += 1
        case .post(let number):
            _ = try world.clients[number].post("Post \(sum.writes + 1)")
            sum.writes += 1
        case .cut(let number):
            world.clients[number].goOffline()
            sum.cuts += 1
        case .heal(let number): await world.clients[number].goOnline()
        case .restart(let number):
            try await world.clients[number].restart()
            sum.restarts += 1
        case .killRelay:
            world.relay?.kill()
            journal.note("relay", "kill -9", "during traffic; the clients continue")
            sum.kills += 1
        case .startRelay: try await startRelay()
        }
    }

    private func startRelay() async throws {
        guard let relay = world.relay, !relay.isRunning else { return }
        try await relay.start()
        journal.note("relay", "restart", "on the same folder and port")
    }

    private func mend() async throws {
        try await startRelay()
        for client in world.clients where !client.isOnline { await client.goOnline() }
        journal.note("chaos", "end", "everything is restored; now all mirrors must become equal to the relay")
    }
}

/// A random test plan: the same seed and the same client states produce the same steps.
///
/// A value without clients. Offline times and outages are bounded, so that changes always get through eventually.
struct ChaosPlan: Sendable {
    enum Step: Equatable, Sendable {
        case add(client: Int)
        case edit(client: Int, note: String)
        case delete(client: Int, note: String)
        case post(client: Int)
        case cut(client: Int)
        case heal(client: Int)
        case restart(client: Int)
        case killRelay
        case startRelay
    }

    /// The maximum number of steps a client stays offline.
    static let longestCut = 16
    /// The maximum number of steps the relay stays down.
    static let longestOutage = 10

    private let clients: Int
    private let hasRelay: Bool
    private var dice: Dice
    /// The remaining offline steps, by client.
    private var away: [Int: Int] = [:]
    /// The remaining steps without a relay; 0: the relay is running.
    private var outage = 0
    /// The clients that have written each note.
    ///
    /// A note written by two devices is never deleted: whether a late edit or the deletion wins depends on the merge
    /// policy, so neither outcome would be a loss.
    private var writers: [String: Set<Int>] = [:]
    private var deleted: Set<String> = []

    /// - Parameters:
    ///   - clients: The number of clients.
    ///   - hasRelay: Whether the relay may be killed.
    ///   - seed: The seed of the random numbers.
    init(clients: Int, hasRelay: Bool, seed: UInt64) {
        self.clients = clients
        self.hasRelay = hasRelay
        dice = Dice(state: seed)
    }

    /// Returns the next step; `notes` returns the names of the notes that a client shows.
    mutating func next(notes: (Int) -> [String]) -> Step {
        for (client, steps) in away { away[client] = steps - 1 }
        if let back = away.filter({ $0.value <= 0 }).keys.min() {
            away[back] = nil
            return .heal(client: back)
        }
        if outage > 0 {
            outage -= 1
            if outage == 0 { return .startRelay }
        }
        let client = Int(dice.next(below: UInt64(clients)))
        switch dice.next(below: 100) {
        case ..<12 where away[client] == nil:
            away[client] = 1 + Int(dice.next(below: UInt64(Self.longestCut)))
            return .cut(client: client)
        case 12..<16: return .restart(client: client)
        case 16..<18 where hasRelay && outage == 0:
            outage = 1 + Int(dice.next(below: UInt64(Self.longestOutage)))
            return .killRelay
        case 18..<22: return .post(client: client)
        case 22..<60: return edit(client, notes(client)) ?? .add(client: client)
        case 60..<68: return delete(client, notes(client)) ?? .add(client: client)
        default: return .add(client: client)
        }
    }

    /// Records the name of a new note and its author.
    mutating func added(_ note: String, by client: Int) { writers[note, default: []].insert(client) }

    private mutating func edit(_ client: Int, _ notes: [String]) -> Step? {
        guard let note = choose(notes.filter { !deleted.contains($0) }) else { return nil }
        writers[note, default: []].insert(client)
        return .edit(client: client, note: note)
    }

    private mutating func delete(_ client: Int, _ notes: [String]) -> Step? {
        guard let note = choose(notes.filter { writers[$0] == [client] && !deleted.contains($0) }) else { return nil }
        deleted.insert(note)
        return .delete(client: client, note: note)
    }

    private mutating func choose(_ notes: [String]) -> String? {
        notes.isEmpty ? nil : notes[Int(dice.next(below: UInt64(notes.count)))]
    }

    /// SplitMix64: small, and identical on all machines.
    private struct Dice {
        var state: UInt64

        mutating func next(below bound: UInt64) -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return (word ^ (word >> 31)) % bound
        }
    }
}
