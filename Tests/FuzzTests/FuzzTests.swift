import Foundation
import Fuzz
import Testing

/// Runs each target on its saved corpus and on a few hundred mutated inputs.
///
/// `Deploy/soak` runs more.
@Suite(.timeLimit(.minutes(15))) struct FuzzTests {
    @Test(arguments: FuzzTarget.all.map(\.name)) func untrustedInputsViolateNoInvariant(_ name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let findings = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-fuzz").path
        let run = FuzzRun(target, corpus: FuzzRun.keptCorpus, findings: findings)
        let report = try await run.run(seed: 1, count: 400)
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.outcomes > 1, "every input gave the same result: the target ignores its input")
    }

    /// A target that rejects capital letters, with its own findings folder.
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

    @Test func anInputThatCrashedTheProcessRunsFirst() async throws {
        let run = run()
        defer { try? FileManager.default.removeItem(atPath: run.findings) }
        try FileManager.default.createDirectory(atPath: run.findings, withIntermediateDirectories: true)
        do {
            // As a process leaves the file when it crashes while running an input.
            let last = try #require(LastInput(path: run.findings + "/capitals.trying"))
            last.begin(Array("THE ONE".utf8))
        }
        let report = try await run.run(seed: 1, count: 0)
        #expect(report.objections.count == 1)
        #expect(report.objections.first?.contains("the input that ended an earlier run") == true)
        let kept = try FileManager.default.contentsOfDirectory(atPath: run.findings)
        let path = try #require(kept.first { $0.hasPrefix("capitals-ended-the-process-") })
        #expect(FileManager.default.contents(atPath: run.findings + "/" + path) == Data("THE ONE".utf8))
        #expect(try await run.run(seed: 1, count: 0).objections.isEmpty, "the input runs only once")
    }

    @Test func theSameSeedRunsTheSameInputs() async throws {
        let run = run()
        defer { try? FileManager.default.removeItem(atPath: run.findings) }
        let (one, two) = (try await run.run(seed: 9, count: 2_000), try await run.run(seed: 9, count: 2_000))
        #expect(one.inputs == two.inputs && one.objections == two.objections && one.newInputs == two.newInputs)
        #expect(!one.objections.isEmpty, "2,000 mutations of the seed contain no capital")
    }
}
