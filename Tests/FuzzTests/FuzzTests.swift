import Foundation
import Testing

@testable import Fuzz

/// Each reader on its kept corpus and on some hundred inputs that chance makes of it; `Deploy/soak` tries more.
@Suite(.timeLimit(.minutes(15))) struct FuzzTests {
    @Test(arguments: FuzzTarget.all.map(\.name)) func nothingThatStrangersSendDoesHarm(_ name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let findings = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-fuzz").path
        let run = FuzzRun(target, corpus: FuzzRun.keptCorpus, findings: findings)
        let report = try await run.run(seed: 1, count: 400)
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.manners > 1, "every input was taken alike: the target sees none of them")
    }

    /// A target that objects to capitals, in a folder of its own.
    private func run() -> FuzzRun {
        let target = FuzzTarget("capitals", seeds: ["abc"], words: ["abc"]) {
            { input in
                let isBad = input.contains { (0x41...0x5A).contains($0) }
                return Finding("\(input.count % 7)", objection: isBad ? "a capital" : nil)
            }
        }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-fuzz-\(UUID().uuidString)")
        return FuzzRun(target, corpus: nil, findings: folder.path)
    }

    @Test func anInputThatEndedTheProcessIsTriedFirst() async throws {
        let run = run()
        defer { try? FileManager.default.removeItem(atPath: run.findings) }
        try FileManager.default.createDirectory(atPath: run.findings, withIntermediateDirectories: true)
        do {
            // As a process leaves it that ends in the middle.
            let last = try #require(LastInput(path: run.findings + "/capitals.trying"))
            last.begin(Array("THE ONE".utf8))
        }
        let report = try await run.run(seed: 1, count: 0)
        #expect(report.objections.count == 1)
        #expect(report.objections.first?.contains("the input that ended an earlier run") == true)
        let kept = try FileManager.default.contentsOfDirectory(atPath: run.findings)
        let path = try #require(kept.first { $0.hasPrefix("capitals-ended-the-process-") })
        #expect(FileManager.default.contents(atPath: run.findings + "/" + path) == Data("THE ONE".utf8))
        #expect(try await run.run(seed: 1, count: 0).objections.isEmpty, "it is tried once")
    }

    @Test func theSameSeedTriesTheSame() async throws {
        let run = run()
        defer { try? FileManager.default.removeItem(atPath: run.findings) }
        let (one, two) = (try await run.run(seed: 9, count: 2_000), try await run.run(seed: 9, count: 2_000))
        #expect(one.inputs == two.inputs && one.objections == two.objections && one.news == two.news)
        #expect(!one.objections.isEmpty, "chance makes no capital of the seed in 2,000 changes")
    }
}
