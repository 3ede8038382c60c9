import DiskTrials
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
