import Foundation

/// A store of which one page is overwritten while nobody looks.
package struct DamageTrial: Sendable {
    /// What has become of the page.
    package enum Damage: Hashable, Sendable, CaseIterable {
        /// Another file's content, or none.
        case lost
        /// All zeroes, as after a write that never came.
        case zeroed
        /// Some bytes. SQLite keeps no checksums: what is still a page by its form is read as one, and such damage may
        /// come out as wrong values. Only `PRAGMA integrity_check` and what reads the records' JSON may notice.
        case flipped
    }

    package var seed: UInt64
    package var damage: Damage

    package init(seed: UInt64, _ damage: Damage) {
        self.seed = seed
        self.damage = damage
    }

    package struct Report: Sendable {
        /// Whether a reader met the damage.
        package var isMet = false
        /// What was served that nobody wrote, or was not though it was written; `nil` for nothing.
        package var objection: String?
    }

    /// Fills a relay, damages a page, and reads: what is served must be what was written, or an error with a sentence.
    package func run() async throws -> Report {
        let folder = try DiskFolder()
        let file: String
        let good: Facts
        do {
            let world = try DiskWorld(folder.path, seed: 1)
            defer { world.close() }
            for step in [Script.makeZone("Notes"), Script.makeZone("Box")] { _ = try await step.run(world) }
            for round in 1...6 {
                let values = Dictionary(uniqueKeysWithValues: (0..<60).map { ("r\($0)", round) })
                for zone in ["Notes", "Box"] { _ = try await Script.save(values, in: zone).run(world) }
            }
            good = try await world.facts()
            file = world.file
        }
        let draw = Draw(seed: seed)
        var bytes = [UInt8](FileManager.default.contents(atPath: file) ?? Data())
        let page = draw.below(bytes.count / 4_096)
        let range = page * 4_096..<(page + 1) * 4_096
        switch damage {
        case .lost: bytes.replaceSubrange(range, with: draw.bytes(4_096))
        case .zeroed: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4_096))
        case .flipped:
            for _ in 0..<(1 + draw.below(40)) { bytes[page * 4_096 + draw.below(4_096)] = UInt8(draw.below(256)) }
        }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        var report = Report()
        do {
            let world = try DiskWorld(folder.path, seed: 2)
            defer { world.close() }
            let found = try await world.facts(pageSize: 1 + draw.below(50))
            let wrong = Set(found.keys).union(good.keys).filter { found[$0] != good[$0] }
            if !wrong.isEmpty {
                let some = wrong.sorted().prefix(4).map {
                    "\($0): \(good[$0] ?? "nothing") became \(found[$0] ?? "nothing")"
                }
                report.objection = "seed \(seed), page \(page): \(some.joined(separator: ", ")), and nobody said so"
            }
        } catch {
            report.isMet = true
            if "\(error)".isEmpty { report.objection = "seed \(seed), page \(page): an error without a sentence" }
        }
        return report
    }
}
