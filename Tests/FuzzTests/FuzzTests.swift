import Foundation
import Fuzz
import Testing

/// Each reader on its kept corpus and on some hundred inputs that chance makes of it; `Deploy/soak` tries more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test(arguments: FuzzTarget.all.map(\.name)) func nothingThatStrangersSendDoesHarm(_ name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let findings = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-fuzz").path
        let run = FuzzRun(target, corpus: FuzzRun.keptCorpus, findings: findings)
        let report = try await run.run(seed: 1, count: 400)
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.manners > 1, "every input was taken alike: the target sees none of them")
    }
}
