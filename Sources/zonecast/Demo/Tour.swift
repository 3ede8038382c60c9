import Foundation
import Synchronization
import ZoneKit

/// The scripted demo: scenes one after the other, each ending in a check that is printed.
final class Tour: Sendable {
    let world: DemoWorld
    private var narrator: Narrator { world.narrator }
    /// The titles that must be on the relay in the end, whatever happened on the way.
    private let expected = Mutex<Set<String>>([])
    private let failures = Mutex<[String]>([])

    init(_ world: DemoWorld) { self.world = world }

    /// Adds a note that must not get lost.
    @discardableResult
    private func add(_ title: String, on client: DemoClient) async throws -> String {
        expected.withLock { _ = $0.insert(title) }
        return try await client.add(title)
    }

    /// Plays all scenes; gives the last line and whether every check held.
    ///
    /// A scene that throws has failed; the next one is played all the same, since each brings its own state.
    func play() async -> (line: String, held: Bool) {
        await scene("two devices", twoDevices)
        await scene("offline edits survive a restart", offlineEdits)
        await scene("a conflict", conflict)
        await scene("a delete reaches a device that was away", delete)
        await scene("the public board", board)
        if world.relay != nil {
            await scene("kill -9 of the relay in mid-traffic", killRelay)
        } else {
            narrator.say("scene   kill -9 of the relay: left out, this relay is not ours to kill")
        }
        if world.clients.count > 3 { await scene("\(world.clients.count) clients at once", crowd) }
        return await finalCheck()
    }

    private func scene(_ title: String, _ body: () async throws -> String) async {
        narrator.say("scene   \(title)")
        do {
            narrator.say("check   ✔ \(try await body())")
        } catch {
            let reason = (error as? CommandFailure)?.description ?? "\(error)"
            failures.withLock { $0.append(title) }
            narrator.say("check   ✘ \(title): \(reason)")
        }
    }

    private func require(_ holds: Bool, _ what: String) throws {
        guard holds else { throw CommandFailure(.failed, what) }
    }

    // MARK: Scenes

    private func twoDevices() async throws -> String {
        // The first save waits for sockets and zones; what is measured comes after.
        try await add("Welcome", on: world.phone)
        try await world.settle()
        narrator.resetDelays()
        for title in ["Buy milk", "Water the plants", "Write to Bob"] {
            try await add(title, on: world.phone)
            try await world.settle()
        }
        let median = try required(narrator.medianDelay, "No note was shown on a second device.")
        return "mirrors equal · visible on the other device \(median) ms after save (median)"
    }

    private func offlineEdits() async throws -> String {
        await world.laptop.goOffline()
        narrator.step(world.laptop.name, "offline", "")
        try await add("Call Bob", on: world.laptop)
        let milk = try name(of: "Buy milk", on: world.laptop)
        try await world.laptop.edit(milk) { $0.isDone = true }
        try await world.restart(1)
        narrator.step(world.laptop.name, "restart", "\(try world.laptop.pendingCount()) pending in its file")
        try require(try world.laptop.pendingCount() == 2, "The restart lost an edit that was not sent yet.")
        try await world.laptop.goOnline()
        narrator.step(world.laptop.name, "online", "")
        try await world.settle()
        try require(try world.phone.notes()[milk]?.isDone == true, "The edit made offline did not arrive.")
        return "2 edits made offline survived the restart · pending 0 · mirrors equal"
    }

    private func conflict() async throws -> String {
        let name = try await world.phone.add("Plan the trip")
        try await world.settle()

        await world.laptop.goOffline()
        narrator.step(world.laptop.name, "offline", "")
        try await world.phone.edit(name) { $0.title = "Plan the journey" }
        try await world.laptop.edit(name) { $0.isDone = true }
        try await world.laptop.goOnline()
        try await world.settle()
        let both = DemoNote(title: "Plan the journey", isDone: true)
        try require(try world.phone.notes()[name] == both, "Edits of different fields did not both survive.")

        await world.laptop.goOffline()
        try await world.phone.edit(name) { $0.title = "Plan the phone's trip" }
        try await world.settleExceptLaptop()
        try await world.laptop.edit(name) { $0.title = "Plan the laptop's trip" }
        try await world.laptop.goOnline()
        try await world.settle()
        let title = try world.phone.notes()[name]?.title
        try require(title == "Plan the laptop's trip", "The same field ended as \"\(title ?? "nothing")\".")
        return "different fields: both kept · same field: the later writer's, by property, object trump"
    }

    private func delete() async throws -> String {
        let name = try await world.phone.add("Throw me away")
        try await world.settle()
        await world.laptop.goOffline()
        narrator.step(world.laptop.name, "offline", "")
        try await world.phone.delete(name)
        try await world.settleExceptLaptop()
        try await world.laptop.goOnline()
        narrator.step(world.laptop.name, "online", "")
        try await world.settle()
        let stays = try world.clients.contains { try $0.notes()[name] != nil }
        try require(!stays, "The deleted note is still there.")
        return "the tombstone reached the laptop · gone everywhere"
    }

    private func board() async throws -> String {
        narrator.say(
            "        the public database sends no notices: clients poll it, here every second instead of every 30 minutes"
        )
        try await world.tablet.post("Picnic on Sunday")
        try await Patience.wait(for: "every client's next poll of the board") {
            try world.clients.allSatisfy { try $0.store.posts().values.contains("Picnic on Sunday") }
        }
        return "the post is on every client's board after one poll"
    }

    private func killRelay() async throws -> String {
        let relay = try required(world.relay, "There is no relay to kill.")
        let writers = [world.phone, world.laptop, world.tablet]
        let before = try await world.relayNotes(of: "alice").count
        narrator.say("        alice/phone, alice/laptop and bob/tablet write 30 notes each; single steps are left out")
        narrator.quiet(true)
        defer { narrator.quiet(false) }
        for index in 0..<30 {
            for writer in writers { try await add("\(writer.name) \(index)", on: writer) }
            if index == 10 {
                relay.kill()
                narrator.say("\(narrator.stamp)  relay         killed  kill -9, while three clients write")
            }
            if index == 20 {
                _ = try await relay.start()
                narrator.say("\(narrator.stamp)  relay         ready   again")
            }
        }
        try await world.settle(within: .seconds(60))
        let after = try await world.relayNotes(of: "alice").count
        try require(after == before + 60, "alice has \(after - before) new notes on the relay instead of 60.")
        return "90 notes written around the kill · every one there, once"
    }

    private func crowd() async throws -> String {
        narrator.quiet(true)
        defer { narrator.quiet(false) }
        narrator.resetDelays()
        let devices = world.clients
        try await withThrowingTaskGroup(of: Void.self) { group in
            for device in devices { group.addTask { _ = try await self.add("from \(device.name)", on: device) } }
            try await group.waitForAll()
        }
        try await world.settle(within: .seconds(60))
        return
            "\(devices.count) clients wrote at once · every mirror equal · visible elsewhere after \(narrator.medianDelay ?? 0) ms (median)"
    }

    // MARK: The end

    private func finalCheck() async -> (line: String, held: Bool) {
        do {
            try await world.settle()
            var titles: [String] = []
            for user in ["alice", "bob"] { titles += try await world.relayNotes(of: user).values.map(\.title) }
            let duplicated = titles.count - Set(titles).count
            let lost = expected.withLock { $0 }.subtracting(titles).count
            let failed = failures.withLock { $0 }
            let rest = failed.isEmpty ? "every scene's check held" : "failed: \(failed.joined(separator: ", "))"
            return (
                "check  \(world.clients.count) mirrors equal the relay · \(lost) lost · \(duplicated) duplicated · \(rest)",
                failed.isEmpty && lost == 0 && duplicated == 0
            )
        } catch {
            let reason = (error as? CommandFailure)?.description ?? "\(error)"
            return ("check  ✘ the mirrors do not equal the relay: \(reason)", false)
        }
    }

    private func required<Value>(_ value: Value?, _ what: String) throws -> Value {
        guard let value else { throw CommandFailure(.failed, what) }
        return value
    }

    private func name(of title: String, on client: DemoClient) throws -> String {
        try required(client.notes().first { $0.value.title == title }?.key, "\(client.name) has no note \"\(title)\".")
    }
}
