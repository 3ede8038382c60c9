import Foundation
import ZoneMirror

/// Scenes with one user's devices, the public board and failures.
extension DemoTour {
    func twoDevices() async throws -> String {
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
            try await wait(for: note, on: to)
            try await world.rest(number < 3 ? 1 : 0.2)
        }
        try world.add("Feed the cat", on: world.tablet)
        try await world.settle()
        keepMedian(journal.delays)
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
        try await world.settle()
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
        try await world.settle()
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
        try await world.settle()
        return "deleted everywhere; the tombstone reached \(laptop.name) when it came back"
    }

    func publicBoard() async throws -> String {
        let interval = world.place.boardInterval
        journal.note("tour", "board", "polled every \(interval.inWords) here instead of every 30 minutes; no notices")
        let post = try world.tablet.post("Lost: one umbrella")
        let clients = world.clients
        let limit = interval + .seconds(120)
        try await Wait.until("every board to show the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] != nil }
        }
        try await world.settle()
        try world.tablet.hide(post)
        try await Wait.until("every board to hide the post", upTo: limit) {
            clients.allSatisfy { $0.board()[post] == nil }
        }
        try await world.settle()
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
        try await world.settle()
        return "60 writes, \(pending) of them pending at the restart; 0 lost, 0 duplicated"
    }

    func crowd() async throws -> String {
        journal.countDelays(true)
        defer { journal.countDelays(false) }
        for client in world.clients { try world.add("Greetings from \(client.name)", on: client) }
        try await world.settle()
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
