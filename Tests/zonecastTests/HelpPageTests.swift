import Testing

@testable import zonecast

/// Help texts wrap to the width of the terminal: no line is too long, and none is broken too early.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct HelpPageTests {
    private static let commands = [
        [], ["demo"], ["serve"], ["doctor"], ["backup", "schedule"], ["storage", "compact"], ["user", "delete"],
    ]

    @Test(arguments: commands, [60, 80]) func everyLineFitsTheWidthAndFillsIt(_ command: [String], width: Int) throws {
        let help = try Command.run(command + ["--help"], environment: ["COLUMNS": "\(width)"])
        #expect(help.status == 0)
        let lines = help.output.split(separator: "\n", omittingEmptySubsequences: false)
        for line in lines { #expect(line.count <= width, "\(line)") }
        #expect(lines.contains { $0.hasPrefix("  --quiet                 Print only the requested output") })
        let overview = lines.prefix { !$0.hasPrefix("USAGE: ") }
        for (line, next) in zip(overview, overview.dropFirst()) where !line.isEmpty && !next.isEmpty {
            guard !next.hasPrefix(" "), let last = line.last, !".:".contains(last) else { continue }
            let word = next.prefix { $0 != " " }
            // ArgumentParser leaves the last column empty.
            #expect(line.count + 1 + word.count >= width, "\(line) / \(next)")
        }
    }

    /// An option and its value stay on one line.
    @Test func usageWrapsBetweenOptions() {
        let usage = "Error: no\nUsage: zonecast a [--one <one>] [--two <two>] <name>\n  See 'zonecast a --help'."
        #expect(
            HelpPage.laidOut(usage, width: 32) == """
                Error: no
                Usage: zonecast a [--one <one>]
                       [--two <two>] <name>
                  See 'zonecast a --help'.
                """
        )
    }
}
