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
            try await world.settle()
            let verdict = try await world.judge()
            let refused = world.ledger.refusals - refusals
            let facts =
                "\(sum.words) · \(world.clients.count) mirrors equal the relay · \(verdict.lost) lost · "
                + "\(verdict.duplicated) duplicated"
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
