import Foundation
import Records

/// Tries changed inputs on one target: a few thousand in a test, as many as fit in a soak.
package struct FuzzRun: Sendable {
    package let target: FuzzTarget
    /// Where the kept corpus is, a folder for each target; `nil` for none.
    package var corpus: String?
    /// Where inputs are written that end the process or are objected to.
    package var findings: String

    package init(_ target: FuzzTarget, corpus: String?, findings: String) {
        self.target = target
        self.corpus = corpus
        self.findings = findings
    }

    package struct Report: Sendable {
        package var inputs = 0
        /// Different ways in which the target took its inputs.
        package var manners = 0
        package var objections: [String] = []
        /// Inputs with new manners, for those who tend the corpus.
        package var news: [[UInt8]] = []
    }

    /// The folder with the corpora, as the sources have it.
    package static var keptCorpus: String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Corpus").path
    }

    private static let slow = Duration.seconds(2)
    private static let largestPool = 4_000
    /// The corpus is read in every test run: few and short ones.
    private static let mostNews = 24
    private static let longestKept = 1_500

    /// Runs the corpus as it is, then changes it until the number or the time is reached.
    ///
    /// - Parameters:
    ///   - seed: of all chance.
    ///   - count: inputs, beside the corpus.
    ///   - deadline: ends it earlier; a run that is to be repeated has none.
    /// - Returns: what was tried and objected to.
    /// - Throws: where the folder for findings cannot be written, or the target not be prepared.
    package func run(seed: UInt64, count: Int, until deadline: ContinuousClock.Instant? = nil) async throws -> Report {
        try FileManager.default.createDirectory(atPath: findings, withIntermediateDirectories: true)
        let last = LastInput(path: "\(findings)/\(target.name).trying")
        let probe = try await target.prepare()
        var report = Report()
        if let unfinished = last?.unfinished {
            let path = try keep(unfinished, as: "ended-the-process")
            FileHandle.standardError.write(
                Data(
                    "fuzz \(target.name): an earlier run ended while it tried \(path). Trying that again first.\n".utf8
                )
            )
            try await attempt(unfinished, probe, last, &report, label: "the input that ended an earlier run")
        }
        var pool: [[UInt8]] = []
        var manners: Set<String> = []
        for input in target.seeds + kept() {
            manners.insert(try await attempt(input, probe, last, &report, label: "of the corpus"))
            pool.append(input)
        }
        var mutation = Mutation(seed: seed, words: target.words)
        for number in 0..<count {
            if let deadline, number % 64 == 0, ContinuousClock.now > deadline { break }
            // What came last has been looked into least.
            let index =
                mutation.below(2) == 0 ? mutation.below(pool.count) : max(0, pool.count - 1 - mutation.below(20))
            let input = mutation.change(pool[index], other: pool[mutation.below(pool.count)])
            let label = "seed \(seed), input \(number)"
            if manners.insert(try await attempt(input, probe, last, &report, label: label)).inserted {
                if pool.count < Self.largestPool { pool.append(input) }
                if report.news.count < Self.mostNews, input.count <= Self.longestKept { report.news.append(input) }
            }
            if report.objections.count >= 5 { break }
        }
        report.manners = manners.count
        return report
    }

    @discardableResult
    private func attempt(
        _ input: [UInt8],
        _ probe: FuzzTarget.Probe,
        _ last: LastInput?,
        _ report: inout Report,
        label: String
    ) async throws -> String {
        last?.begin(input)
        var (finding, time) = await Self.timed(probe, input)
        // What is slow is so every time, and by more than another input; a machine with other things to do is not.
        let other = target.seeds.first { $0 != input } ?? []
        for _ in 0..<9 where time > Self.slow {
            let usual = await Self.timed(probe, other).time
            time = min(time, await Self.timed(probe, input).time - usual)
        }
        last?.end()
        report.inputs += 1
        if finding.objection == nil, time > Self.slow { finding.objection = "it took \(time)" }
        if let objection = finding.objection {
            let path = try keep(input, as: "objection")
            report.objections.append("\(target.name), \(label): \(objection). Input: \(path)")
        }
        return finding.manner
    }

    private static func timed(_ probe: FuzzTarget.Probe, _ input: [UInt8]) async -> (finding: Finding, time: Duration) {
        let start = ContinuousClock.now
        let finding = await probe(input)
        return (finding, ContinuousClock.now - start)
    }

    private static func name(of input: [UInt8]) -> String { String(Fingerprint(of: input).sum, radix: 16) }

    /// Writes an input beside the others; gives its path.
    private func keep(_ input: [UInt8], as kind: String) throws -> String {
        let path = "\(findings)/\(target.name)-\(kind)-\(Self.name(of: input))"
        try Data(input).write(to: URL(fileURLWithPath: path))
        return path
    }

    private func kept() -> [[UInt8]] {
        guard let corpus else { return [] }
        let folder = "\(corpus)/\(target.name)"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.sorted().compactMap { FileManager.default.contents(atPath: "\(folder)/\($0)").map { [UInt8]($0) } }
    }

    /// Adds inputs to the kept corpus, named by their content.
    package func extendCorpus(by inputs: [[UInt8]]) throws {
        guard let corpus else { return }
        let folder = "\(corpus)/\(target.name)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for input in inputs {
            try Data(input).write(to: URL(fileURLWithPath: "\(folder)/\(Self.name(of: input))"))
        }
    }
}
