import Foundation
import Records
import SyncCore
import Synchronization
import ZoneKit
import ZoneMirror

/// A running client: its mirrors, and the watchers that log what they show and do.
final class DemoSession: Sendable {
    private struct State {
        var tasks: [Task<Void, Never>] = []
        /// The notes the client showed last, by name.
        var shown: [String: DemoNote]?
        var board: [String: String] = [:]
        var lists: [DemoList] = []
        /// This client's own last versions; showing them is not logged.
        var own: [String: DemoNote] = [:]
        /// Versions shown before; showing one again, after a refusal, does not count as a delay.
        var seen: Set<String> = []
        var lastRefusal: [StoreID: Int64] = [:]
        var lastDecision: [StoreID: Int64] = [:]
    }

    let name: String
    let connection: RelayConnection
    let mirror: DemoMirror
    private let settings: DemoSettings
    private let state = Mutex(State())
    private let liveness = DemoConnectionMonitor()

    init(_ name: String, _ mirror: DemoMirror, _ connection: RelayConnection, _ settings: DemoSettings) {
        self.name = name
        self.mirror = mirror
        self.connection = connection
        self.settings = settings
    }

    /// Opens the files and starts watching them.
    func begin() async throws {
        try await mirror.container.loadStores()
        let (notes, board) = (try mirror.notes(in: mirror.own) + mirror.notes(in: mirror.others), try mirror.posts())
        let lists = try await mirror.lists()
        state.withLock { state in
            state.shown = Dictionary(notes.map { ($0.name, $0) }) { $1 }
            state.seen = Set(notes.map(\.version))
            state.board = Dictionary(board.map { ($0.id.text, $0.text) }) { $1 }
            state.lists = lists
        }
        for store in [mirror.own, mirror.others] { try await catchUp(store) }
        let context = mirror.container.newBackgroundContext()
        let tasks = [
            Task { [weak self] in
                for await notes in context.objects(FetchRequest(DemoNote.self)) { self?.show(notes) }
            },
            Task { [weak self] in
                for await posts in context.objects(FetchRequest(DemoPost.self)) { self?.show(posts) }
            },
            Task { [weak self, events = mirror.container.events] in
                for await event in events { await self?.take(event) }
            },
        ]
        state.withLock { $0.tasks = tasks }
        await liveness.watch(connection)
    }

    func end() async {
        let tasks = state.withLock { state in
            defer { state.tasks = [] }
            return state.tasks
        }
        await liveness.stop(connection)
        await mirror.container.close()
        for task in tasks { task.cancel() }
    }

    var isLive: Bool { liveness.isLive }

    /// Whether the private and shared databases have been fetched once and the client is connected.
    func isReady() async -> Bool {
        for store in [mirror.own, mirror.others] {
            guard (try? await mirror.container.hasCompletedInitialImport(store)) == true else { return false }
        }
        return isLive
    }

    /// Records a version as this client's own, so that showing it is not logged.
    func wrote(_ note: DemoNote) {
        state.withLock { state in
            state.own[note.name] = note
            state.seen.insert(note.version)
        }
    }

    func deleted(_ note: String) { state.withLock { _ = $0.shown?.removeValue(forKey: note) } }

    /// The client's own posts are shown at once and not logged.
    func posted(_ post: DemoPost) { state.withLock { $0.board[post.id.text] = post.text } }
    func hid(_ post: String) { state.withLock { _ = $0.board.removeValue(forKey: post) } }

    // MARK: Displayed records

    private func show(_ notes: [DemoNote]) {
        let ours = notes.filter { settings.belongsToRun($0.name) }
        let (news, removed) = state.withLock { state -> ([(note: DemoNote, isFirst: Bool)], [String]) in
            let before = state.shown ?? [:]
            state.shown = Dictionary(ours.map { ($0.name, $0) }) { $1 }
            let news = ours.filter { before[$0.name] != $0 && state.own[$0.name] != $0 }
            for note in news { state.own[note.name] = nil }
            let first = news.map { state.seen.insert($0.version).inserted }
            let removed = before.keys.filter { state.shown?[$0] == nil }.sorted()
            // If it appears again, it is logged.
            for note in removed { state.own[note] = nil }
            return (Array(zip(news, first)), removed)
        }
        for (note, isFirst) in news {
            let delay = isFirst ? settings.journal.shown(note.version) : nil
            settings.journal.note(name, "shows", note.words + Self.after(delay))
        }
        for note in removed { settings.journal.note(name, "shows", "Note/\(note) is gone") }
    }

    private func show(_ posts: [DemoPost]) {
        let ours = Dictionary(posts.filter { settings.belongsToRun($0.id.text) }.map { ($0.id.text, $0.text) }) { $1 }
        let before = state.withLock { state in
            defer { state.board = ours }
            return state.board
        }
        for (post, text) in ours.sorted(by: { $0.key < $1.key }) where before[post] != text {
            let delay = settings.journal.shown("board \(post) \(text)", counts: false)
            settings.journal.note(name, "polled", "Board/\(post) \"\(text)\"\(Self.after(delay))")
        }
        for post in before.keys.sorted() where ours[post] == nil {
            settings.journal.note(name, "polled", "Board/\(post) is hidden")
        }
    }

    private static func after(_ milliseconds: Double?) -> String {
        milliseconds.map { String(format: "   %.0f ms after save", $0) } ?? ""
    }

    // MARK: Mirror events

    private func take(_ event: MirrorEvent) async {
        guard event.store != mirror.board else { return }
        for detail in event.details {
            switch detail {
            case .refused: await reportRefusals(event.store)
            case .droppedChanges(let notes):
                for note in notes { settings.ledger.dropped(note) }
                let what = "\(notes.count) unsent changes, together with their list"
                settings.journal.note(name, "dropped", what)
            default: break
            }
        }
        await reportMerges(event.store)
        await reportLists()
    }

    /// Skips events from before this start.
    private func catchUp(_ store: StoreID) async throws {
        let refusal = try await mirror.container.rejectedWrites(store).map(\.id).max()
        let decision = try await mirror.container.mergeDecisions(in: store, after: 0).last?.number
        state.withLock { state in
            state.lastRefusal[store] = refusal
            state.lastDecision[store] = decision
        }
    }

    private func reportRefusals(_ store: StoreID) async {
        let all = (try? await mirror.container.rejectedWrites(store)) ?? []
        let last = state.withLock { state in
            defer { state.lastRefusal[store] = all.map(\.id).max() ?? state.lastRefusal[store] }
            return state.lastRefusal[store] ?? 0
        }
        for write in all where write.id > last {
            let note = write.object.name.text
            let isThere = (try? mirror.notes(in: store).contains { $0.name == note }) ?? false
            settings.ledger.refused(note, isDeletion: write.isDeletion, isNew: !write.isDeletion && !isThere)
            let what = "Note/\(note): \(write.explanation) Rolled back here; all other changes continue."
            settings.journal.note(name, "refused", what)
        }
    }

    private func reportMerges(_ store: StoreID) async {
        let last = state.withLock { $0.lastDecision[store] ?? 0 }
        let news = (try? await mirror.container.mergeDecisions(in: store, after: last)) ?? []
        guard let newest = news.last?.number else { return }
        state.withLock { $0.lastDecision[store] = newest }
        for decision in news {
            settings.journal.note(
                name,
                "merge",
                "Note/\(decision.object): both changed \(decision.property), the local value is kept"
            )
        }
    }

    private func reportLists() async {
        guard let lists = try? await mirror.lists() else { return }
        let before = state.withLock { state in
            defer { state.lists = lists }
            return state.lists
        }
        for list in lists where !before.contains(list) { settings.journal.note(name, "sharing", list.words) }
        for list in before where !lists.contains(where: { $0.title == list.title && $0.isMine == list.isMine }) {
            let theirs = "of \(list.people.joined()): removed with its notes"
            let what = list.isMine ? "no longer shared; its notes stay" : theirs
            settings.journal.note(name, "sharing", "\"\(list.title)\" \(what)")
        }
    }
}

/// Whether a client's notice connection is open.
final class DemoConnectionMonitor: Sendable {
    private let state = Mutex((isLive: false, number: UUID?.none))

    var isLive: Bool { state.withLock { $0.isLive } }

    func watch(_ connection: RelayConnection) async {
        let number = await connection.notices.listen(
            to: .public,
            over: connection,
            time: .system,
            random: .system,
            databaseToken: { nil },
            deliver: { [weak self] event in
                switch event {
                case .opened: self?.state.withLock { $0.isLive = true }
                case .lost: self?.state.withLock { $0.isLive = false }
                case .changed, .accountReplaced: break
                }
            }
        )
        state.withLock { $0.number = number }
    }

    func stop(_ connection: RelayConnection) async {
        if let number = state.withLock({ $0.number }) { await connection.notices.stopListening(number) }
    }
}
