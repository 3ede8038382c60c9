import Foundation
import Synchronization
import ZoneKit
import ZoneMirror

/// The demo's scenes, each ending in a check that is printed.
///
/// `DemoTour+Scenes` and `DemoTour+Sharing` play them.
final class DemoTour: Sendable {
    struct Scene: Sendable {
        var title: String
        /// Returns what the check found, for people.
        var play: @Sendable () async throws -> String
    }

    let world: DemoWorld
    /// The figure of the first scene, for the last line.
    private let median = Mutex<Double?>(nil)
    /// How many writes the scenes mean to be refused.
    private let refusalsWanted = Mutex(0)

    var journal: DemoJournal { world.journal }

    init(world: DemoWorld) { self.world = world }

    /// Plays all scenes; returns whether every check held.
    func play() async -> Bool {
        var held = 0
        let refusals = world.ledger.refusals
        let scenes = scenes
        for (number, scene) in scenes.enumerated() {
            journal.note("tour", "scene \(number + 1)", scene.title)
            do {
                let found = try await scene.play()
                held += 1
                journal.note("tour", "check \(number + 1)", "✔ \(scene.title): \(found)")
            } catch {
                // Given up by whoever plays it, who says why.
                guard !Task.isCancelled else { return false }
                journal.note("tour", "check \(number + 1)", "✘ \(scene.title): \(Self.words(error))")
                // What one scene left undone must not spoil the next.
                await recover()
            }
            try? await world.rest(4)
        }
        return await conclude(held: held, of: scenes.count, refusalsBefore: refusals)
    }

    private var scenes: [Scene] {
        var scenes = [
            Scene(title: "two devices", play: { try await self.twoDevices() }),
            Scene(title: "offline edits survive a client restart", play: { try await self.offlineEdits() }),
            Scene(title: "conflict", play: { try await self.conflict() }),
            Scene(title: "a delete reaches a device that was away", play: { try await self.deletion() }),
            Scene(title: "a list shared read-only", play: { try await self.sharedReadOnly() }),
            Scene(title: "made read-write", play: { try await self.madeReadWrite() }),
            Scene(title: "a participant removed", play: { try await self.participantRemoved() }),
            Scene(title: "shared again, then stopped", play: { try await self.sharingStopped() }),
            Scene(title: "the public board, by polling", play: { try await self.publicBoard() }),
        ]
        if world.relay != nil {
            scenes.append(Scene(title: "kill -9 of the relay in mid-traffic", play: { try await self.killedRelay() }))
        }
        if world.clients.count > 3 {
            scenes.append(Scene(title: "\(world.clients.count) clients", play: { try await self.crowd() }))
        }
        return scenes
    }

    private func recover() async {
        if let relay = world.relay, !relay.isRunning { try? await relay.start() }
        for client in world.clients where !client.isOnline { await client.goOnline() }
    }

    private func conclude(held: Int, of count: Int, refusalsBefore: Int) async -> Bool {
        let refused = world.ledger.refusals - refusalsBefore
        let wanted = refusalsWanted.withLock { $0 }
        do {
            try await world.settle()
            let verdict = try await world.judge()
            let facts = [
                "\(world.clients.count) mirrors equal the relay", "\(verdict.lost) lost",
                "\(verdict.duplicated) duplicated",
                "\(refused) write\(refused == 1 ? "" : "s") refused" + (refused == wanted ? " as expected" : ""),
                median.withLock { $0 }.map { String(format: "median %.0f ms from save to shown", $0) },
                "\(held) of \(count) scenes held",
            ]
            let holds = held == count && refused == wanted
            let mark = refused == wanted ? "" : "✘ \(wanted) refusals expected · "
            journal.conclude("tour", mark + facts.compactMap { $0 }.joined(separator: " · "))
            return holds
        } catch {
            guard !Task.isCancelled else { return false }
            journal.conclude("tour", "✘ \(Self.words(error)) · \(held) of \(count) scenes held")
            return false
        }
    }

    static func words(_ error: any Error) -> String {
        (error as? CommandFailure)?.description ?? (error as? MirrorError)?.explanation
            ?? (error as? CKError)?.localizedDescription ?? "\(error)"
    }

    // MARK: What scenes have in common

    func keepMedian(_ delays: [Double]) { median.withLock { $0 = delays.percentile(0.5) } }

    /// Says that a scene has had a write refused on purpose.
    func wantedRefusal() { refusalsWanted.withLock { $0 += 1 } }

    /// Waits until a client shows a version of a note.
    func wait(for note: DemoNote, on clients: DemoClient...) async throws {
        for client in clients {
            let what = "\(client.name) to show \"\(note.title)\"\(note.done ? " as done" : "")"
            try await Wait.until(what) { client.notes().contains(note) || client.sharedNotes().contains(note) }
        }
    }

    func waitUntilSent(_ client: DemoClient) async throws {
        try await Wait.until("\(client.name) to have nothing pending") { await client.pending() == 0 }
    }
}
