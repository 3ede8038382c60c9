import ChildProcesses
import Foundation
import Testing

/// Runs the `simulate` command in a process of its own.
struct SimulateProgram {
    struct Result: Sendable {
        var isGood: Bool
        var output: String

        /// A member of the JSON line with the totals, as text.
        func total(_ name: String) -> String? {
            guard let line = output.split(separator: "\n").last(where: { $0.hasPrefix("{") }),
                let start = line.range(of: "\"\(name)\":")?.upperBound
            else { return nil }
            return String(line[start...].prefix { $0 != "," && $0 != "}" })
        }
    }

    /// The executable, which the build puts next to the test runner.
    private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().appendingPathComponent("simulate")

    /// Runs the command to its end without blocking the tests' shared threads.
    ///
    /// `home`, if given, is the folder for temporary files.
    static func run(_ words: String..., home: URL? = nil) async throws -> Result {
        let process = ChildProcess()
        process.executableURL = program
        process.arguments = words
        var environment = ProcessInfo.processInfo.environment
        environment["SWIFT_DETERMINISTIC_HASHING"] = "1"
        if let home { environment["TMPDIR"] = home.path }
        process.environment = environment
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = await withCheckedContinuation { done in
            Thread { done.resume(returning: pipe.fileHandleForReading.readDataToEndOfFile()) }.start()
        }
        process.waitUntilExit()
        return Result(isGood: process.terminationStatus == 0, output: String(decoding: output, as: UTF8.self))
    }
}
