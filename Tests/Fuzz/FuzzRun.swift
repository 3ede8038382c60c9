import Foundation
import Records
import RelaySystem

/// Runs mutated inputs against one target: a few thousand in a test, as many as the time allows in a soak.
package struct FuzzRun: Sendable {
    package let target: FuzzTarget
    /// The folder of the saved corpus, with one subfolder for each target; `nil` for none.
    package var corpus: String?
    /// The folder for inputs that crash the process or violate an invariant.
    package var findings: String

    package init(_ target: FuzzTarget, corpus: String?, findings: String) {
        self.target = target
        self.corpus = corpus
        self.findings = findings
    }

    package struct Report: Sendable {
        package var inputs = 0
        /// The number of distinct outcomes.
        package var outcomes = 0
        package var objections: [String] = []
        /// Inputs that had a new outcome, as candidates for the corpus.
        package var newInputs: [[UInt8]] = []
    }

    /// The folder of the corpus in the source tree.
    package static var keptCorpus: String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Corpus").path
    }

    private static let slow = Duration.seconds(2)
    private static let largestPool = 4_000
    /// Every test run reads the corpus, so it stays small.
    private static let newInputLimit = 24
    private static let longestKept = 1_500

    /// Runs the corpus unchanged, then mutates it until `count` or the deadline is reached.
    ///
    /// - Parameters:
    ///   - seed: The seed of all random choices.
    ///   - count: The number of mutated inputs.
    ///   - deadline: Ends the run early. Pass `nil` for a reproducible run.
    /// - Returns: The number of inputs and the failures found.
    /// - Throws: If the findings folder is not writable or the target cannot be prepared.
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
        var outcomes: Set<String> = []
        for input in target.seeds + kept() {
            outcomes.insert(try await attempt(input, probe, last, &report, label: "of the corpus"))
            pool.append(input)
        }
        var mutation = Mutation(seed: seed, words: target.words)
        for number in 0..<count {
            if let deadline, number % 64 == 0, ContinuousClock.now > deadline { break }
            // Half of the time, picks one of the latest inputs: these have been mutated least.
            let index =
                mutation.below(2) == 0 ? mutation.below(pool.count) : max(0, pool.count - 1 - mutation.below(20))
            let input = mutation.change(pool[index], other: pool[mutation.below(pool.count)])
            let label = "seed \(seed), input \(number)"
            if outcomes.insert(try await attempt(input, probe, last, &report, label: label)).inserted {
                if pool.count < Self.largestPool { pool.append(input) }
                if report.newInputs.count < Self.newInputLimit, input.count <= Self.longestKept {
                    report.newInputs.append(input)
                }
            }
            if report.objections.count >= 5 { break }
        }
        report.outcomes = outcomes.count
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
        // A slow input is slow every time and slower than another input. A busy machine slows down both.
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
        return finding.outcome
    }

    private static func timed(_ probe: FuzzTarget.Probe, _ input: [UInt8]) async -> (finding: Finding, time: Duration) {
        let start = ContinuousClock.now
        let finding = await probe(input)
        return (finding, ContinuousClock.now - start)
    }

    private static func name(of input: [UInt8]) -> String { String(Fingerprint(of: input).sum, radix: 16) }

    /// Writes an input into the findings folder and returns its path.
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

    /// Adds inputs to the saved corpus.
    ///
    /// File names are hashes of the content.
    package func extendCorpus(by inputs: [[UInt8]]) throws {
        guard let corpus else { return }
        let folder = "\(corpus)/\(target.name)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for input in inputs {
            try Data(input).write(to: URL(fileURLWithPath: "\(folder)/\(Self.name(of: input))"))
        }
    }
}

/// Stores the current input in a file, so that it is still available if it crashes the process.
///
/// The file is memory-mapped: a write costs one copy of the input, and the system keeps the content after a crash.
/// Layout: length of the input (8 bytes, -1 if there is none), then the input.
package final class LastInput: @unchecked Sendable {
    // Unchecked: only one run uses it at a time.
    private static let size = 64 * 1024
    private let memory: UnsafeMutableRawPointer
    /// Holds the lock.
    private let descriptor: Int32

    /// Returns `nil` if the file cannot be created or if another process uses it.
    package init?(path: String) {
        let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, let status = FileStatus(descriptor: descriptor) else {
            close(descriptor)
            return nil
        }
        let isNew = status.size == 0
        guard ftruncate(descriptor, off_t(Self.size)) == 0,
            let memory = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), memory != MAP_FAILED
        else {
            close(descriptor)
            return nil
        }
        self.memory = memory
        self.descriptor = descriptor
        if isNew { end() }
    }

    deinit {
        munmap(memory, Self.size)
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// The input that was running when the previous process ended.
    var unfinished: [UInt8]? {
        let count = memory.load(as: Int64.self)
        guard count >= 0, count <= Self.size - 8 else { return nil }
        return Array(UnsafeRawBufferPointer(start: memory + 8, count: Int(count)))
    }

    package func begin(_ input: [UInt8]) {
        let count = min(input.count, Self.size - 8)
        input.withUnsafeBytes { bytes in
            if let start = bytes.baseAddress { (memory + 8).copyMemory(from: start, byteCount: count) }
        }
        memory.storeBytes(of: Int64(count), as: Int64.self)
    }

    func end() { memory.storeBytes(of: -1, as: Int64.self) }
}
