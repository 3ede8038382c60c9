import Foundation
import RelayCore
import RelayStore
import Synchronization

/// Many clients write at once, and the power is cut while they do.
///
/// Each has a zone of its own and sends one request after the other; what was acknowledged must be there afterwards, the
/// request on its way wholly or not at all, whatever of the unflushed sectors the disk kept.
package struct CrowdTrial: Sendable {
    package var seed: UInt64
    package var clients: Int

    package init(seed: UInt64, clients: Int = 24) {
        self.seed = seed
        self.clients = clients
    }

    /// What was written and what is wrong.
    package struct Report: Sendable {
        package var acknowledged = 0
        package var objections: [String] = []
    }

    package func run() async throws -> Report {
        let folder = try DiskFolder()
        let data = folder.path + "/data"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        let draw = Draw(seed: seed)
        let disk = FaultyDisk(folder: data)
        let world = try DiskWorld(data, on: disk, seed: seed, checkpointPages: seed.isMultiple(of: 2) ? 40 : 8_000)
        for number in 0..<clients {
            guard try await Script.makeZone("z\(number)").run(world) == .done else {
                throw WorldFailure("a zone could not be made")
            }
        }
        let fault = FaultyDisk.Fault(number: 20 + draw.below(400), .losesPower)
        // Counted from the first answer on: how many writes share the first commit, and so how much of the disk it takes,
        // is for the machine to say.
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

    /// Writes until the power is gone; gives what its zone may hold.
    private func write(_ number: Int, _ world: DiskWorld, _ onAnswer: @Sendable () -> Void) async throws
        -> (Int, PossibleFacts, Int)
    {
        let draw = Draw(seed: seed &* 1_000 &+ UInt64(number))
        var facts = PossibleFacts(["zone z\(number)": "there"])
        var acknowledged = 0
        for value in 1...200 {
            let names = Set((0...draw.below(8)).map { _ in "r\(draw.below(12))" })
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
        // As the zone's feed says it.
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
