import DiskTrials
import Testing

@Suite(.timeLimit(.minutes(15))) struct HistoryTrialTests {
    @Test(arguments: 1...12) func aRelaySurvivesAHistoryOfDiskFaults(seed: UInt64) async {
        let report = await HistoryTrial(seed: seed, length: 60).run()
        #expect(report.objection == nil)
        #expect(report.writes > 0 && report.faults > 0)
    }

    @Test(arguments: 1...4) func acknowledgedWritesSurviveAPowerCutAmongManyWriters(seed: UInt64) async throws {
        let report = try await CrowdTrial(seed: seed).run()
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.acknowledged > 0)
    }
}
