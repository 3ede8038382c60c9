import DiskTrials
import Foundation
import Testing

/// Pages that the disk gives back otherwise than they were written: told, and no wrong data served.
///
/// Reliability reference 5.
@Suite(.timeLimit(.minutes(2))) struct DamagedPageTests {
    @Test(arguments: [DamageTrial.Damage.lost, .zeroed])
    func aPageThatIsNoneIsToldAndNothingWrongIsServed(_ damage: DamageTrial.Damage) async throws {
        var met = 0
        for seed in 1...UInt64(10) {
            let report = try await DamageTrial(seed: seed, damage).run()
            #expect(report.objection == nil)
            met += report.isMet ? 1 : 0
        }
        #expect(met > 0, "no reader ever met the damaged page")
    }
}
