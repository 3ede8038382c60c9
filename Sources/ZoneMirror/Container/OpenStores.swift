import Foundation
import GRDB
import Synchronization
import ZoneKit

/// The open stores of a container, for its contexts.
///
/// When another user signs in, the stores get other files; contexts find the new ones here.
package final class OpenStores: Sendable {
    private struct State {
        var files: [StoreFile] = []
        /// The current or last path of each store's file.
        var paths: [StoreID: String] = [:]
        var account = Account()
        var listeners: [UUID: Listener] = [:]
        var pins: [Pinned] = []
        var merging: [Merging] = []
        /// The unreadable values that were reported, as store, entity, object and property.
        var unread: Set<[String]> = []
    }

    /// A context that is updated with every commit.
    private struct Merging {
        weak var context: MirrorContext?
    }

    /// A view that some context may still hold.
    private struct Pinned {
        weak var generation: QueryGeneration?
    }

    /// A listener for commits.
    private struct Listener {
        /// The tables to observe; `nil` means all.
        var tables: Set<String>?
        var notify: @Sendable (StoreID) -> Void
        /// Called when there will be no more commits.
        var end: @Sendable () -> Void
    }

    let model: MirrorModel
    let conditions: MirrorConditions
    let tables: [String: TableLayout]
    /// In order of preference, whether or not they are open.
    private let storesByPreference: [(description: StoreDescription, tables: Set<String>)]
    private let state = Mutex(State())
    private let broadcaster: EventBroadcaster

    init(model: MirrorModel, stores: [StoreDescription], conditions: MirrorConditions, broadcaster: EventBroadcaster) {
        self.model = model
        self.conditions = conditions
        self.broadcaster = broadcaster
        storesByPreference = stores.map { ($0, Set(model.tables(in: $0.configuration).map(\.name))) }
        tables = Dictionary(model.tables(in: nil).map { ($0.name, $0) }) { $1 }
    }

    var now: Date { conditions.wallClock() }

    /// The signed-in user, as last reported by the relay.
    package var account: Account {
        get { state.withLock(\.account) }
        set { state.withLock { $0.account = newValue } }
    }

    package var files: [StoreFile] { state.withLock(\.files) }

    /// The current or last path of each store's file; objects read or created with other files belong to another user.
    var paths: [StoreID: String] { state.withLock(\.paths) }

    package func file(_ id: StoreID) -> StoreFile? { state.withLock { $0.files.first { $0.id == id } } }

    func files(holding table: String) -> [StoreFile] { files.filter { $0.mapping.tables[table] != nil } }

    func table(_ name: String) -> TableLayout? { tables[name] }

    /// Adds a store, or replaces a store's file.
    func put(_ file: StoreFile) {
        state.withLock { state in
            state.paths[file.id] = file.path
            if let index = state.files.firstIndex(where: { $0.id == file.id }) {
                state.files[index] = file
            } else {
                // A store that had lost its file gets back its place in the order.
                let place = place(of: file.id)
                let next = state.files.firstIndex { self.place(of: $0.id) > place }
                state.files.insert(file, at: next ?? state.files.count)
            }
        }
        let watch = CommitWatch(file.mapping.tableNames) { [weak self, id = file.id] tables in
            self?.committed(id, tables)
        }
        // The database's lifetime extent keeps the observer alive.
        file.pool.add(transactionObserver: watch, extent: .databaseLifetime)
    }

    /// Closes the files after a checkpoint; a reader keeps its file open until it is done.
    func close() async {
        let (files, listeners) = state.withLock { state in
            defer { (state.files, state.listeners) = ([], [:]) }
            return (state.files, state.listeners.values)
        }
        listeners.forEach { $0.end() }
        // If the checkpoint fails, the changes stay in the WAL, where the next opening finds them.
        for file in files { try? await file.pool.checkpoint() }
    }

    /// Closes the files as the end of the process would.
    func abandon() { for file in files { file.pool.abandon() } }

    /// Closes one store's file.
    package func closeFile(_ id: StoreID) async {
        let file = state.withLock { state in
            state.files.firstIndex { $0.id == id }.map { state.files.remove(at: $0) }
        }
        try? await file?.pool.checkpoint()
    }

    func firstWritable(_ entity: String) throws(MirrorError) -> StoreID {
        let writable = storesByPreference.filter { $0.tables.contains(entity) && !$0.description.isReadOnly }.map(
            \.description
        )
        guard let home = writable.first(where: { $0.cloud?.scope != .shared }) ?? writable.first else {
            throw MirrorError(.noStoreForEntity, "No writable store holds \(entity).")
        }
        // Objects that are to be sent must not go to the next store, where they would stay unsent.
        guard file(home.id) != nil else {
            throw MirrorError(
                .noStoreForEntity,
                "\(home.id), where new objects of \(entity) go, is not open. Load it, or assign them to another store."
            )
        }
        return home.id
    }

    private func place(of store: StoreID) -> Int {
        storesByPreference.firstIndex { $0.description.id == store } ?? storesByPreference.count
    }

    // MARK: Commits

    /// Calls `notify` after each commit to one of these tables, on the committing thread, and `end` when the container
    /// closes.
    func listen(
        to tables: Set<String>?,
        end: @escaping @Sendable () -> Void = {},
        _ notify: @escaping @Sendable (StoreID) -> Void
    ) -> UUID {
        let id = UUID()
        state.withLock { $0.listeners[id] = Listener(tables: tables, notify: notify, end: end) }
        return id
    }

    func stopListening(_ id: UUID) { state.withLock { $0.listeners[id] = nil } }

    /// Reports a commit to these tables; `nil` means that the tables are unknown.
    func committed(_ store: StoreID, _ tables: Set<String>?) {
        checkPins()
        // Contexts are updated first, because listeners may read in them.
        state.withLock { $0.merging }.forEach { $0.context?.refreshAll() }
        let listeners = state.withLock { state in
            state.listeners.values.filter { listener in
                guard let tables, let wanted = listener.tables else { return true }
                return !wanted.isDisjoint(with: tables)
            }
        }
        listeners.forEach { $0.notify(store) }
    }

    /// Sets whether a context is updated with every commit.
    func setMerging(_ context: MirrorContext, _ merges: Bool) {
        state.withLock { state in
            state.merging.removeAll { $0.context == nil || $0.context === context }
            if merges { state.merging.append(Merging(context: context)) }
        }
    }

    // MARK: Pins

    /// Returns a view of the data at the time of its first read, for pinned contexts.
    func newGeneration() -> QueryGeneration {
        let generation = QueryGeneration(began: now)
        state.withLock { state in
            state.pins.removeAll { $0.generation == nil }
            state.pins.append(Pinned(generation: generation))
        }
        return generation
    }

    /// Returns whether a view has ended; ends it if it is too old or too large.
    func hasEnded(_ generation: QueryGeneration) -> Bool {
        guard !generation.isOver else { return true }
        guard generation.isTooOld(at: now, log: conditions.pinnedLogLimit) else { return false }
        if generation.end() {
            notice(
                "A pinned view was too old, or its log was too large. It now shows the newest commit.",
                [.pinAdvanced]
            )
        }
        return true
    }

    /// Checks all views, because even one that is not read makes a file's WAL grow.
    private func checkPins() {
        guard state.withLock({ $0.pins.contains { $0.generation != nil } }) else { return }
        // Not on the committing thread, because the listener may want to write.
        conditions.time.start { [weak self] in
            guard let self else { return }
            for generation in self.state.withLock({ $0.pins.compactMap(\.generation) }) {
                _ = self.hasEnded(generation)
            }
        }
    }

    /// Reports, once for each, values that the properties' types cannot read.
    func report(_ unread: [UnreadableValue], of entity: String) {
        guard !unread.isEmpty else { return }
        let news = state.withLock { state in
            if state.unread.count > Self.maxRememberedValues { state.unread = [] }
            return unread.filter { value in
                guard let store = value.object.origin?.store else { return false }
                return state.unread.insert([store.text, entity, value.object.text, value.property]).inserted
            }
        }
        for (store, values) in Dictionary(grouping: news, by: { $0.object.origin?.store }) {
            guard let store, let file = file(store) else { continue }
            let properties = Dictionary(grouping: values, by: \.property).sorted { $0.key < $1.key }
            let details = properties.map { property, values in
                let objects = values.prefix(Self.maxListedObjects).map(\.object.text)
                return MirrorEvent.Detail.unreadable(entity: entity, property: property, objects: Array(objects))
            }
            let names = properties.map(\.key).joined(separator: ", ")
            let message = """
                Objects of \(entity) have values that this version of the app cannot read: \(names). They show the default and \
                keep the value until the property is set.
                """
            record(file, message, details)
        }
    }

    /// The maximum number of unreadable values remembered, and of objects listed in one event.
    private static let maxRememberedValues = 10_000
    private static let maxListedObjects = 100

    /// Reports a problem in one store and stores the event.
    private func record(_ file: StoreFile, _ message: String, _ details: [MirrorEvent.Detail]) {
        let event = MirrorEvent(
            id: 0,
            store: file.id,
            kind: .notice,
            began: now,
            ended: now,
            succeeded: false,
            errorCode: nil,
            message: message,
            done: 0,
            total: nil,
            details: details
        )
        // Not on the reader's thread, which may be the main thread.
        conditions.time.start { [broadcaster] in
            let written = try? await file.pool.write { [event] db in
                var event = event
                try EventLog.write(db, &event)
                return event
            }
            broadcaster.post(written ?? event)
        }
    }

    /// Reports that a request could not be read.
    func failed(_ error: MirrorError, reading entity: String) {
        guard let file = files(holding: entity).first ?? files.first else { return }
        record(file, "\(entity) cannot be read now; the read is retried: \(error.localizedDescription)", [])
    }

    /// Reports a notice that concerns no store in particular.
    func notice(_ message: String, _ details: [MirrorEvent.Detail] = []) {
        guard let store = files.first?.id else { return }
        broadcaster.post(
            MirrorEvent(
                id: 0,
                store: store,
                kind: .notice,
                began: now,
                ended: now,
                succeeded: true,
                errorCode: nil,
                message: message,
                done: 0,
                total: nil,
                details: details
            )
        )
    }
}

/// The signed-in user.
package struct Account: Hashable, Sendable {
    package enum Status: Hashable, Sendable {
        case signedIn
        case signedOut
        /// The user is known but cannot be used now.
        case paused
    }

    /// The user's record name; `nil` if no user is signed in or none was seen yet.
    package var user: String?
    package var status = Status.signedOut

    package init(user: String? = nil, status: Status = .signedOut) {
        self.user = user
        self.status = status
    }
}

/// Records which tables each transaction of a file changes.
private final class CommitWatch: TransactionObserver {
    // Accessed on the file's writer only.
    private var touched: Set<String> = []
    private let tables: Set<String>
    private let committed: @Sendable (Set<String>) -> Void

    init(_ tables: [String], _ committed: @escaping @Sendable (Set<String>) -> Void) {
        self.tables = Set(tables)
        self.committed = committed
    }

    func observes(eventsOfKind kind: DatabaseEventKind) -> Bool { tables.contains(kind.tableName) }

    func databaseDidChange(with event: DatabaseEvent) {
        if touched.insert(event.tableName).inserted, touched.count == tables.count {
            stopObservingDatabaseChangesUntilNextTransaction()
        }
    }

    /// Called for rows that were not inserted through GRDB, without their table.
    func databaseDidChange() { touched = tables }

    func databaseDidCommit(_ db: Database) {
        guard !touched.isEmpty else { return }
        committed(touched)
        touched = []
    }

    func databaseDidRollback(_ db: Database) { touched = [] }
}
