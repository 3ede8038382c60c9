import Foundation

/// Runs the parts one after the other, each in its own process, shows their progress and reports at the end.
final class SoakWatch {
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
