import DiskTrials
import Testing

@Suite(.timeLimit(.minutes(3))) struct HistoryTrialTests {
    @Test(arguments: 1...12) func aLifeOnABadDisk(seed: UInt64) async {
        let report = await HistoryTrial(seed: seed, length: 60).run()
        #expect(report.objection == nil)
        #expect(report.writes > 20 && report.faults > 0)
    }
}
