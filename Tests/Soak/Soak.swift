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
        let watch = SoakWatch(parts, minutes: minutes, seed: seed, findings: findings, keeps: keep)
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

    /// Runs a part in this process and prints the lines that `SoakWatch` reads.
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
