import Foundation
import RelayCore
import SQLiteStore
import Synchronization

/// A power cut while many clients write.
///
/// Each client has its own zone and sends one request after the other. Afterwards every acknowledged write must be
/// present, and the write in flight completely or not at all, no matter which unflushed sectors the disk kept.
package struct ConcurrentWritesTrial: Sendable {
    package var seed: UInt64
    package var clients: Int

    package init(seed: UInt64, clients: Int = 24) {
        self.seed = seed
        self.clients = clients
    }

    /// The number of acknowledged writes and the problems found.
    package struct Report: Sendable {
        package var acknowledged = 0
        package var objections: [String] = []
    }

    package func run() async throws -> Report {
        let folder = try DiskFolder()
        let data = folder.path + "/data"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        let random = SeededRandom(seed: seed)
        let disk = FaultyDisk(folder: data)
        let world = try DiskWorld(data, on: disk, seed: seed, checkpointPages: seed.isMultiple(of: 2) ? 40 : 8_000)
        for number in 0..<clients {
            guard try await Script.makeZone("z\(number)").run(world) == .done else {
                throw WorldFailure("a zone could not be made")
            }
        }
        let fault = FaultyDisk.Fault(number: 20 + random.below(400), .losesPower)
        // The fault is armed at the first answer. How many writes share the first commit, and so how many disk
        // operations it takes, varies between runs.
        let isArmed = Mutex(false)
        let onAnswer: @Sendable () -> Void = {
            isArmed.withLock { isArmed in
                if !isArmed { disk.arm(fault) }
                isArmed = true
            }
        }
        let outcomes = try await withThrowingTaskGroup(of: (Int, PossibleFacts, Int).self) { group in
            for number in 0..<clients { group.addTask { try await write(number, world, onAnswer) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        world.close()
        disk.detach()
        var report = Report(acknowledged: outcomes.reduce(0) { $0 + $1.2 })
        for (index, cut) in [PowerCut.keepsNothing, .keepsSome(seed: seed), .keepsAll].enumerated() {
            let left = folder.path + "/left\(index)"
            try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
            try disk.cutPower(cut, leaving: left)
            do {
                let next = try DiskWorld(left, seed: seed + 1)
                defer { next.close() }
                for (number, facts, _) in outcomes {
                    let found = try await next.feed(of: "z\(number)", pageSize: 7).records
                    guard let objection = facts.objection(to: found) else { continue }
                    report.objections.append("crowd \(seed), client \(number), a cut that \(cut): \(objection)")
                }
                let integrity = try next.store().integrityReport()
                if integrity != "ok" { report.objections.append("crowd \(seed): \(integrity)") }
            } catch {
                report.objections.append("crowd \(seed), a cut that \(cut): \(error)")
            }
        }
        return report
    }

    /// Writes until the power is cut.
    ///
    /// Returns the possible states of the client's zone.
    private func write(_ number: Int, _ world: DiskWorld, _ onAnswer: @Sendable () -> Void) async throws
        -> (Int, PossibleFacts, Int)
    {
        let random = SeededRandom(seed: seed &* 1_000 &+ UInt64(number))
        var facts = PossibleFacts(["zone z\(number)": "there"])
        var acknowledged = 0
        for value in 1...200 {
            let names = Set((0...random.below(8)).map { _ in "r\(random.below(12))" })
            let step = Script.save(Dictionary(uniqueKeysWithValues: names.map { ($0, value) }), in: "z\(number)")
            let outcome = try await step.run(world)
            guard outcome == .done else {
                facts.mayHaveHappened(step)
                break
            }
            facts.happened(step)
            acknowledged += 1
            onAnswer()
        }
        // In the form of the zone's feed.
        var bare = PossibleFacts()
        let prefix = "z\(number)/"
        bare.set(
            Set(
                facts.states.map { state in
                    Dictionary(
                        uniqueKeysWithValues: state.filter { $0.key.hasPrefix(prefix) }
                            .map { (String($0.key.dropFirst(prefix.count)), $0.value) }
                    )
                }
            )
        )
        return (number, bare, acknowledged)
    }
}
