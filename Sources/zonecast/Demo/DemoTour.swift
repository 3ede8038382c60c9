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
    private let expectedRefusals = Mutex(0)

    var journal: DemoJournal { world.journal }

    init(world: DemoWorld) { self.world = world }

    /// Plays all scenes; returns whether all checks passed.
    func play() async -> Bool {
        var passed = 0
        let refusals = world.ledger.refusals
        let scenes = scenes
        for (number, scene) in scenes.enumerated() {
            journal.note("tour", "scene \(number + 1)", scene.title)
            do {
                let found = try await scene.play()
                passed += 1
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
        return await conclude(passed: passed, of: scenes.count, refusalsBefore: refusals)
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
        if world.cluster != nil {
            scenes.append(Scene(title: "kill -9 of a node during traffic", play: { try await self.killedNode() }))
            scenes.append(
                Scene(title: "kill -9 of the primary during traffic", play: { try await self.killedPrimary() })
            )
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

    private func conclude(passed: Int, of count: Int, refusalsBefore: Int) async -> Bool {
        let refused = world.ledger.refusals - refusalsBefore
        let wanted = expectedRefusals.withLock { $0 }
        do {
            try await world.waitUntilEqual()
            let comparison = try await world.compareWithRelay()
            let facts = [
                "\(world.clients.count) mirrors equal the relay", "\(comparison.lost) lost",
                "\(comparison.duplicated) duplicated",
                "\(refused) write\(refused == 1 ? "" : "s") refused" + (refused == wanted ? " as expected" : ""),
                median.withLock { $0 }.map { String(format: "p50 %.0f ms from save to shown", $0) },
                "\(passed) of \(count) scenes passed",
            ]
            let holds = passed == count && refused == wanted
            let mark = refused == wanted ? "" : "✘ \(wanted) refusals expected · "
            journal.conclude("tour", mark + facts.compactMap { $0 }.joined(separator: " · "))
            return holds
        } catch {
            guard !Task.isCancelled else { return false }
            journal.conclude("tour", "✘ \(Self.words(error)) · \(passed) of \(count) scenes passed")
            return false
        }
    }

    static func words(_ error: any Error) -> String {
        (error as? CommandFailure)?.description ?? (error as? MirrorError)?.explanation
            ?? (error as? CKError)?.localizedDescription ?? "\(error)"
    }

    // MARK: Shared by scenes

    func recordMedian(_ delays: [Double]) { median.withLock { $0 = delays.percentile(0.5) } }

    /// Records that a scene expects one refused write.
    func expectRefusal() { expectedRefusals.withLock { $0 += 1 } }

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

/// Scenes with one user's devices, the public board and failures.
extension DemoTour {
    func twoDevices() async throws -> String {
        try await world.waitUntilEqual()
        journal.countDelays(true)
        defer { journal.countDelays(false) }
        let titles = [
            "Buy milk", "Call Bob", "Water the plants", "Book a train", "Pay the rent", "Return the books",
            "Sow tomatoes", "Bake a cake", "Visit Carol", "Wind the clock", "Sharpen the knives",
        ]
        for (number, title) in titles.enumerated() {
            let (from, to) = number % 2 == 0 ? (world.phone, world.laptop) : (world.laptop, world.phone)
            let note = try world.add(title, on: from)
            try await wait(for: note, on: to)
            try await world.rest(number < 3 ? 1 : 0.2)
        }
        try world.add("Feed the cat", on: world.tablet)
        try await world.waitUntilEqual()
        recordMedian(journal.delays)
        let median = journal.delays.percentile(0.5) ?? 0
        return String(format: "mirrors equal, p50 %.0f ms from save on one to shown on the other", median)
    }

    func offlineEdits() async throws -> String {
        let (phone, laptop) = (world.phone, world.laptop)
        let known = try first(on: laptop)
        laptop.goOffline()
        try await world.rest()
        let added = try world.add("Written on the train", on: laptop)
        try laptop.save(DemoNote(name: known.name, title: known.title + ", 2 litres"))
        try await world.rest()
        try await laptop.restart()
        let pending = await laptop.pending()
        guard pending == 2, laptop.notes().contains(added) else {
            throw CommandFailure(.failed, "After the restart \(pending) changes were pending instead of 2.")
        }
        try await world.rest()
        await laptop.goOnline()
        try await waitUntilSent(laptop)
        try await wait(for: added, on: phone)
        try await world.waitUntilEqual()
        return "2 pending before the restart and after it, 0 pending once back online, mirrors equal"
    }

    func conflict() async throws -> String {
        let (phone, laptop) = (world.phone, world.laptop)
        let base = try world.add("Pack for the trip", on: phone)
        try await wait(for: base, on: laptop)
        // Different fields.
        phone.goOffline()
        try phone.save(DemoNote(name: base.name, title: "Pack for the trip, warm clothes"))
        try laptop.save(DemoNote(name: base.name, title: base.title, done: true))
        try await waitUntilSent(laptop)
        try await world.rest()
        await phone.goOnline()
        try await wait(
            for: DemoNote(name: base.name, title: "Pack for the trip, warm clothes", done: true),
            on: phone,
            laptop
        )
        try await world.rest()
        // The same field.
        phone.goOffline()
        try phone.save(DemoNote(name: base.name, title: "Pack: said the phone", done: true))
        try laptop.save(DemoNote(name: base.name, title: "Pack: said the laptop", done: true))
        try await waitUntilSent(laptop)
        try await world.rest()
        await phone.goOnline()
        try await wait(for: DemoNote(name: base.name, title: "Pack: said the phone", done: true), on: phone, laptop)
        try await world.waitUntilEqual()
        return "different fields: both kept; same field: the edit that arrives last wins (policy: mine over theirs)"
    }

    func deletion() async throws -> String {
        let (phone, laptop) = (world.phone, world.laptop)
        let note = try world.add("Not needed after all", on: phone)
        try await wait(for: note, on: laptop)
        laptop.goOffline()
        try await world.rest()
        try world.delete(note.name, on: phone)
        try await waitUntilSent(phone)
        guard laptop.notes().contains(note) else {
            throw CommandFailure(
                .failed,
                "The offline \(laptop.name) lost the note before it could learn of the deletion."
            )
        }
        try await world.rest()
        await laptop.goOnline()
        try await Wait.until("the note to disappear from \(laptop.name)") {
            !laptop.notes().contains { $0.name == note.name }
        }
        try await world.waitUntilEqual()
        return "deleted everywhere; the tombstone reached \(laptop.name) when it came back"
    }

    func publicBoard() async throws -> String {
        let interval = world.settings.boardInterval
        journal.note("tour", "board", "polled every \(interval.inWords) here instead of every 30 minutes; no notices")
        let post = try world.tablet.post("Lost: one umbrella")
        let clients = world.clients
        let limit = interval + .seconds(120)
        try await Wait.until("every board to show the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] != nil }
        }
        try await world.waitUntilEqual()
        try world.tablet.hide(post)
        try await Wait.until("every board to hide the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] == nil }
        }
        try await world.waitUntilEqual()
        return "equal after one poll; hidden again by a soft delete, since polls do not see deletions"
    }

    func killedRelay() async throws -> String {
        guard let relay = world.relay else { return "not run: the demo did not start the relay" }
        let titles = (0..<20).map { "Write \($0)" }
        for title in titles {
            for client in world.clients.prefix(3) { try world.add("\(title) by \(client.device)", on: client) }
            if title == titles[8] {
                relay.kill()
                journal.note("relay", "kill -9", "during traffic; the clients continue to write")
            }
            try await Task.sleep(for: .milliseconds(15))
        }
        var pending = 0
        for client in world.clients { pending += await client.pending() }
        try await world.rest()
        try await relay.start()
        journal.note("relay", "restart", "on the same folder and port, \(pending) changes pending in the clients")
        try await world.waitUntilEqual()
        return "60 writes, \(pending) of them pending at the restart; 0 lost, 0 duplicated"
    }

    func crowd() async throws -> String {
        journal.countDelays(true)
        defer { journal.countDelays(false) }
        for client in world.clients { try world.add("Greetings from \(client.name)", on: client) }
        try await world.waitUntilEqual()
        let delays = journal.delays
        return String(
            format: "%d concurrent writes reached all clients; save to shown: p50 %.0f ms, p95 %.0f ms",
            world.clients.count,
            delays.percentile(0.5) ?? 0,
            delays.percentile(0.95) ?? 0
        )
    }

    private func first(on client: DemoClient) throws -> DemoNote {
        guard let note = client.notes().first else { throw CommandFailure(.failed, "\(client.name) shows no note.") }
        return note
    }
}

/// Scenes with a list that alice shares with bob, from the invitation to the end.
///
/// The four scenes depend on each other; each reports if the one before has failed.
extension DemoTour {
    private static let title = "Camping"

    func sharedReadOnly() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        var tent = try world.add("Pitch the tent", on: phone)
        var guitar = try world.add("Pack the guitar", on: phone)
        try await waitUntilSent(phone)
        let link = try await phone.share([tent, guitar], title: Self.title, with: "bob", .readOnly)
        try await world.rest()
        try await tablet.accept(link)
        try await wait(for: tent, on: tablet, laptop)
        try await wait(for: guitar, on: tablet, laptop)
        try await waitForRight(.readOnly, on: tablet)
        try await world.rest()
        // Bob has no write permission: the relay refuses, his mirror rolls back, and everything else continues.
        let refusals = world.ledger.refusals
        tent.done = true
        try tablet.save(tent)
        expectRefusal()
        let ledger = world.ledger
        try await Wait.until("the relay to refuse bob's write") { ledger.refusals > refusals }
        tent.done = false
        try await wait(for: tent, on: tablet)
        try await world.rest()
        let own = try world.add("Look for the compass", on: tablet)
        guitar.title += ", with strings"
        try phone.save(guitar)
        try await wait(for: guitar, on: tablet, laptop)
        try await waitUntilSent(tablet)
        try await world.waitUntilEqual()
        guard tablet.notes().contains(own), !phone.notes().contains(own) else {
            throw CommandFailure(.failed, "bob's own note is not private.")
        }
        return "1 write refused and rolled back; bob's own note and alice's next edit went through"
    }

    func madeReadWrite() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        _ = try await phone.invite("bob", .readWrite)
        try await waitForRight(.readWrite, on: tablet)
        try await world.rest()
        guard var note = tablet.sharedNotes().first else {
            throw CommandFailure(.failed, "bob has no shared note to edit.")
        }
        note.done = true
        let began = ContinuousClock.now
        try tablet.save(note)
        try await wait(for: note, on: phone)
        let delay = (ContinuousClock.now - began).milliseconds
        try await world.rest()
        let added = try world.add("Bring the matches", on: tablet, into: try await tablet.theirShare())
        try await wait(for: added, on: phone, laptop)
        try await world.waitUntilEqual()
        let took = String(format: "%.0f ms", delay)
        return "the permission came by a notice; bob's edit and new note reached alice, the edit after \(took)"
    }

    func participantRemoved() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        let (count, before) = (phone.notes().count, tablet.notes().count)
        try await phone.remove("bob")
        try await waitForNothingShared(on: tablet)
        try await world.waitUntilEqual()
        guard phone.notes().count == count, laptop.notes().count == count, tablet.notes().count == before else {
            throw CommandFailure(.failed, "Notes disappeared that are not part of the list.")
        }
        return "the list was removed from bob's mirror at once; alice has her \(count) notes, bob his own \(before)"
    }

    func sharingStopped() async throws -> String {
        let (phone, laptop, tablet) = (world.phone, world.laptop, world.tablet)
        try await tablet.accept(try await phone.invite("bob", .readWrite))
        try await waitForRight(.readWrite, on: tablet)
        let added = try world.add("Carry the canoe", on: tablet, into: try await tablet.theirShare())
        try await wait(for: added, on: phone, laptop)
        try await world.rest()
        // Bob is offline when the share ends and learns of it when he is back.
        tablet.goOffline()
        let list = phone.notes()
        try await phone.stopSharing()
        for client in [phone, laptop] {
            try await Wait.until("the notes to be private again on \(client.name)") {
                let contents = await client.contents()
                return contents.lists.isEmpty && contents.notes == list
            }
        }
        try await world.rest()
        await tablet.goOnline()
        try await waitForNothingShared(on: tablet)
        try await world.waitUntilEqual()
        return "all \(list.count) notes are private to alice again on both devices, including bob's; bob has none"
    }

    private func waitForRight(_ right: DemoRight, on client: DemoClient) async throws {
        try await Wait.until("\(client.name) to receive the permission \(right.words)") {
            await client.lists().contains { !$0.isMine && $0.right == right && !$0.notes.isEmpty }
        }
    }

    private func waitForNothingShared(on client: DemoClient) async throws {
        try await Wait.until("the shared list to disappear from \(client.name)") {
            await client.lists().isEmpty && client.sharedNotes().isEmpty
        }
    }
}
