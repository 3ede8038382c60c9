import Foundation
import GRDB
import SQLiteStore

/// A store with one page overwritten while no process has it open.
package struct DamageTrial: Sendable {
    /// The kind of damage.
    package enum Damage: Hashable, Sendable, CaseIterable {
        /// Random bytes.
        case lost
        /// All zeroes, as after a lost write.
        case zeroed
        /// Some flipped bits: the page is still well-formed, and only its checksum shows the damage.
        case flipped
        /// Another page of the same file, as after a misdirected write.
        case misplaced
    }

    package var seed: UInt64
    package var damage: Damage
    /// The table or index whose page is damaged; `nil` for any page.
    package var table: String?

    package init(seed: UInt64, _ damage: Damage, of table: String? = nil) {
        self.seed = seed
        self.damage = damage
        self.table = table
    }

    /// The tables and indexes with pages in the files of a filled relay.
    package static func tables() async throws -> [String] {
        let scratch = try DiskFolder()
        return try files(in: try await copy(into: scratch).folder).flatMap { file in
            try DatabaseQueue(path: CheckedVFS.address(of: file)).read {
                try String.fetchAll($0, sql: "SELECT DISTINCT name FROM dbstat")
            }
        }
    }

    private static func files(in folder: String) -> [String] {
        ["\(folder)/containers/\(DiskWorld.container)/development.sqlite", "\(folder)/relay.sqlite"]
    }

    package struct Report: Sendable {
        /// Whether a read hit the damaged page.
        package var isHit = false
        /// Wrong or missing data that the relay served without an error; `nil` if there was none.
        package var objection: String?
    }

    /// Fills a relay, damages a page and reads everything.
    ///
    /// Reads must return what was written or an error with a reason, and a check of all pages must report the damage.
    package func run() async throws -> Report {
        let scratch = try DiskFolder()
        let (folder, good) = try await Self.copy(into: scratch)
        let random = SeededRandom(seed: seed)
        let place = try damagePage(Self.files(in: folder), random)
        var report = Report()
        let reported = try StoreCheck.faults(in: folder)
        if reported.count != 1 { report.objection = "\(place): the check of all pages reports \(reported)" }
        do {
            let world = try DiskWorld(folder, seed: 2)
            defer { world.close() }
            let found = try await world.facts(pageSize: 1 + random.below(50))
            let wrong = Set(found.keys).union(good.keys).filter { found[$0] != good[$0] }
            if !wrong.isEmpty {
                let some = wrong.sorted().prefix(4).map {
                    "\($0): \(good[$0] ?? "nothing") became \(found[$0] ?? "nothing")"
                }
                report.objection = "\(place): \(some.joined(separator: ", ")), without an error"
            }
        } catch {
            report.isHit = true
            if "\(error)".isEmpty { report.objection = "\(place): an error without a reason" }
        }
        return report
    }

    /// Copies a filled relay folder; returns it with its facts.
    private static func copy(into place: DiskFolder) async throws -> (folder: String, good: Facts) {
        let (filled, good) = try await filled.value
        let folder = place.path + "/data"
        try FileManager.default.copyItem(atPath: filled.path, toPath: folder)
        return (folder, good)
    }

    /// Created once per process.
    ///
    /// Each trial has a copy, since even a reader creates and removes a log.
    private static let filled = Task {
        let folder = try DiskFolder()
        return (folder, try await fill(folder.path))
    }

    /// Fills a relay with two zones, a share, assets, subscriptions and accounts; returns its facts.
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

    /// Damages one page and returns a description of it.
    private func damagePage(_ files: [String], _ random: SeededRandom) throws -> String {
        var pages: [(file: String, number: Int)] = []
        for file in files {
            // Pages in the log override those in the file, so the log is written back first.
            let queue = try DatabaseQueue(path: CheckedVFS.address(of: file))
            try queue.inDatabase { _ = try $0.checkpoint(.truncate) }
            try queue.close()
            let sql = "SELECT pageno FROM dbstat WHERE name = ? OR ? IS NULL"
            pages += try DatabaseQueue(path: CheckedVFS.address(of: file)).read { database in
                try Int.fetchAll(database, sql: sql, arguments: [table, table]).map { (file, $0) }
            }
        }
        guard !pages.isEmpty else { throw WorldFailure("\(table ?? "the file") has no page") }
        let (file, number) = pages[random.below(pages.count)]
        var bytes = [UInt8](FileManager.default.contents(atPath: file) ?? Data())
        let range = (number - 1) * 4_096..<number * 4_096
        switch damage {
        case .lost: bytes.replaceSubrange(range, with: random.bytes(4_096))
        case .zeroed: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4_096))
        case .flipped:
            for _ in 0..<(1 + random.below(3)) {
                bytes[range.lowerBound + random.below(4_096)] ^= 1 << UInt8(random.below(8))
            }
        case .misplaced:
            // Not with the first page: the file would have another database's header.
            let other = 1 + (number + random.below(bytes.count / 4_096 - 2)) % (bytes.count / 4_096 - 1)
            let source = other == number - 1 ? 0 : other
            bytes.replaceSubrange(range, with: Array(bytes[source * 4_096..<source * 4_096 + 4_096]))
        }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        return "seed \(seed), page \(number) of \((file as NSString).lastPathComponent) (\(table ?? "any")), \(damage)"
    }
}
