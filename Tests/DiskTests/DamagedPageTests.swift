import DiskTrials
import Foundation
import Testing

/// Pages that the disk gives back otherwise than they were written: told, and no wrong data served.
///
/// See Reliability.md, "Faults".
@Suite(.timeLimit(.minutes(15))) struct DamagedPageTests {
    @Test(arguments: DamageTrial.Damage.allCases)
    func nothingWrongIsServedAndAllOfItIsTold(_ damage: DamageTrial.Damage) async throws {
        var met = 0
        for seed in 1...UInt64(8) {
            let report = try await DamageTrial(seed: seed, damage).run()
            #expect(report.objection == nil)
            met += report.isMet ? 1 : 0
        }
        #expect(met > 0, "no reader ever met the damaged page")
    }

    @Test func soItIsInEveryTableAndIndex() async throws {
        let tables = try await DamageTrial.tables()
        #expect(tables.count > 40)
        for (number, table) in tables.enumerated() {
            let damage = DamageTrial.Damage.allCases[number % DamageTrial.Damage.allCases.count]
            let report = try await DamageTrial(seed: UInt64(number), damage, of: table).run()
            #expect(report.objection == nil)
        }
    }
}
