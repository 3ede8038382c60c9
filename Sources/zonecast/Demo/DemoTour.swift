import Foundation
import ZoneKit

/// The demo's scenes, each ending in a check that is printed.
struct DemoTour: Sendable {
    private struct Scene: Sendable {
        var title: String
        /// Returns what the check found, for people.
        var play: @Sendable () async throws -> String
    }

    let world: DemoWorld

    private var journal: DemoJournal { world.journal }

    /// Plays all scenes; returns whether every check held.
    func play() async -> Bool {
        var held = 0
        let scenes = scenes
        for (number, scene) in scenes.enumerated() {
            journal.note("tour", "scene \(number + 1)", scene.title)
            do {
                let found = try await scene.play()
                held += 1
                journal.note("tour", "check \(number + 1)", "✔ \(scene.title): \(found)")
            } catch {
                journal.note("tour", "check \(number + 1)", "✘ \(scene.title): \(Self.words(error))")
                // What one scene left undone must not spoil the next.
                await recover()
            }
        }
        return await conclude(held: held, of: scenes.count)
    }

    private var scenes: [Scene] {
        var scenes = [
            Scene(title: "two devices", play: twoDevices),
            Scene(title: "offline edits survive a client restart", play: offlineEdits),
            Scene(title: "conflict", play: conflict),
            Scene(title: "a delete reaches a device that was away", play: deletion),
            Scene(title: "the public board, by polling", play: publicBoard),
        ]
        if world.relay != nil { scenes.append(Scene(title: "kill -9 of the relay in mid-traffic", play: killedRelay)) }
        if world.clients.count > 3 { scenes.append(Scene(title: "\(world.clients.count) clients", play: crowd)) }
        return scenes
    }

    private func recover() async {
        if let relay = world.relay, !relay.isRunning { try? await relay.start() }
        for client in world.clients where !client.isOnline { await client.goOnline() }
    }

    private func conclude(held: Int, of count: Int) async -> Bool {
        let delays = journal.delays
        let median = delays.percentile(0.5).map { String(format: "median %.0f ms from save to shown", $0) }
        do {
            try await world.settle()
            let verdict = try await world.judge()
            let facts = [
                "\(world.clients.count) mirrors equal the relay", "\(verdict.lost) lost",
                "\(verdict.duplicated) duplicated", median, "\(held) of \(count) scenes held",
            ]
            journal.note("tour", "check", facts.compactMap { $0 }.joined(separator: " · "))
            return held == count
        } catch {
            journal.note("tour", "check", "✘ \(Self.words(error)) · \(held) of \(count) scenes held")
            return false
        }
    }

    static func words(_ error: any Error) -> String {
        (error as? CommandFailure)?.description ?? (error as? CKError)?.localizedDescription ?? "\(error)"
    }

    // MARK: Scenes

    @Sendable private func twoDevices() async throws -> String {
        try await world.settle()
        journal.countDelays(true)
        defer { journal.countDelays(false) }
        let titles = [
            "Buy milk", "Call Bob", "Water the plants", "Book a train", "Pay the rent", "Return the books",
            "Sow tomatoes", "Bake a cake", "Visit Carol", "Wind the clock", "Sharpen the knives",
        ]
        for (number, title) in titles.enumerated() {
            let (from, to) = number % 2 == 0 ? (world.phone, world.laptop) : (world.laptop, world.phone)
            let note = try world.add(title, on: from)
            try await Wait.until("\(to.name) to show \"\(title)\"") { to.notes().contains(note) }
        }
        try world.add("Feed the cat", on: world.tablet)
        try await world.settle()
        let median = journal.delays.percentile(0.5) ?? 0
        return String(format: "mirrors equal, median %.0f ms from save on one to shown on the other", median)
    }

    @Sendable private func offlineEdits() async throws -> String {
        let laptop = world.laptop
        let known = try await first(on: laptop)
        laptop.goOffline()
        let added = try world.add("Written on the train", on: laptop)
        try laptop.save(DemoNote(name: known.name, title: known.title + ", 2 litres"))
        try await laptop.restart()
        guard laptop.pending() == 2, laptop.notes().contains(added) else {
            throw CommandFailure(.failed, "After the restart \(laptop.pending()) changes were pending instead of 2.")
        }
        await laptop.goOnline()
        try await Wait.until("\(laptop.name) to have nothing pending") { laptop.pending() == 0 }
        let phone = world.phone
        try await Wait.until("\(phone.name) to show \"\(added.title)\"") { phone.notes().contains(added) }
        try await world.settle()
        return "2 pending before the restart and after it, 0 pending once back online, mirrors equal"
    }

    @Sendable private func conflict() async throws -> String {
        let (phone, laptop) = (world.phone, world.laptop)
        let base = try world.add("Pack for the trip", on: phone)
        try await Wait.until("\(laptop.name) to show \"\(base.title)\"") { laptop.notes().contains(base) }
        // Different fields.
        phone.goOffline()
        try phone.save(DemoNote(name: base.name, title: "Pack for the trip, warm clothes"))
        try laptop.save(DemoNote(name: base.name, title: base.title, isDone: true))
        try await Wait.until("\(laptop.name) to have nothing pending") { laptop.pending() == 0 }
        await phone.goOnline()
        let both = DemoNote(name: base.name, title: "Pack for the trip, warm clothes", isDone: true)
        try await Wait.until("both edits on both devices") {
            phone.notes().contains(both) && laptop.notes().contains(both)
        }
        // The same field.
        phone.goOffline()
        try phone.save(DemoNote(name: base.name, title: "Pack: said the phone", isDone: true))
        try laptop.save(DemoNote(name: base.name, title: "Pack: said the laptop", isDone: true))
        try await Wait.until("\(laptop.name) to have nothing pending") { laptop.pending() == 0 }
        await phone.goOnline()
        let last = DemoNote(name: base.name, title: "Pack: said the phone", isDone: true)
        try await Wait.until("one title on both devices") {
            phone.notes().contains(last) && laptop.notes().contains(last)
        }
        try await world.settle()
        return "different fields: both kept; same field: the edit that arrives last wins (policy: mine over theirs)"
    }

    @Sendable private func deletion() async throws -> String {
        let (phone, laptop) = (world.phone, world.laptop)
        let note = try world.add("Not needed after all", on: phone)
        try await Wait.until("\(laptop.name) to show \"\(note.title)\"") { laptop.notes().contains(note) }
        laptop.goOffline()
        try world.delete(note.name, on: phone)
        try await Wait.until("\(phone.name) to have nothing pending") { phone.pending() == 0 }
        guard laptop.notes().contains(note) else {
            throw CommandFailure(.failed, "The offline \(laptop.name) lost the note before it could hear of it.")
        }
        await laptop.goOnline()
        try await Wait.until("the note to go from \(laptop.name)") { !laptop.notes().contains { $0.name == note.name } }
        try await world.settle()
        return "gone everywhere, the tombstone reached \(laptop.name) when it came back"
    }

    @Sendable private func publicBoard() async throws -> String {
        let interval = world.place.boardInterval
        journal.note("tour", "board", "polled every \(interval.inWords) here instead of every 30 minutes; no notices")
        let post = "p\(world.place.run)-\(UUID().uuidString.prefix(6))"
        try await world.tablet.post(post, "Lost: one umbrella")
        let clients = world.clients
        let limit = interval + .seconds(15)
        try await Wait.until("every board to show the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] != nil }
        }
        try await world.settle()
        try await world.tablet.post(post, "Found, thank you", isGone: true)
        try await Wait.until("every board to hide the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] == nil }
        }
        try await world.settle()
        return "equal after one poll; hidden again by a soft delete, since deletions do not travel"
    }

    @Sendable private func killedRelay() async throws -> String {
        guard let relay = world.relay else { return "no relay of ours" }
        let titles = (0..<20).map { "Write \($0)" }
        for title in titles {
            for client in world.clients.prefix(3) { try world.add("\(title) by \(client.device)", on: client) }
            if title == titles[8] {
                relay.kill()
                journal.note("relay", "kill -9", "in mid-traffic, the clients write on")
            }
            try await Task.sleep(for: .milliseconds(15))
        }
        let pending = world.clients.reduce(0) { $0 + $1.pending() }
        try await relay.start()
        journal.note("relay", "restart", "on the same folder and port, \(pending) changes pending in the clients")
        try await world.settle(upTo: .seconds(60))
        return "60 writes, \(pending) of them pending at the restart; 0 lost, 0 duplicated"
    }

    @Sendable private func crowd() async throws -> String {
        journal.countDelays(true)
        defer { journal.countDelays(false) }
        for client in world.clients { try world.add("Greetings from \(client.name)", on: client) }
        try await world.settle(upTo: .seconds(90))
        let delays = journal.delays
        return String(
            format: "%d writes reached everybody; save to shown: median %.0f ms, 95 %% within %.0f ms",
            world.clients.count,
            delays.percentile(0.5) ?? 0,
            delays.percentile(0.95) ?? 0
        )
    }

    private func first(on client: DemoClient) async throws -> DemoNote {
        guard let note = client.notes().first else { throw CommandFailure(.failed, "\(client.name) shows no note.") }
        return note
    }
}
