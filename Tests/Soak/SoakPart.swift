import DiskTrials
import Foundation
import Fuzz

/// One thing that is tried for a while.
struct SoakPart: Sendable {
    var name: String
    /// How much of the time it gets, compared with the others.
    var weight: Double
    var run: @Sendable (SoakSlice) async throws -> SoakReport

    static let all: [SoakPart] = simulators + [history, crowd, steps, folders, damage] + fuzz
}

/// The time and the chance that a part has.
struct SoakSlice: Sendable {
    var seed: UInt64
    var deadline: ContinuousClock.Instant
    /// A folder for what did harm.
    var findings: String
    /// Whether the kept corpus is to grow.
    var keeps: Bool
    /// Shows how far it has come.
    var say: @Sendable (String) -> Void

    var isOver: Bool { ContinuousClock.now > deadline }
}

/// What a part did and what was wrong; each objection says how to repeat it.
struct SoakReport: Sendable {
    var summary: String
    var objections: [String] = []
}

extension SoakPart {
    /// Simulated worlds: a program of its own, built beside this one.
    private static let simulators = [
        SoakPart(name: "simulator", weight: 5) { try simulate($0) },
        SoakPart(name: "linked-mirrors", weight: 1) { try simulate($0, "--mirrors") },
    ]

    private static func simulate(_ slice: SoakSlice, _ words: String...) throws -> SoakReport {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("simulate")
        guard FileManager.default.isExecutableFile(atPath: program.path) else {
            return SoakReport(summary: "left out: there is no program simulate beside this one")
        }
        var (first, summary) = (slice.seed, "it had no time")
        repeat {
            let seconds = max(1, Int((slice.deadline - .now) / .seconds(1)))
            let seeds = ["--seeds", "\(first)..<\(first + seedsOfAProcess)", "--seconds", "\(seconds)"]
            var (lines, isGood) = try run(program, words + seeds)
            // Its last line sums up; what comes before it is the story of a seed that failed.
            summary = lines.popLast() ?? "it said nothing"
            guard isGood else { return SoakReport(summary: summary, objections: lines.isEmpty ? [summary] : lines) }
            first += seedsOfAProcess
        } while slice.deadline > .now
        return SoakReport(summary: "from seed \(slice.seed) on, the last of them: \(summary)")
    }

    /// Whoever crashes in a simulated world never lets go of its files, in worlds of linked mirrors some fifty: after some
    /// hundred worlds no more can be opened.
    private static let seedsOfAProcess: UInt64 = 200

    /// What a program says, line by line, and whether it ends well.
    private static func run(_ program: URL, _ words: [String]) throws -> (lines: [String], isGood: Bool) {
        let process = Process()
        process.executableURL = program
        process.arguments = words
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let isGood = process.terminationReason == .exit && process.terminationStatus == 0
        return (said.split(separator: "\n").map(String.init), isGood)
    }

    /// Lives of relays on bad disks.
    private static let history = SoakPart(name: "disk-history", weight: 3) { slice in
        var total = HistoryTrial.Report(starts: 0)
        var objections: [String] = []
        var seed = slice.seed
        while !slice.isOver, objections.count < 5 {
            let report = await HistoryTrial(seed: seed, length: 120).run()
            total.writes += report.writes
            total.faults += report.faults
            total.starts += report.starts
            total.cuts += report.cuts
            if let objection = report.objection { objections.append(objection) }
            seed += 1
            if (seed - slice.seed) % 10 == 0 { slice.say("\(seed - slice.seed) lives") }
        }
        let summary =
            "\(seed - slice.seed) lives: \(total.writes) writes, \(total.faults) faults, \(total.starts) starts, "
            + "\(total.cuts) power cuts; seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// Power cuts while many write.
    private static let crowd = SoakPart(name: "disk-crowd", weight: 1) { slice in
        var (seed, acknowledged, objections) = (slice.seed, 0, [String]())
        while !slice.isOver, objections.count < 5 {
            let report = try await CrowdTrial(seed: seed).run()
            acknowledged += report.acknowledged
            objections += report.objections
            seed += 1
            if (seed - slice.seed) % 10 == 0 { slice.say("\(seed - slice.seed) power cuts") }
        }
        let summary =
            "\(seed - slice.seed) power cuts among 24 writers, \(acknowledged) acknowledged writes; "
            + "seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// Every write of the script, struck at every operation, in each way.
    private static let steps = SoakPart(name: "disk-steps", weight: 2) { slice in
        let stage = try await Stage.shared()
        let effects: [FaultyDisk.Fault.Effect] = [.losesPower, .fails, .isFull, .isCutShort]
        var (runs, done, objections) = (0, 0, [String]())
        let all = effects.flatMap { effect in (0..<StepTrials.stepCount).map { StepTrials(step: $0, effect: effect) } }
        for trials in all where !slice.isOver && objections.count < 5 {
            let report = try await trials.run(on: stage) { _ in !slice.isOver }
            runs += report.runs
            done += 1
            objections += report.objections
            slice.say("\(done) of \(all.count) writes, \(runs) faults")
        }
        return SoakReport(summary: "\(done) of \(all.count) writes with \(runs) faults", objections: objections)
    }

    /// Backups, restores and resets, struck at every operation.
    private static let folders = SoakPart(name: "disk-folders", weight: 1) { slice in
        let stage = try await FolderStage.shared()
        let effects: [FaultyDisk.Fault.Effect] = [.losesPower, .fails, .isFull, .isCutShort]
        var (runs, objections) = (0, [String]())
        func add(_ report: StepTrials.Report) {
            runs += report.runs
            objections += report.objections
            slice.say("\(runs) faults")
        }
        for effect in effects where !slice.isOver && objections.count < 5 {
            for action in FolderTrials.Action.allCases {
                add(try await FolderTrials(action, effect).run(on: stage) { _ in !slice.isOver })
            }
        }
        return SoakReport(summary: "\(runs) faults in backups, restores and resets", objections: objections)
    }

    /// Damaged pages.
    private static let damage = SoakPart(name: "disk-damage", weight: 0.5) { slice in
        let tables = try await DamageTrial.tables()
        var (seed, met, objections) = (slice.seed, 0, [String]())
        while !slice.isOver, objections.count < 5 {
            let damage = DamageTrial.Damage.allCases[Int(seed % 4)]
            let table = seed % 3 == 0 ? nil : tables[Int(seed / 4) % tables.count]
            let report = try await DamageTrial(seed: seed, damage, of: table).run()
            if report.isMet { met += 1 }
            if let objection = report.objection { objections.append(objection) }
            seed += 1
        }
        let summary =
            "\(seed - slice.seed) damaged pages of \(tables.count) tables and indexes, \(met) met by a reader; "
            + "seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// One part for each reader of strangers' bytes.
    private static let fuzz = FuzzTarget.all.map { target in
        SoakPart(name: "fuzz-\(target.name)", weight: 0.4) { slice in
            let corpus = FuzzRun.keptCorpus
            let run = FuzzRun(target, corpus: corpus, findings: slice.findings)
            let report = try await run.run(seed: slice.seed, count: .max, until: slice.deadline)
            if slice.keeps { try run.extendCorpus(by: report.news) }
            return SoakReport(
                summary: "\(report.inputs) inputs taken in \(report.manners) manners; seed \(slice.seed)",
                objections: report.objections
            )
        }
    }
}
