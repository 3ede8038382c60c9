import Foundation
import GRDB
import Synchronization

/// One moment of several stores, held by an open read transaction on each.
///
/// Debian's SQLite has no snapshot functions, so a view costs a connection, and the log of each file grows while it lasts.
/// See ReadingAndHistory.md, "Pinned reads".
public final class QueryGeneration: Sendable {
    private struct State {
        /// By file: behind a store may be another user's later on.
        var snapshots: [String: DatabaseSnapshot] = [:]
        /// How long each file's log was before: what is longer cannot go into the file while this lasts.
        var logs: [String: Int] = [:]
        var isOver = false
    }

    private let began: Date
    private let state = Mutex(State())

    init(began: Date) { self.began = began }

    /// Opens all stores at once, so that they show one moment as nearly as separate files can.
    func open(_ files: [StoreFile]) throws {
        try state.withLock { state in
            for file in files where !state.isOver && state.snapshots[file.path] == nil {
                state.logs[file.path] = Self.log(of: file.path)
                let snapshot = try file.pool.makeSnapshot()
                // The moment is that of the first read.
                _ = try snapshot.read { try Int.fetchOne($0, sql: "SELECT importing FROM mirror_local") }
                state.snapshots[file.path] = snapshot
            }
        }
    }

    /// `nil` once it is over.
    func snapshot(_ file: StoreFile) throws -> DatabaseSnapshot? {
        try open([file])
        return state.withLock { $0.snapshots[file.path] }
    }

    var isOver: Bool { state.withLock(\.isOver) }

    /// Lets go of the files, as soon as nobody reads in them; `false` where that was done before.
    func end() -> Bool {
        let held = state.withLock { state -> [String: DatabaseSnapshot]? in
            guard !state.isOver else { return nil }
            defer { state = State(isOver: true) }
            return state.snapshots
        }
        return held != nil
    }

    /// Whether it lasts too long, or keeps too much in the log of a file.
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

/// What a context reads from.
enum Pin: Sendable {
    /// The newest commit.
    case none
    /// The moment of the next read.
    case wanted
    case held(QueryGeneration)

    /// To the moment of the next read, where anything is pinned.
    mutating func advance() {
        if case .held = self { self = .wanted }
    }
}

extension MirrorContext {
    /// What to pin a context to.
    public enum Generation: Sendable {
        /// The moment of the next read.
        case current
        /// The moment of another context.
        case of(QueryGeneration)
    }

    /// Pins the context, so that everything it reads is of one moment whatever is imported meanwhile; `nil` ends that.
    ///
    /// The moment moves on at a save of this context, a merge, `reset()` and `refreshAll()`.
    public func setQueryGeneration(_ generation: Generation?) {
        state.withLock { state in
            switch generation {
            case nil: state.pin = .none
            case .current?: state.pin = .wanted
            case .of(let token)?: state.pin = .held(token)
            }
        }
    }

    /// The moment that this context is pinned to, for another one; `nil` where it is not, or has not read yet.
    public var queryGeneration: QueryGeneration? {
        state.withLock { if case .held(let token) = $0.pin { token } else { nil } }
    }

    /// Moves a pinned context to the newest commit.
    public func refreshAll() {
        state.withLock { $0.pin.advance() }
    }

    /// Reads a store as this context sees it.
    func read<Result>(_ file: StoreFile, _ body: (Database) throws -> Result) throws(MirrorError) -> Result {
        do {
            while let generation = try held() {
                // One that has ended just now is followed by the next.
                if let snapshot = try generation.snapshot(file) { return try snapshot.read(body) }
            }
            return try file.pool.read(body)
        } catch {
            throw MirrorError(from: error)
        }
    }

    private func held() throws -> QueryGeneration? {
        if let parent { return try parent.held() }
        switch state.withLock({ $0.pin }) {
        case .none: return nil
        case .held(let generation) where stores.hasEnded(generation):
            state.withLock { state in
                if case .held(let current) = state.pin, current === generation { state.pin = .wanted }
            }
            return try held()
        case .held(let generation): return generation
        case .wanted:
            let generation = stores.newGeneration()
            try generation.open(stores.files)
            state.withLock { $0.pin = .held(generation) }
            return generation
        }
    }
}
