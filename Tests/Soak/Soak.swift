import ArgumentParser
import Foundation

/// `soak`: tries the relay and its clients for as long as one likes, with another seed each time, and says what it found.
///
/// Each part runs in a process of its own: one that traps takes nothing else with it, and what it was at is told. Not
/// shipped; `Deploy/soak` builds and runs it.
@main
struct Soak: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "Try the relay on bad disks, with strange inputs and in simulated worlds, for a while."
    )

    @Option(help: "How long in all.")
    var minutes: Double = 10

    @Option(help: "Only parts whose names begin with this; may be given more than once. (default: all)")
    var part: [String] = []

    @Option(help: "Where all chance begins. (default: another each time)")
    var seed: UInt64?

    @Option(help: "Where inputs that do harm are written.")
    var findings = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-soak").path

    @Flag(help: "Add inputs that were taken in a new manner to the kept corpus.")
    var keep = false

    @Flag(help: "Only say what parts there are.")
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
            throw ValidationError("There is no such part, or no time. --list shows what there is.")
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
            say: { Output.write("say \($0)\n") }
        )
    }

    /// Runs a part in this process, and prints what the watch reads.
    private static func runOne(_ name: String, _ slice: SoakSlice) async throws {
        guard let part = SoakPart.all.first(where: { $0.name == name }) else { throw ExitCode.failure }
        let report = try await part.run(slice)
        for objection in report.objections { Output.write("bad \(objection.replacing("\n", with: " / "))\n") }
        Output.write("done \(report.summary)\n")
    }
}

/// Standard output without a buffer: a process that traps has said what it had to say.
enum Output {
    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
}
