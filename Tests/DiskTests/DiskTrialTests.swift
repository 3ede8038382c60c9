import DiskTrials
import Foundation
import Testing

@Suite(.timeLimit(.minutes(15))) struct StepTrialTests {
    @Test(arguments: 0..<StepTrials.stepCount) func everyWriteSurvivesADiskFault(step: Int) async throws {
        let stage = try await Stage.shared()
        let effects: [FaultyDisk.Fault.Effect] = [.fails, .isFull, .isCutShort, .losesPower]
        for (index, effect) in effects.enumerated() {
            let report = try await StepTrials(step: step, effect: effect).run(on: stage) { ($0 + step) % 8 == index }
            #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        }
    }

    /// This step creates a store.
    ///
    /// SQLite writes the first page of a new store last.
    @Test func aStoreCreatedOnAFullDiskIsCompleteOrAbsent() async throws {
        let step = try #require(
            (0..<StepTrials.stepCount).first {
                StepTrials(step: $0, effect: .isCutShort).name.hasPrefix("promote schema first")
            }
        )
        let stage = try await Stage.shared()
        let end = stage.operations(of: step)
        let report = try await StepTrials(step: step, effect: .isCutShort).run(on: stage) { $0 > end - 20 }
        #expect(report.runs > 5)
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
    }
}

@Suite(.timeLimit(.minutes(15))) struct HistoryTrialTests {
    @Test(arguments: 1...12) func aRelaySurvivesAHistoryOfDiskFaults(seed: UInt64) async {
        let report = await HistoryTrial(seed: seed, length: 60).run()
        #expect(report.objection == nil)
        #expect(report.writes > 0 && report.faults > 0)
    }

    @Test(arguments: 1...4) func acknowledgedWritesSurviveAPowerCutAmongManyWriters(seed: UInt64) async throws {
        let report = try await ConcurrentWritesTrial(seed: seed).run()
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.acknowledged > 0)
    }
}

/// Backups, restores and resets on disks that fail and lose power.
@Suite(.timeLimit(.minutes(15))) struct FolderTrialTests {
    static let effects: [FaultyDisk.Fault.Effect] = [.fails, .isFull, .isCutShort, .losesPower]

    @Test(arguments: FolderTrials.Action.allCases)
    func anInterruptedActionLeavesTheOldOrTheNewFolder(_ action: FolderTrials.Action) async throws {
        let stage = try await FolderStage.shared()
        for (index, effect) in Self.effects.enumerated() {
            // Each operation gets one of the effects; compactions and copies sample their operations. A soak covers all
            // of them.
            let every = action == .compact ? 96 : action == .copy ? 16 : 4
            let report = try await FolderTrials(action, effect).run(on: stage) { $0 % every == index * every / 4 }
            #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
            #expect(report.runs > 1)
        }
    }
}

/// Pages that read back differently from how they were written: the relay reports the damage and serves no wrong data.
///
/// See Reliability.md, "Faults".
@Suite(.timeLimit(.minutes(15))) struct DamagedPageTests {
    @Test(arguments: DamageTrial.Damage.allCases)
    func aDamagedPageIsReportedAndServesNoWrongData(_ damage: DamageTrial.Damage) async throws {
        var hits = 0
        for seed in 1...UInt64(8) {
            let report = try await DamageTrial(seed: seed, damage).run()
            #expect(report.objection == nil)
            hits += report.isHit ? 1 : 0
        }
        #expect(hits > 0, "no read hit the damaged page")
    }

    @Test func damageInAnyTableOrIndexIsReported() async throws {
        let tables = try await DamageTrial.tables()
        #expect(tables.count > 40)
        for (number, table) in tables.enumerated() {
            let damage = DamageTrial.Damage.allCases[number % DamageTrial.Damage.allCases.count]
            let report = try await DamageTrial(seed: UInt64(number), damage, of: table).run()
            #expect(report.objection == nil)
        }
    }
}
