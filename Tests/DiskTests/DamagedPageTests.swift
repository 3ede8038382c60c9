import DiskTrials
import Foundation
import Testing

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
