import Foundation
import Synchronization

/// The demo in a terminal: draws the panes, and does what the keys say.
final class DemoStage: Sendable {
    private struct State {
        var selected = 0
        var hint: String?
        var isTouring = false
        var tourHeld = true
        var added = 0
    }

    private let world: DemoWorld
    private let state = Mutex(State())
    private static let titles = [
        "Buy bread", "Call the dentist", "Read the post", "Mend the bike", "Write to Carol", "Clean the window",
    ]

    init(world: DemoWorld) { self.world = world }

    /// Runs until `q` is pressed, or the script ends; returns whether every check held.
    func play(script: Demo.Script?) async throws -> Bool {
        DemoTerminal.take()
        defer {
            DemoTerminal.restore()
            // What the panes have shown is gone with them: the checks are what somebody may want to read again.
            for line in world.journal.last(2000) where line.what.hasPrefix("check") { Terminal.say(line.text) }
        }
        let hasColour = DemoTerminal.hasColour
        let drawing = Task { [self] in
            while !Task.isCancelled {
                let size = DemoTerminal.size
                DemoTerminal.draw(await screen().lines(width: size.width, height: size.height, hasColour: hasColour))
                try? await Task.sleep(for: .milliseconds(60))
            }
        }
        defer { drawing.cancel() }
        if script == .tour {
            // The terminal makes no signal of control-C any more, so the keys that leave are turned into one.
            let leaving = Task {
                for await key in DemoTerminal.keys() where Self.leaves(key) { kill(getpid(), SIGINT) }
            }
            defer { leaving.cancel() }
            let held = await DemoTour(world: world).play()
            try? await Task.sleep(for: .seconds(2))
            await end(drawing)
            return held
        }
        for await key in DemoTerminal.keys() {
            if Self.leaves(key) { break }
            await press(key)
        }
        await end(drawing)
        return state.withLock { $0.tourHeld }
    }

    /// `q`, control-C and control-D.
    private static func leaves(_ key: Character) -> Bool { key == "q" || key == "\u{3}" || key == "\u{4}" }

    /// The last picture must not land on the screen that is given back.
    private func end(_ drawing: Task<Void, Never>) async {
        drawing.cancel()
        await drawing.value
    }

    // MARK: Picture

    private func screen() async -> DemoScreen {
        var panes: [DemoScreen.Pane] = []
        for client in world.clients {
            let wait = await client.untilNextPoll()
            panes.append(
                DemoScreen.Pane(
                    user: client.user,
                    device: client.device,
                    isOnline: client.isOnline,
                    isLive: client.isLive(),
                    token: client.token(),
                    pending: client.pending(),
                    notes: client.notes(),
                    board: client.board().values.map { $0 },
                    secondsToPoll: wait.map { Int($0.components.seconds) }
                )
            )
        }
        let (selected, hint) = state.withLock { ($0.selected, $0.hint) }
        return DemoScreen(
            panes: panes,
            log: world.journal.last(60).map(\.text),
            selected: selected,
            isRelayRunning: world.relay?.isRunning ?? true,
            isOurRelay: world.relay != nil,
            hint: hint
        )
    }

    // MARK: Keys

    private func press(_ key: Character) async {
        let client = world.clients[state.withLock { $0.selected }]
        do {
            switch key {
            case "1"..."9":
                let number = (key.wholeNumberValue ?? 1) - 1
                if number < world.clients.count { state.withLock { $0.selected = number } }
            case "a": try world.add(nextTitle(), on: client)
            case "e": try edit(client)
            case "d": try deleteLast(on: client)
            case "o": if client.isOnline { client.goOffline() } else { await client.goOnline() }
            case "r": try await client.restart()
            case "p": try await client.post("p-\(UUID().uuidString.prefix(6))", "\(nextTitle()), says \(client.user)")
            case "k": try await toggleRelay()
            case "t": tour()
            default: say("no such key: \(key)")
            }
        } catch {
            say(DemoTour.words(error))
        }
    }

    private func nextTitle() -> String {
        let number = state.withLock { state in
            state.added += 1
            return state.added
        }
        return "\(Self.titles[(number - 1) % Self.titles.count]) #\(number)"
    }

    private func edit(_ client: DemoClient) throws {
        guard let note = client.notes().last else { return say("\(client.name) has no note to edit; a adds one") }
        let title = note.isDone ? note.title + "!" : note.title
        try client.save(DemoNote(name: note.name, title: title, isDone: !note.isDone))
    }

    private func deleteLast(on client: DemoClient) throws {
        guard let note = client.notes().last else { return say("\(client.name) has no note to delete; a adds one") }
        try world.delete(note.name, on: client)
    }

    private func toggleRelay() async throws {
        guard let relay = world.relay else { return say("the relay is not the demo's own, so it is left alone") }
        if relay.isRunning {
            relay.kill()
            world.journal.note("relay", "kill -9", "the clients work on; k starts it again")
        } else {
            try await relay.start()
            world.journal.note("relay", "restart", "on the same folder and port")
        }
    }

    private func tour() {
        let begins = state.withLock { state in
            defer { state.isTouring = true }
            return !state.isTouring
        }
        guard begins else { return say("the tour is under way") }
        Task { [self] in
            let held = await DemoTour(world: world).play()
            state.withLock {
                $0.isTouring = false
                $0.tourHeld = $0.tourHeld && held
            }
        }
    }

    private func say(_ hint: String) { state.withLock { $0.hint = hint } }
}
