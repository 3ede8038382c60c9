import DiskTrials
import Foundation
import Fuzz

/// One part of a soak run.
struct SoakPart: Sendable {
    var name: String
    /// The part's share of the time, relative to the other parts.
    var weight: Double
    var run: @Sendable (SoakSlice) async throws -> SoakReport

    static let all: [SoakPart] = simulators + [history, crowd, steps, folders, damage] + fuzz
}

/// The time and the seed of one part.
struct SoakSlice: Sendable {
    var seed: UInt64
    var deadline: ContinuousClock.Instant
    /// The folder for inputs that cause failures.
    var findings: String
    /// Whether to add inputs to the saved corpus.
    var keeps: Bool
    /// Reports progress.
    var showProgress: @Sendable (String) -> Void

    var isOver: Bool { ContinuousClock.now > deadline }
}

/// What a part did and what failed.
///
/// Each failure says how to repeat it.
struct SoakReport: Sendable {
    var summary: String
    var objections: [String] = []
}

extension SoakPart {
    /// Simulations, in a separate program that is built beside this one.
    private static let simulators = [
        SoakPart(name: "simulator", weight: 5) { try simulate($0) },
        SoakPart(name: "linked-mirrors", weight: 1) { try simulate($0, "--mirrors") },
    ]

    private static func simulate(_ slice: SoakSlice, _ words: String...) throws -> SoakReport {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("simulate")
        guard FileManager.default.isExecutableFile(atPath: program.path) else {
            return SoakReport(summary: "skipped: there is no program simulate beside this one")
        }
        var (first, summary) = (slice.seed, "no time")
        repeat {
            let seconds = max(1, Int((slice.deadline - .now) / .seconds(1)))
            let seeds = ["--seeds", "\(first)..<\(first + seedsOfAProcess)", "--seconds", "\(seconds)"]
            var (lines, isGood) = try run(program, words + seeds)
            // The last line is a summary. The lines before it describe a seed that failed.
            summary = lines.popLast() ?? "no output"
            guard isGood else { return SoakReport(summary: summary, objections: lines.isEmpty ? [summary] : lines) }
            first += seedsOfAProcess
        } while slice.deadline > .now
        return SoakReport(summary: "from seed \(slice.seed), last line: \(summary)")
    }

    /// A crashed process in a simulation never closes its files, up to fifty in a simulation of linked mirrors.
    ///
    /// After a few hundred seeds, the simulating process reaches its limit of open files.
    private static let seedsOfAProcess: UInt64 = 200

    /// Runs a program and returns its output lines and whether it succeeded.
    private static func run(_ program: URL, _ words: [String]) throws -> (lines: [String], isGood: Bool) {
        let process = Process()
        process.executableURL = program
        process.arguments = words
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let isGood = process.terminationReason == .exit && process.terminationStatus == 0
        return (text.split(separator: "\n").map(String.init), isGood)
    }

    /// Long histories of relays on faulty disks.
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
            if (seed - slice.seed) % 10 == 0 { slice.showProgress("\(seed - slice.seed) histories") }
        }
        let summary =
            "\(seed - slice.seed) histories: \(total.writes) writes, \(total.faults) faults, \(total.starts) starts, "
            + "\(total.cuts) power cuts; seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// Power cuts while many clients write.
    private static let crowd = SoakPart(name: "disk-crowd", weight: 1) { slice in
        var (seed, acknowledged, objections) = (slice.seed, 0, [String]())
        while !slice.isOver, objections.count < 5 {
            let report = try await ConcurrentWritesTrial(seed: seed).run()
            acknowledged += report.acknowledged
            objections += report.objections
            seed += 1
            if (seed - slice.seed) % 10 == 0 { slice.showProgress("\(seed - slice.seed) power cuts") }
        }
        let summary =
            "\(seed - slice.seed) power cuts among 24 writers, \(acknowledged) acknowledged writes; "
            + "seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// Every write of the script, with every fault at every disk operation.
    private static let steps = SoakPart(name: "disk-steps", weight: 2) { slice in
        let stage = try await Stage.shared()
        let effects: [FaultyDisk.Fault.Effect] = [.losesPower, .fails, .isFull, .isCutShort]
        var (runs, done, objections) = (0, 0, [String]())
        let all = effects.flatMap { effect in (0..<StepTrials.stepCount).map { StepTrials(step: $0, effect: effect) } }
        for trial in all where !slice.isOver && objections.count < 5 {
            let report = try await trial.run(on: stage) { _ in !slice.isOver }
            runs += report.runs
            done += 1
            objections += report.objections
            slice.showProgress("\(done) of \(all.count) writes, \(runs) faults")
        }
        return SoakReport(summary: "\(done) of \(all.count) writes with \(runs) faults", objections: objections)
    }

    /// Backups, restores and resets, with every fault at every disk operation.
    private static let folders = SoakPart(name: "disk-folders", weight: 1) { slice in
        let stage = try await FolderStage.shared()
        let effects: [FaultyDisk.Fault.Effect] = [.losesPower, .fails, .isFull, .isCutShort]
        var (runs, objections) = (0, [String]())
        func add(_ report: StepTrials.Report) {
            runs += report.runs
            objections += report.objections
            slice.showProgress("\(runs) faults")
        }
        for effect in effects where !slice.isOver && objections.count < 5 {
            for action in FolderTrials.Action.allCases {
                add(try await FolderTrials(action, effect).run(on: stage) { _ in !slice.isOver })
            }
        }
        return SoakReport(summary: "\(runs) faults in backups, restores and resets", objections: objections)
    }

    private static let damage = SoakPart(name: "disk-damage", weight: 0.5) { slice in
        let tables = try await DamageTrial.tables()
        var (seed, hits, objections) = (slice.seed, 0, [String]())
        while !slice.isOver, objections.count < 5 {
            let damage = DamageTrial.Damage.allCases[Int(seed % 4)]
            let table = seed % 3 == 0 ? nil : tables[Int(seed / 4) % tables.count]
            let report = try await DamageTrial(seed: seed, damage, of: table).run()
            if report.isHit { hits += 1 }
            if let objection = report.objection { objections.append(objection) }
            seed += 1
        }
        let summary =
            "\(seed - slice.seed) damaged pages of \(tables.count) tables and indexes, \(hits) read by a reader; "
            + "seeds \(slice.seed) to \(seed - 1)"
        return SoakReport(summary: summary, objections: objections)
    }

    /// One part for each fuzz target.
    private static let fuzz = FuzzTarget.all.map { target in
        SoakPart(name: "fuzz-\(target.name)", weight: 0.4) { slice in
            let corpus = FuzzRun.keptCorpus
            let run = FuzzRun(target, corpus: corpus, findings: slice.findings)
            let report = try await run.run(seed: slice.seed, count: .max, until: slice.deadline)
            if slice.keeps { try run.extendCorpus(by: report.newInputs) }
            return SoakReport(
                summary: "\(report.inputs) inputs with \(report.outcomes) outcomes; seed \(slice.seed)",
                objections: report.objections
            )
        }
    }
}
