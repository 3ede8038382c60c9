import Foundation
import SQLiteStore

/// Each write of the script, on a disk that fails at each of its operations in turn.
///
/// Afterwards acknowledged writes are present, no write is partial, no feed has a gap and no change number was given
/// twice. The relay continues, or has asked for a restart. See Reliability.md, "Faults".
package struct StepTrials: Sendable {
    /// The index of the write in the script.
    package var step: Int
    package var effect: FaultyDisk.Fault.Effect
    /// The affected operations; `nil` for all except reads.
    package var operations: Set<FaultyDisk.Operation>?

    package init(step: Int, effect: FaultyDisk.Fault.Effect, operations: Set<FaultyDisk.Operation>? = nil) {
        self.step = step
        self.effect = effect
        self.operations = operations
    }

    package static var stepCount: Int { Script.steps.count }

    package var name: String { "\(Script.steps[step].name) (step \(step)), \(effect)" }

    /// The number of trials and the problems found.
    package struct Report: Sendable {
        package var runs = 0
        package var objections: [String] = []
    }

    /// Runs the trials whose numbers satisfy `isIn`, and one without a fault at the end.
    ///
    /// - Parameters:
    ///   - stage: The folders before each step.
    ///   - isIn: Selects the operations that fail, counted from 1.
    /// - Returns: The number of trials and the problems found.
    /// - Throws: If a trial cannot be set up.
    package func run(on stage: Stage, where isIn: (Int) -> Bool = { _ in true }) async throws -> Report {
        var report = Report()
        var number = 1
        while true {
            guard number < 2_000 else { throw WorldFailure("\(name): 2,000 operations failed and there are more") }
            guard isIn(number) || number > stage.operations(of: step) else {
                number += 1
                continue
            }
            let trial = Trial(self, number: number)
            let isStruck = try await trial.run(on: stage, &report)
            report.runs += 1
            if !isStruck { return report }
            number += 1
        }
    }

    fileprivate func fault(_ number: Int) -> FaultyDisk.Fault {
        // A full disk stays full until space is freed.
        let lasts = effect == .isFull || effect == .isCutShort
        return FaultyDisk.Fault(operations, number: number, effect, lasts: lasts)
    }
}

/// The folder before each step of the script.
///
/// Created once.
package struct Stage: Sendable {
    private let folder: DiskFolder
    fileprivate let facts: [Facts]
    private let counts: [Int]

    package init() async throws {
        folder = try DiskFolder()
        var (facts, counts): ([Facts], [Int]) = ([], [])
        let work = folder.work
        try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
        var known = PossibleFacts()
        for (number, step) in Script.steps.enumerated() {
            let disk = FaultyDisk(folder: work)
            do {
                let world = try DiskWorld(work, on: disk, seed: UInt64(number + 1))
                defer { world.close() }
                // The first use creates the store's file and the users, which is not part of this step.
                let found = try await world.facts()
                if let objection = known.objection(to: found) {
                    throw WorldFailure("before \(step.name): \(objection)")
                }
                facts.append(found)
            }
            disk.detach()
            try FileManager.default.copyItem(atPath: work, toPath: folder.path + "/\(number)")
            let counting = FaultyDisk(folder: work)
            defer { counting.detach() }
            let world = try DiskWorld(work, on: counting, seed: UInt64(number + 1))
            defer { world.close() }
            _ = try world.store()
            counting.arm(FaultyDisk.Fault(number: .max, .fails))
            let outcome = try await step.run(world)
            guard outcome == .done else { throw WorldFailure("\(step.name) on a good disk: \(outcome)") }
            counts.append(counting.count)
            known.happened(step)
        }
        self.facts = facts
        self.counts = counts
    }

    /// The number of operations that the step takes on a good disk.
    package func operations(of step: Int) -> Int { counts[step] }

    /// Copies the folder before a step.
    fileprivate func copy(before step: Int, to target: String) throws {
        try FileManager.default.copyItem(atPath: folder.path + "/\(step)", toPath: target)
    }
}

/// One write with a fault at one operation.
private struct Trial {
    let trials: StepTrials
    let number: Int
    let step: Step

    init(_ trials: StepTrials, number: Int) {
        self.trials = trials
        self.number = number
        step = Script.steps[trials.step]
    }

    private var seed: UInt64 { UInt64(trials.step * 10_000 + number) }

    /// Runs the write and checks the relay.
    ///
    /// Returns whether the fault occurred.
    func run(on stage: Stage, _ report: inout StepTrials.Report) async throws -> Bool {
        let folder = try DiskFolder()
        let work = folder.work
        try stage.copy(before: trials.step, to: work)
        let disk = FaultyDisk(folder: work)
        var facts = PossibleFacts(stage.facts[trials.step])
        let tags = Tags()
        var problems: [String] = []
        let isStruck: Bool
        do {
            let world = try DiskWorld(work, on: disk, seed: seed, tags: tags)
            defer { world.close() }
            _ = try world.store()
            disk.arm(trials.fault(number))
            let outcome = try await step.run(world)
            isStruck = disk.disarm()
            try await judge(outcome, isStruck, world, disk, &facts, &problems)
        }
        disk.detach()
        if trials.effect == .losesPower, isStruck {
            for (index, cut) in [PowerCut.keepsNothing, .keepsSome(seed: seed), .keepsAll].enumerated() {
                let left = folder.path + "/left\(index)"
                try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
                try disk.cutPower(cut, leaving: left)
                var rest: [String] = []
                await check(left, facts, tags.copy, &rest)
                problems += rest.map { "after a power cut that \(cut): \($0)" }
            }
        } else {
            await check(work, facts, tags, &problems)
        }
        report.objections += problems.map { "\(trials.name), operation \(number): \($0)" }
        return isStruck
    }

    /// Checks the running relay's answer and that it continues.
    private func judge(
        _ outcome: Step.Outcome,
        _ isStruck: Bool,
        _ world: DiskWorld,
        _ disk: FaultyDisk,
        _ facts: inout PossibleFacts,
        _ problems: inout [String]
    ) async throws {
        switch outcome {
        case .done: facts.happened(step)
        case .refused(let code): problems.append("the disk fault was answered with \(code)")
        case .unknown(let code, let reason):
            facts.mayHaveHappened(step)
            if !isStruck { problems.append("nothing failed, but the answer was \(code)") }
            if reason.isEmpty { problems.append("\(code) without a reason") }
        }
        guard trials.effect != .losesPower || !isStruck else { return }
        // Reads still work while writes fail.
        do {
            let found = try await world.facts(pageSize: 1 + number % 3)
            if let objection = facts.objection(to: found) { problems.append("during the fault: \(objection)") }
        } catch {
            problems.append("during the fault reads fail: \(error)")
        }
        disk.heal()
        for probe in [Script.makeZone("Probe"), Script.addToken("probe")] {
            let outcome = try await probe.run(world)
            if outcome == .done {
                facts.happened(probe)
            } else if case .unknown = outcome, world.wantsRestart, trials.effect == .fails {
                facts.mayHaveHappened(probe)
            } else {
                problems.append("\(probe.name) afterwards: \(outcome)\(world.wantsRestart ? ", wants restart" : "")")
                facts.mayHaveHappened(probe)
            }
        }
    }

    /// Checks the state that the next start finds.
    private func check(_ folder: String, _ facts: PossibleFacts, _ tags: Tags, _ problems: inout [String]) async {
        do {
            let world = try DiskWorld(folder, seed: seed + 5_000, tags: tags)
            defer { world.close() }
            let found = try await world.facts(pageSize: [200, 2, 3][number % 3])
            if let objection = facts.objection(to: found) { problems.append("after the next start: \(objection)") }
            let store = try world.store().integrityReport()
            if store != "ok" { problems.append("the store's file: \(store)") }
            if let accounts = try world.directory.pragma("integrity_check"), accounts != "ok" {
                problems.append("relay.sqlite: \(accounts)")
            }
            for probe in [Script.makeZone("Again"), Script.save(["probe": 1], in: "Again"), Script.addToken("again")] {
                let outcome = try await probe.run(world)
                if outcome != .done { problems.append("\(probe.name) after the next start: \(outcome)") }
            }
        } catch {
            problems.append("the next start failed: \(error)")
        }
    }
}

extension Stage {
    private static let making = Task { try await Stage() }

    /// The instance of this process.
    package static func shared() async throws -> Stage { try await making.value }
}
