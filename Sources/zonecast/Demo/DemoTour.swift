import Foundation
import Synchronization
import ZoneKit
import ZoneMirror

/// The demo's scenes, each ending with a check that is printed.
///
/// `DemoTour+Scenes` and `DemoTour+Sharing` implement them.
final class DemoTour: Sendable {
    struct Scene: Sendable {
        var title: String
        /// Returns the check's result as text.
        var play: @Sendable () async throws -> String
    }

    let world: DemoWorld
    /// The first scene's p50, for the last line.
    private let median = Mutex<Double?>(nil)
    /// The number of writes that the scenes expect to be refused.
    private let refusalsWanted = Mutex(0)

    var journal: DemoJournal { world.journal }

    init(world: DemoWorld) { self.world = world }

    /// Plays all scenes; returns whether all checks passed.
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
                // Cancelled by the caller, who reports the reason.
                guard !Task.isCancelled else { return false }
                journal.note("tour", "check \(number + 1)", "✘ \(scene.title): \(Self.words(error))")
                // A failed scene must not affect the next one.
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
            Scene(title: "a deletion reaches a device that was offline", play: { try await self.deletion() }),
            Scene(title: "a list shared read-only", play: { try await self.sharedReadOnly() }),
            Scene(title: "made read-write", play: { try await self.madeReadWrite() }),
            Scene(title: "a participant removed", play: { try await self.participantRemoved() }),
            Scene(title: "shared again, then stopped", play: { try await self.sharingStopped() }),
            Scene(title: "the public board, by polling", play: { try await self.publicBoard() }),
        ]
        if world.relay != nil {
            scenes.append(Scene(title: "kill -9 of the relay during traffic", play: { try await self.killedRelay() }))
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
                median.withLock { $0 }.map { String(format: "p50 %.0f ms from save to shown", $0) },
                "\(held) of \(count) scenes passed",
            ]
            let holds = held == count && refused == wanted
            let mark = refused == wanted ? "" : "✘ \(wanted) refusals expected · "
            journal.conclude("tour", mark + facts.compactMap { $0 }.joined(separator: " · "))
            return holds
        } catch {
            guard !Task.isCancelled else { return false }
            journal.conclude("tour", "✘ \(Self.words(error)) · \(held) of \(count) scenes passed")
            return false
        }
    }

    static func words(_ error: any Error) -> String {
        (error as? CommandFailure)?.description ?? (error as? MirrorError)?.explanation
            ?? (error as? CKError)?.localizedDescription ?? "\(error)"
    }

    // MARK: Shared by scenes

    func keepMedian(_ delays: [Double]) { median.withLock { $0 = delays.percentile(0.5) } }

    /// Records that a scene expects one refused write.
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
