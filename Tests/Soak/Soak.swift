import ArgumentParser
import Foundation

/// `soak`: runs the relay and its clients under faults for a chosen time, with a new seed each time, and reports
/// problems.
///
/// Each part runs in its own process, so a crash affects only that part and the report says what it was running. Not
/// shipped; `Deploy/soak` builds and runs it.
@main
struct Soak: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "Run the relay on faulty disks, with fuzzed inputs and in simulations, for a while."
    )

    @Option(help: "The total time.")
    var minutes: Double = 10

    @Option(help: "Only parts whose names begin with this; may be given more than once. (default: all)")
    var part: [String] = []

    @Option(help: "The seed of all random choices. (default: a new one each time)")
    var seed: UInt64?

    @Option(help: "The folder for inputs that cause failures.")
    var findings = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-soak").path

    @Flag(help: "Add inputs with a new outcome to the saved corpus.")
    var keep = false

    @Flag(help: "Only list the parts.")
    var list = false

    @Option(help: .hidden)
    var runPart: String?

    @Option(help: .hidden)
    var seconds: Double = 10

    func run() async throws {
        let seed = seed ?? UInt64.random(in: 1...999_999_999)
        if let runPart { return try await Self.runOne(runPart, slice(of: seed)) }
        let parts = SoakPart.all.filter { part.isEmpty || part.contains(where: $0.name.hasPrefix) }
        if list { return Output.write(SoakPart.all.map { $0.name + "\n" }.joined()) }
        guard !parts.isEmpty, minutes > 0 else {
            throw ValidationError("There is no such part, or no time. --list shows the parts.")
        }
        let watch = SoakRunner(parts, minutes: minutes, seed: seed, findings: findings, keeps: keep)
        guard try watch.run() else { throw ExitCode.failure }
    }

    private func slice(of seed: UInt64) -> SoakSlice {
        SoakSlice(
            seed: seed,
            deadline: .now + .milliseconds(Int(seconds * 1000)),
            findings: findings,
            keeps: keep,
            showProgress: { Output.write("say \($0)\n") }
        )
    }

    /// Runs a part in this process and prints the lines that `SoakRunner` reads.
    private static func runOne(_ name: String, _ slice: SoakSlice) async throws {
        guard let part = SoakPart.all.first(where: { $0.name == name }) else { throw ExitCode.failure }
        let report = try await part.run(slice)
        for objection in report.objections { Output.write("bad \(objection.replacing("\n", with: " / "))\n") }
        Output.write("done \(report.summary)\n")
    }
}

/// Unbuffered standard output: a process that crashes has already written its lines.
enum Output {
    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
}

/// Runs the parts one after the other, each in its own process, shows their progress and reports at the end.
final class SoakRunner {
    private let parts: [SoakPart]
    private let minutes: Double
    private let seed: UInt64
    private let findings: String
    private let keeps: Bool
    private let isTerminal = isatty(STDOUT_FILENO) == 1

    init(_ parts: [SoakPart], minutes: Double, seed: UInt64, findings: String, keeps: Bool) {
        self.parts = parts
        self.minutes = minutes
        self.seed = seed
        self.findings = findings
        self.keeps = keeps
    }

    private struct Outcome {
        var part: String
        var summary: String
        var objections: [String]
    }

    /// Returns false if a part failed.
    func run() throws -> Bool {
        let start = ContinuousClock.now
        let count = parts.count == 1 ? "one part" : "\(parts.count) parts"
        Output.write("Soaking for \(minutes.formatted()) minutes in \(count), seed \(seed)." + "\n")
        let whole = parts.reduce(0) { $0 + $1.weight }
        var outcomes: [Outcome] = []
        for part in parts {
            let outcome = try run(part, seconds: minutes * 60 * part.weight / whole)
            outcomes.append(outcome)
            show("\(outcome.objections.isEmpty ? "ok  " : "BAD ") \(part.name): \(outcome.summary)", lasting: true)
            outcome.objections.forEach { Output.write("      \($0)\n") }
        }
        let bad = outcomes.filter { !$0.objections.isEmpty }
        let took = (ContinuousClock.now - start).formatted(.time(pattern: .minuteSecond))
        if bad.isEmpty {
            Output.write("No problems in \(count); \(took) minutes." + "\n")
        } else {
            Output.write("Problems in \(bad.map(\.part).joined(separator: ", ")); \(took) minutes." + "\n")
            Output.write("To repeat it: Deploy/soak --part PART --seed \(seed). Inputs are in \(findings)." + "\n")
        }
        return bad.isEmpty
    }

    private func run(_ part: SoakPart, seconds: Double) throws -> Outcome {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments =
            ["--run-part", part.name, "--seconds", "\(seconds)", "--seed", "\(seed)", "--findings", findings]
            + (keeps ? ["--keep"] : [])
        let output = Pipe()
        process.standardOutput = output
        show("...  \(part.name), \(Int(seconds)) s", lasting: false)
        try process.run()
        var outcome = Outcome(part: part.name, summary: "", objections: [])
        let lines = LineReader(output.fileHandleForReading)
        while let line = lines.next() {
            if line.hasPrefix("say ") {
                show("...  \(part.name): \(line.dropFirst(4))", lasting: false)
            } else if line.hasPrefix("bad ") {
                outcome.objections.append(String(line.dropFirst(4)))
            } else if line.hasPrefix("done ") {
                outcome.summary = String(line.dropFirst(5))
            }
        }
        process.waitUntilExit()
        if process.terminationReason == .uncaughtSignal || outcome.summary.isEmpty {
            let how = process.terminationReason == .uncaughtSignal ? "by signal" : "with status"
            outcome.summary = "the process ended \(how) \(process.terminationStatus)"
            // A fuzz target has stored its current input in a file. The next run starts with it.
            outcome.objections.append("\(outcome.summary); run the part again: it starts with the same input")
        }
        return outcome
    }

    /// Writes a line.
    ///
    /// The next line replaces it unless `lasting` is true; without a terminal only lasting lines appear.
    private func show(_ line: String, lasting: Bool) {
        if isTerminal {
            Output.write("\r\u{1B}[2K\(line)\(lasting ? "\n" : "")")
        } else if lasting {
            Output.write(line + "\n")
        }
    }
}

/// Reads the output of another process line by line.
private final class LineReader {
    private let handle: FileHandle
    private var pending: [UInt8] = []

    init(_ handle: FileHandle) { self.handle = handle }

    func next() -> String? {
        while true {
            if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                defer { pending.removeFirst(end + 1) }
                return String(decoding: pending[..<end], as: UTF8.self)
            }
            let more = handle.availableData
            if more.isEmpty { return nil }
            pending += more
        }
    }
}
