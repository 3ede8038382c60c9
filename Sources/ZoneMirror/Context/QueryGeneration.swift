import Foundation
import GRDB
import Synchronization

/// A consistent view of several stores, kept by an open read transaction on each.
///
/// Debian's SQLite has no snapshot functions, so a view needs a connection, and the WAL of each file grows while it
/// exists. See ReadingAndHistory.md, "Pinned reads".
public final class QueryGeneration: Sendable {
    private struct State {
        /// The snapshots by file, because a store may get another user's file later.
        var snapshots: [String: DatabaseSnapshot] = [:]
        /// The size of each file's WAL when the view began; later parts cannot be checkpointed while it exists.
        var logs: [String: Int] = [:]
        var isOver = false
    }

    private let began: Date
    private let state = Mutex(State())

    init(began: Date) { self.began = began }

    /// Opens all stores at once, so that they show the same time as closely as separate files can.
    func open(_ files: [StoreFile]) throws {
        try state.withLock { state in
            for file in files where !state.isOver && state.snapshots[file.path] == nil {
                state.logs[file.path] = Self.log(of: file.path)
                let snapshot = try file.pool.makeSnapshot()
                // A snapshot begins at the first read.
                _ = try snapshot.read { try Int.fetchOne($0, sql: "SELECT importing FROM mirror_local") }
                state.snapshots[file.path] = snapshot
            }
        }
    }

    /// Returns a file's snapshot, or `nil` if the view has ended.
    func snapshot(_ file: StoreFile) throws -> DatabaseSnapshot? {
        try open([file])
        return state.withLock { $0.snapshots[file.path] }
    }

    var isOver: Bool { state.withLock(\.isOver) }

    /// Ends the view and closes its snapshots once they are no longer read; returns `false` if it had ended before.
    func end() -> Bool {
        let pinned = state.withLock { state -> [String: DatabaseSnapshot]? in
            guard !state.isOver else { return nil }
            defer { state = State(isOver: true) }
            return state.snapshots
        }
        return pinned != nil
    }

    /// Returns whether the view is too old, or keeps too much in the WAL of a file.
    func isTooOld(at now: Date, log limit: Int) -> Bool {
        if now.timeIntervalSince(began) > Self.age { return true }
        return state.withLock(\.logs).contains { Self.log(of: $0) - $1 > limit }
    }

    private static let age: TimeInterval = 300

    private static func log(of path: String) -> Int {
        let file = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return file?[.size] as? Int ?? 0
    }
}

/// The state that a context reads.
enum Pin: Sendable {
    /// The newest commit.
    case none
    /// The state at the time of the next read, to be pinned then.
    case wanted
    case pinned(QueryGeneration)

    /// Unpins the current state, if any; the next read pins a new one.
    mutating func advance() {
        if case .pinned = self { self = .wanted }
    }
}

extension MirrorContext {
    /// The state to which a context is pinned.
    public enum Generation: Sendable {
        /// The state at the time of the next read.
        case current
        /// The state to which another context is pinned.
        case of(QueryGeneration)
    }

    /// Pins the context to one state of the stores, whatever is imported meanwhile; `nil` unpins it.
    ///
    /// A pinned context advances at its saves, at merges, and at `reset()` and `refreshAll()`.
    public func setQueryGeneration(_ generation: Generation?) {
        state.withLock { state in
            switch generation {
            case nil: state.pin = .none
            case .current?: state.pin = .wanted
            case .of(let token)?: state.pin = .pinned(token)
            }
        }
    }

    /// The state to which this context is pinned, for use by another one; `nil` if it is not pinned or has not read
    /// yet.
    public var queryGeneration: QueryGeneration? {
        state.withLock { if case .pinned(let token) = $0.pin { token } else { nil } }
    }

    /// Advances a pinned context to the newest commit.
    public func refreshAll() {
        state.withLock { $0.pin.advance() }
    }

    /// Reads a store as this context sees it.
    func read<Result>(_ file: StoreFile, _ body: (Database) throws -> Result) throws(MirrorError) -> Result {
        do {
            while let generation = try pinned() {
                // If the view has just ended, the loop continues with the next one.
                if let snapshot = try generation.snapshot(file) { return try snapshot.read(body) }
            }
            return try file.pool.read(body)
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func pinned() throws -> QueryGeneration? {
        if let parent { return try parent.pinned() }
        switch state.withLock({ $0.pin }) {
        case .none: return nil
        case .pinned(let generation) where stores.hasEnded(generation):
            state.withLock { state in
                if case .pinned(let current) = state.pin, current === generation { state.pin = .wanted }
            }
            return try pinned()
        case .pinned(let generation): return generation
        case .wanted:
            let generation = stores.newGeneration()
            try generation.open(stores.files)
            state.withLock { $0.pin = .pinned(generation) }
            return generation
        }
    }
}
