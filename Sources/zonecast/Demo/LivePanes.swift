import Foundation
import ZoneKit

/// The demo in a terminal: draws the panes ten times a second and does what the keys say.
actor LivePanes {
    private let world: DemoWorld
    private var selected = 0
    private var isRelayUp = true
    private var count = 0
    private var isOver = false
    private var result: (line: String, held: Bool)?
    /// What a key started and has not ended yet; one at a time.
    private var action: Task<Void, Never>?

    private static let titles = [
        "Buy milk", "Call Bob", "Water the plants", "Book the train", "Read a book", "Fix the bike",
    ]

    init(_ world: DemoWorld) { self.world = world }

    /// Shows the panes until `q`, or until the script has ended and a key is pressed.
    func run(_ script: DemoCommand.Script?) async -> (line: String, held: Bool)? {
        let terminal = RawTerminal()
        defer { terminal.restore() }
        let usesColor = ProcessInfo.processInfo.environment["NO_COLOR", default: ""].isEmpty
        if script == .tour {
            start { await self.playTour() }
        } else {
            start { try await self.world.phone.add("Buy milk") }
        }
        while !isOver {
            let (width, height) = RawTerminal.size
            terminal.show(await picture(width, height, usesColor).lines())
            for key in terminal.keys() { await press(key) }
            guard (try? await Task.sleep(for: .milliseconds(100))) != nil else { break }
        }
        action?.cancel()
        return result
    }

    private func playTour() async {
        let played = await Tour(world).play()
        result = played
        world.narrator.say(played.line)
        world.narrator.say("press q to leave, or go on with the keys")
    }

    private func start(_ body: @escaping @Sendable () async throws -> Void) {
        let before = action
        let narrator = world.narrator
        action = Task {
            await before?.value
            do { try await body() } catch {
                narrator.say("trouble: \((error as? CommandFailure)?.description ?? "\(error)")")
            }
        }
    }

    private func press(_ key: Character) async {
        let client = world.clients[selected]
        switch key {
        case "1", "2", "3": selected = (key.wholeNumberValue ?? 1) - 1
        case "a":
            let title = Self.titles[count % Self.titles.count] + (count < Self.titles.count ? "" : " \(count)")
            count += 1
            start { try await client.add(title) }
        case "e": changeLast(of: client) { $0.title += "!" }
        case "t": changeLast(of: client) { $0.isDone.toggle() }
        case "d":
            guard let last = try? client.store.rows().last(where: { !$0.isDeleted }) else { return }
            start { try await client.delete(last.name) }
        case "o":
            start {
                if await client.isOnline { await client.goOffline() } else { try await client.goOnline() }
            }
        case "k": killOrStart()
        case "q", "\u{3}", "\u{4}": isOver = true
        default: break
        }
    }

    private func changeLast(of client: DemoClient, _ change: @escaping @Sendable (inout DemoNote) -> Void) {
        guard let last = try? client.store.rows().last(where: { !$0.isDeleted }) else { return }
        start { try await client.edit(last.name, change) }
    }

    private func killOrStart() {
        guard let relay = world.relay else { return world.narrator.say("this relay is not ours to kill") }
        if isRelayUp {
            relay.kill()
            isRelayUp = false
            world.narrator.step("relay", "killed", "kill -9; press k to start it again")
        } else {
            isRelayUp = true
            let narrator = world.narrator
            start {
                _ = try await relay.start()
                narrator.step("relay", "ready", "again")
            }
        }
    }

    private func picture(_ width: Int, _ height: Int, _ usesColor: Bool) async -> DemoScreen {
        let clients = world.clients
        var panes: [DemoScreen.Pane] = []
        for (index, client) in clients.prefix(3).enumerated() {
            let rows = (try? client.store.rows().filter { !$0.isDeleted }) ?? []
            panes.append(
                DemoScreen.Pane(
                    name: client.name,
                    isOnline: await client.isOnline,
                    isSelected: index == selected,
                    position: (try? client.position()) ?? "",
                    pending: (try? client.pendingCount()) ?? 0,
                    notes: rows.map { .init(title: $0.note.title, isDone: $0.note.isDone, isPending: $0.isDirty) },
                    board: (try? client.store.posts().values.sorted()) ?? []
                )
            )
        }
        let first = try? world.phone.notes()
        return DemoScreen(
            panes: panes,
            dots: clients.dropFirst(3).map { (try? $0.notes()) == first },
            log: world.narrator.last(height),
            isRelayUp: isRelayUp,
            width: width,
            height: height,
            usesColor: usesColor
        )
    }
}
