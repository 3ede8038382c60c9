package import Records

/// Both ends of the move of a whole relay: its accounts, its containers and their assets.
package protocol MoveRoute: AnyObject {
    /// The containers and environments that have data now.
    func homes() throws -> [ContainerEnvironment]
    func relayEnds() throws -> (source: any MoveSource, sink: any MoveSink)
    func ends(of home: ContainerEnvironment) throws -> (source: any MoveSource, sink: any MoveSink)
    /// Copies the assets that the target does not have; returns their number and bytes.
    func copyAssets(of home: ContainerEnvironment) throws -> MovedAssets
    /// Makes the source refuse writes, and returns when none is in progress.
    func refuseWrites() throws
    /// Marks the source, so that no relay serves it again.
    func markSource() throws
    /// Lets relays use the target.
    func openTarget() throws
}

package struct MovedAssets: Hashable, Sendable, Encodable {
    package var count = 0
    package var bytes: Int64 = 0

    package init(count: Int = 0, bytes: Int64 = 0) {
        self.count = count
        self.bytes = bytes
    }

    static func += (sum: inout MovedAssets, more: MovedAssets) {
        sum.count += more.count
        sum.bytes += more.bytes
    }
}

/// The move of a whole relay from one kind of store to another, while it serves.
///
/// Everything is copied, then what has changed meanwhile, until little is left. Then the source refuses writes, for the
/// time that the last changes, their comparison and the marks take. A move that ends before the mark leaves the source
/// in use; run again, it continues.
package final class RelayMove {
    package enum Step: Hashable, Sendable {
        case accounts
        /// A container's rows: how many records so far.
        case copying(ContainerEnvironment, records: Int64)
        case assets(ContainerEnvironment)
        /// How many records have changed since the last time.
        case changes(Int64)
        case comparing(ContainerEnvironment)
        case refusingWrites
        case markingSource
        case openingTarget
    }

    package struct Summary: Hashable, Sendable {
        package var containers = 0
        package var records: Int64 = 0
        package var assets = MovedAssets()
        /// How long the source refused writes.
        package var refusal = Duration.zero
    }

    /// So many changed records or fewer are left for the time in which writes are refused.
    private static let fewChanges: Int64 = 2_000
    private static let mostRounds = 10

    private let route: any MoveRoute
    private let uptime: () -> Duration
    private let report: (Step) throws -> Void
    private var accounts: StoreMove?
    private var moves: [(home: ContainerEnvironment, move: StoreMove)] = []
    private var summary = Summary()

    /// - Parameters:
    ///   - route: both ends.
    ///   - uptime: returns the time since some moment.
    ///   - report: called before each step; may throw, to interrupt.
    package init(
        _ route: any MoveRoute,
        uptime: @escaping () -> Duration,
        report: @escaping (Step) throws -> Void
    ) {
        self.route = route
        self.uptime = uptime
        self.report = report
    }

    package func run() throws -> Summary {
        try report(.accounts)
        let ends = try route.relayEnds()
        let accounts = StoreMove(MovedTable.ofRelay, from: ends.source, to: ends.sink)
        try accounts.copy()
        try copyMissing()
        for _ in 0..<Self.mostRounds {
            var changed: Int64 = 0
            for (_, move) in moves { changed += try move.catchUp() }
            try report(.changes(changed))
            if changed <= Self.fewChanges { break }
        }
        for (home, move) in moves {
            try report(.comparing(home))
            try move.catchUp(comparing: .all)
            summary.assets += try route.copyAssets(of: home)
        }
        try report(.refusingWrites)
        let start = uptime()
        try route.refuseWrites()
        // Containers that were created meanwhile, too.
        try accounts.catchUp(comparing: .all)
        try copyMissing()
        for (home, move) in moves {
            try move.catchUp(comparing: .changes)
            summary.assets += try route.copyAssets(of: home)
            try move.finish()
        }
        try accounts.finish()
        try report(.markingSource)
        try route.markSource()
        summary.refusal = uptime() - start
        try report(.openingTarget)
        try route.openTarget()
        summary.containers = Set(moves.map(\.home.container)).count
        return summary
    }

    private func copyMissing() throws {
        let known = Set(moves.map(\.home))
        for home in try route.homes() where !known.contains(home) {
            let ends = try route.ends(of: home)
            var copied: Int64 = 0
            let report = report
            let move = StoreMove(MovedTable.ofHome, from: ends.source, to: ends.sink) { step in
                guard case .records(let count) = step else { return }
                copied = count
                try report(.copying(home, records: count))
            }
            try move.copy()
            summary.records += copied
            moves.append((home, move))
            try report(.assets(home))
            summary.assets += try route.copyAssets(of: home)
        }
    }
}
