import Foundation
import Synchronization
import ZoneKit
import ZoneMirror

/// The demo in a terminal: draws the panes and handles keys.
final class DemoPresenter: Sendable {
    private struct State {
        var selected = 0
        /// The selected note by client; by default the newest.
        var notes: [String: String] = [:]
        var hint: String?
        /// The line being typed, and what happens with it.
        var input: (line: DemoInput, purpose: Purpose)?
        var isHelpShown = false
        /// Whether clients are still connecting.
        var isOpening = false
        var isTouring = false
        var tourPassed = true
    }

    /// What a typed line becomes.
    private enum Purpose {
        case note(DemoClient)
        case sharedNote(DemoClient)
        case post(DemoClient)
        case title(DemoNote, DemoClient)
    }

    let world: DemoWorld
    private let recorder: DemoRecorder?
    private let state = Mutex(State())
    /// The notes of the first screen.
    private static let firstTitles = ["Buy milk", "Call Bob", "Water the plants"]

    init(world: DemoWorld, recorder: DemoRecorder?) {
        self.world = world
        self.recorder = recorder
    }

    /// Runs until `q` is pressed or the script ends; returns whether all checks passed.
    ///
    /// `opening` connects the clients; the panes show its progress.
    func play(opening: () async throws -> Void, script: (() async -> Bool)?) async throws -> Bool {
        DemoTerminal.take()
        state.withLock { $0.isOpening = true }
        defer {
            DemoTerminal.restore()
            // The panes vanish with the alternate screen, so print the checks again.
            for line in world.journal.last(2000) where line.what.hasPrefix("check") { Terminal.say(line.text) }
        }
        let hasColour = DemoTerminal.hasColour
        let drawing = Task { [self] in
            while !Task.isCancelled {
                let (width, height) = DemoTerminal.size
                let screen = await screen()
                DemoTerminal.draw(screen.lines(width: width, height: height, hasColour: hasColour), width, height)
                recorder?.take(screen)
                try? await Task.sleep(for: pause)
            }
        }
        defer { drawing.cancel() }
        if let script {
            // In raw mode the terminal sends no signals, so the quit keys raise SIGINT.
            let leaving = Task {
                for await key in DemoTerminal.keys() where Self.leaves(key) { kill(getpid(), SIGINT) }
            }
            defer { leaving.cancel() }
            try await open(opening, drawing)
            let passed = await script()
            try? await Task.sleep(for: .seconds(2))
            await end(drawing)
            return passed
        }
        let pressing = Task {
            for await key in DemoTerminal.keys() {
                let (isOpening, isTyping) = state.withLock { ($0.isOpening, $0.input != nil) }
                if isTyping {
                    await type(key)
                    continue
                }
                if Self.leaves(key), !isOpening { break }
                // Like a signal, without waiting for the clients.
                if Self.leaves(key) { kill(getpid(), SIGINT) }
                if !isOpening { await press(key) }
            }
        }
        defer { pressing.cancel() }
        try await open(opening, drawing)
        for title in Self.firstTitles { try world.add(title, on: world.phone) }
        say("press a and type a note: it appears on the other devices")
        await pressing.value
        await end(drawing)
        return state.withLock { $0.tourPassed }
    }

    private func open(_ opening: () async throws -> Void, _ drawing: Task<Void, Never>) async throws {
        do {
            try await opening()
            state.withLock { $0.isOpening = false }
        } catch {
            drawing.cancel()
            await drawing.value
            throw error
        }
    }

    /// Records frames without drawing, until cancelled.
    func draw() async {
        while !Task.isCancelled {
            recorder?.take(await screen())
            try? await Task.sleep(for: pause)
        }
    }

    /// Records the last frame; not in a cancelled task, whose reads would fail.
    func drawLast() async { recorder?.take(await screen(), isLast: true) }

    /// The time between two frames: reading many clients' files takes time.
    private var pause: Duration { world.clients.count > 8 ? .milliseconds(250) : .milliseconds(60) }

    /// Whether the key quits: `q`, Ctrl-C or Ctrl-D.
    private static func leaves(_ key: Character) -> Bool { key == "q" || key == "\u{3}" || key == "\u{4}" }

    /// The last frame must not be drawn on the restored screen.
    private func end(_ drawing: Task<Void, Never>) async {
        drawing.cancel()
        await drawing.value
        await drawLast()
    }

    // MARK: Picture

    private func screen() async -> DemoScreen {
        let (selected, isOpening, chosen) = state.withLock { ($0.selected, $0.isOpening, $0.notes) }
        let (input, isHelpShown) = state.withLock { ($0.input?.line, $0.isHelpShown) }
        var panes: [DemoScreen.Pane] = []
        for client in world.clients {
            let (contents, wait) = (await client.contents(), await client.untilNextPoll())
            panes.append(
                DemoScreen.Pane(
                    user: client.user,
                    device: client.device,
                    isOnline: client.isOnline,
                    isLive: client.isLive(),
                    contents: contents,
                    selectedNote: Self.chosen(chosen[client.name], in: contents)?.name,
                    secondsToPoll: wait.map { Int($0.components.seconds) }
                )
            )
        }
        return DemoScreen(
            panes: panes,
            log: world.journal.last(60).map(\.text),
            selected: selected,
            isRelayRunning: world.isRelayRunning,
            isOurRelay: world.relay != nil || world.cluster != nil,
            isCluster: world.cluster != nil,
            hint: isOpening ? Self.progress(panes) : state.withLock { $0.hint },
            input: input,
            isHelpShown: isHelpShown
        )
    }

    static func progress(_ panes: [DemoScreen.Pane]) -> String {
        "\(panes.filter(\.isLive).count) of \(panes.count) clients connected; keys work when all are"
    }

    // MARK: Keys

    private var client: DemoClient { world.clients[state.withLock { $0.selected }] }

    private func press(_ key: Character) async {
        say(nil)
        let wasHelpShown = state.withLock { state in
            defer { state.isHelpShown = false }
            return state.isHelpShown
        }
        guard !wasHelpShown else { return }
        let client = client
        do {
            switch key {
            case "1"..."9": select((key.wholeNumberValue ?? 1) - 1)
            case "\t", DemoTerminal.right: select(by: 1)
            case DemoTerminal.left: select(by: -1)
            case DemoTerminal.up: await move(by: -1, on: client)
            case DemoTerminal.down: await move(by: 1, on: client)
            case "?": state.withLock { $0.isHelpShown = true }
            case "a": ask("New note of \(client.name)", .note(client))
            case "e":
                let note = try await chosen(on: client)
                ask("Title", .title(note, client), note.title)
            case "\r", "\n", " ": try await checkOff(client)
            case "d": try await delete(on: client)
            case "o": if client.isOnline { client.goOffline() } else { await client.goOnline() }
            case "r": try await client.restart()
            case "p": ask("Post to the board as \(client.user)", .post(client))
            case "k": try await toggleRelay()
            case "t": tour()
            case "A": ask("New note in the shared list", .sharedNote(client))
            case DemoTerminal.escape: break
            case "s", "w", "u", "l": try await pressToShare(key, client)
            default: say("unknown key: \(DemoTerminal.name(of: key)); ? shows all keys")
            }
        } catch {
            say(DemoTour.words(error))
        }
    }

    private func select(_ number: Int) {
        if number < world.clients.count { state.withLock { $0.selected = number } }
    }

    /// Selects the next client in the order of the screen.
    private func select(by step: Int) {
        let users = world.clients.map(\.user)
        let order = users.count > 3 ? DemoScreen.order(of: users) : Array(users.indices)
        state.withLock { state in
            let place = order.firstIndex(of: state.selected) ?? 0
            state.selected = order[(place + step + order.count) % order.count]
        }
    }

    // MARK: The line being typed

    private func ask(_ prompt: String, _ purpose: Purpose, _ text: String = "") {
        state.withLock { $0.input = (DemoInput(prompt: prompt, text: text), purpose) }
    }

    private func type(_ key: Character) async {
        let done: (text: String, purpose: Purpose)? = state.withLock { state in
            guard var input = state.input else { return nil }
            let outcome = input.line.take(key)
            state.input = outcome == .typing ? input : nil
            guard case .submitted(let text) = outcome else { return nil }
            return (text, input.purpose)
        }
        guard let done else { return }
        do {
            switch done.purpose {
            case .note(let client): choose(try world.add(done.text, on: client), on: client)
            case .sharedNote(let client): try await addToShared(done.text, client)
            case .post(let client): _ = try client.post(done.text)
            case .title(var note, let client):
                note.title = done.text
                try client.save(note)
            }
        } catch {
            say(DemoTour.words(error))
        }
    }

    // MARK: The note that keys act on

    /// Returns the notes in the pane's order: the user's own, then the lists'.
    private static func listed(_ contents: DemoContents) -> [DemoNote] {
        contents.notes + contents.lists.flatMap(\.notes)
    }

    private static func chosen(_ name: String?, in contents: DemoContents) -> DemoNote? {
        let notes = listed(contents)
        return notes.first { $0.name == name } ?? notes.last
    }

    /// Returns a client's selected note; throws if it has none.
    func chosen(on client: DemoClient) async throws -> DemoNote {
        let name = state.withLock { $0.notes[client.name] }
        guard let note = Self.chosen(name, in: await client.contents()) else {
            throw CommandFailure(.failed, "\(client.name) has no note. Press a to add one.")
        }
        return note
    }

    func choose(_ note: DemoNote, on client: DemoClient) { state.withLock { $0.notes[client.name] = note.name } }

    private func move(by step: Int, on client: DemoClient) async {
        let notes = Self.listed(await client.contents())
        let name = state.withLock { $0.notes[client.name] }
        let place = notes.firstIndex { $0.name == name } ?? notes.count - 1
        let next = place + step
        if notes.indices.contains(next) { choose(notes[next], on: client) }
    }

    private func checkOff(_ client: DemoClient) async throws {
        var note = try await chosen(on: client)
        note.done.toggle()
        try client.save(note)
    }

    private func delete(on client: DemoClient) async throws {
        try world.delete(try await chosen(on: client).name, on: client)
    }

    private func toggleRelay() async throws {
        if let cluster = world.cluster {
            _ = try await cluster.killNode()
            return
        }
        guard let relay = world.relay else { return say("the demo did not start this relay and cannot kill it") }
        if relay.isRunning {
            relay.kill()
            world.journal.note("relay", "kill -9", "the clients continue; press k to restart it")
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
        guard begins else { return say("the tour is already running") }
        Task { [self] in
            let passed = await DemoTour(world: world).play()
            state.withLock {
                $0.isTouring = false
                $0.tourPassed = $0.tourPassed && passed
            }
        }
    }

    func say(_ hint: String?) { state.withLock { $0.hint = hint } }
}

/// The keys for sharing.
extension DemoPresenter {
    func pressToShare(_ key: Character, _ client: DemoClient) async throws {
        switch key {
        case "s": try await share(from: client)
        case "w": try await toggleRight(of: client)
        case "u": try await uninvite(from: client)
        case "l": try await leave(client)
        default: break
        }
    }

    private func partner(of client: DemoClient) -> String { client.user == "alice" ? "bob" : "alice" }

    /// Returns a connected device of a user, to accept a link.
    private func device(of user: String) throws -> DemoClient {
        guard let device = world.clients.first(where: { $0.user == user && $0.isOnline && $0.isLive() }) else {
            throw CommandFailure(.failed, "No device of \(user) is online to accept the link.")
        }
        return device
    }

    /// Shares the selected note read-only; further notes go into the same list.
    private func share(from client: DemoClient) async throws {
        let (note, partner) = (try await chosen(on: client), partner(of: client))
        guard client.notes().contains(where: { $0.name == note.name }) else {
            throw CommandFailure(.failed, "\"\(note.title)\" belongs to \(partner), who can share it.")
        }
        let lists = await client.lists()
        guard !lists.contains(where: { $0.isMine && $0.notes.contains { $0.name == note.name } }) else {
            throw CommandFailure(.failed, "\"\(note.title)\" is already shared. Select another with ↑ and ↓.")
        }
        if let share = try? await client.ownShare() {
            try await client.share([note], into: share)
            if share.participants.count < 2 { try await device(of: partner).accept(client.invite(partner, .readOnly)) }
        } else {
            let other = try device(of: partner)
            try await other.accept(client.share([note], title: "From \(client.user)", with: partner, .readOnly))
        }
        choose(note, on: client)
    }

    private func toggleRight(of client: DemoClient) async throws {
        let list = try await ownList(client)
        let partner = partner(of: client)
        guard !list.people.isEmpty else {
            return try await device(of: partner).accept(client.invite(partner, .readWrite))
        }
        _ = try await client.invite(partner, list.right == .readWrite ? .readOnly : .readWrite)
    }

    private func uninvite(from client: DemoClient) async throws {
        _ = try await ownList(client)
        try await client.remove(partner(of: client))
    }

    /// Stops sharing as the owner, or leaves as a participant.
    private func leave(_ client: DemoClient) async throws {
        let lists = await client.lists()
        if lists.contains(where: \.isMine) { return try await client.stopSharing() }
        guard !lists.isEmpty else {
            throw CommandFailure(.failed, "\(client.user) has no shared list. Press s to share a note.")
        }
        try await client.leave()
    }

    fileprivate func addToShared(_ title: String, _ client: DemoClient) async throws {
        let own = try? await client.ownShare()
        let share = if let own { own } else { try await client.theirShare() }
        choose(try world.add(title, on: client, into: share), on: client)
    }

    private func ownList(_ client: DemoClient) async throws -> DemoList {
        guard let list = await client.lists().first(where: \.isMine) else {
            throw CommandFailure(.failed, "\(client.user) owns no shared list. Press s to share a note.")
        }
        return list
    }
}
