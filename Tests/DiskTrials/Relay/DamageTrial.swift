import Foundation
import GRDB
import RelayStore

/// A store of which one page is overwritten while nobody looks.
package struct DamageTrial: Sendable {
    /// What has become of the page.
    package enum Damage: Hashable, Sendable, CaseIterable {
        /// Another file's content, or none.
        case lost
        /// All zeroes, as after a write that never came.
        case zeroed
        /// Some bytes: what is still a page by its form, and only its sum says otherwise.
        case flipped
        /// Another page of the same file, as after a write that went to the wrong place.
        case misplaced
    }

    package var seed: UInt64
    package var damage: Damage
    /// The table or index whose page it is; `nil` for any page.
    package var table: String?

    package init(seed: UInt64, _ damage: Damage, of table: String? = nil) {
        self.seed = seed
        self.damage = damage
        self.table = table
    }

    /// The tables and indexes that have pages in such a relay's files.
    package static func tables() async throws -> [String] {
        let place = try DiskFolder()
        return try files(in: try await copy(into: place).folder).flatMap { file in
            try DatabaseQueue(path: CheckedVFS.address(of: file)).read {
                try String.fetchAll($0, sql: "SELECT DISTINCT name FROM dbstat")
            }
        }
    }

    private static func files(in folder: String) -> [String] {
        ["\(folder)/containers/\(DiskWorld.container)/development.sqlite", "\(folder)/relay.sqlite"]
    }

    package struct Report: Sendable {
        /// Whether a reader met the damage.
        package var isMet = false
        /// What was served that nobody wrote, or was not though it was written; `nil` for nothing.
        package var objection: String?
    }

    /// Fills a relay, damages a page, and reads: what is served must be what was written, or an error with a sentence; and
    /// whoever looks at all pages is told.
    package func run() async throws -> Report {
        let place = try DiskFolder()
        let (folder, good) = try await Self.copy(into: place)
        let draw = Draw(seed: seed)
        let strike = try self.strike(Self.files(in: folder), draw)
        var report = Report()
        let told = try StoreCheck.faults(in: folder)
        if told.count != 1 { report.objection = "\(strike): a look at all pages says \(told)" }
        do {
            let world = try DiskWorld(folder, seed: 2)
            defer { world.close() }
            let found = try await world.facts(pageSize: 1 + draw.below(50))
            let wrong = Set(found.keys).union(good.keys).filter { found[$0] != good[$0] }
            if !wrong.isEmpty {
                let some = wrong.sorted().prefix(4).map {
                    "\($0): \(good[$0] ?? "nothing") became \(found[$0] ?? "nothing")"
                }
                report.objection = "\(strike): \(some.joined(separator: ", ")), and nobody said so"
            }
        } catch {
            report.isMet = true
            if "\(error)".isEmpty { report.objection = "\(strike): an error without a sentence" }
        }
        return report
    }

    /// A relay's folder, and what it holds.
    private static func copy(into place: DiskFolder) async throws -> (folder: String, good: Facts) {
        let (filled, good) = try await filled.value
        let folder = place.path + "/data"
        try FileManager.default.copyItem(atPath: filled.path, toPath: folder)
        return (folder, good)
    }

    /// One for all trials of this process; each has a copy, since even a reader makes a log and removes it.
    private static let filled = Task {
        let folder = try DiskFolder()
        return (folder, try await fill(folder.path))
    }

    /// A relay with two zones, a share, assets, subscriptions and accounts; gives what it holds.
    private static func fill(_ folder: String) async throws -> Facts {
        let world = try DiskWorld(folder, seed: 1)
        defer { world.close() }
        for step in Script.steps + [Script.makeZone("Box")] {
            let outcome = try await step.run(world)
            guard outcome == .done else { throw WorldFailure("\(step.name): \(outcome)") }
        }
        for round in 1...6 {
            let values = Dictionary(uniqueKeysWithValues: (0..<60).map { ("r\($0)", round) })
            for zone in ["Notes", "Box"] { _ = try await Script.save(values, in: zone).run(world) }
        }
        return try await world.facts()
    }

    /// Damages one page; says which.
    private func strike(_ files: [String], _ draw: Draw) throws -> String {
        var pages: [(file: String, number: Int)] = []
        for file in files {
            // What the log has of a page is what counts.
            let queue = try DatabaseQueue(path: CheckedVFS.address(of: file))
            try queue.inDatabase { _ = try $0.checkpoint(.truncate) }
            try queue.close()
            let sql = "SELECT pageno FROM dbstat WHERE name = ? OR ? IS NULL"
            pages += try DatabaseQueue(path: CheckedVFS.address(of: file)).read { database in
                try Int.fetchAll(database, sql: sql, arguments: [table, table]).map { (file, $0) }
            }
        }
        guard !pages.isEmpty else { throw WorldFailure("\(table ?? "the file") has no page") }
        let (file, number) = pages[draw.below(pages.count)]
        var bytes = [UInt8](FileManager.default.contents(atPath: file) ?? Data())
        let range = (number - 1) * 4_096..<number * 4_096
        switch damage {
        case .lost: bytes.replaceSubrange(range, with: draw.bytes(4_096))
        case .zeroed: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4_096))
        case .flipped:
            for _ in 0..<(1 + draw.below(3)) {
                bytes[range.lowerBound + draw.below(4_096)] ^= 1 << UInt8(draw.below(8))
            }
        case .misplaced:
            // Not the first: by that the whole file would be another's.
            let other = 1 + (number + draw.below(bytes.count / 4_096 - 2)) % (bytes.count / 4_096 - 1)
            let source = other == number - 1 ? 0 : other
            bytes.replaceSubrange(range, with: Array(bytes[source * 4_096..<source * 4_096 + 4_096]))
        }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        return "seed \(seed), page \(number) of \((file as NSString).lastPathComponent) (\(table ?? "any")), \(damage)"
    }
}
