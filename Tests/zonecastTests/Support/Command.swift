import ChildProcesses
import Foundation
import Testing

/// One run of the built `zonecast`, as a script would do it.
struct Command {
    var status: Int32
    var output: String
    var complaint: String

    /// The program the build put beside the test runner.
    static let program = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().appendingPathComponent("zonecast")

    /// Runs it to its end, with `input` on standard input and no `ZONECAST_` variables but `environment` and the one that makes
    /// passwords cheap.
    static func run(_ arguments: [String], input: String = "", environment: [String: String] = [:]) throws -> Command {
        let process = ChildProcess()
        process.executableURL = program
        process.arguments = arguments
        process.environment = cleanEnvironment(adding: environment)
        let streams = (input: Pipe(), output: Pipe(), complaint: Pipe())
        process.standardInput = streams.input
        process.standardOutput = streams.output
        process.standardError = streams.complaint
        // Held open here too: a program may end before it has read what it is given, and writing to nobody would end us.
        let reader = dup(streams.input.fileHandleForReading.fileDescriptor)
        defer { close(reader) }
        try process.run()
        streams.input.fileHandleForWriting.write(Data(input.utf8))
        try streams.input.fileHandleForWriting.close()
        // What a command prints fits the pipes' buffers, so they may be read one after the other.
        let output = streams.output.fileHandleForReading.readDataToEndOfFile()
        let complaint = streams.complaint.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Command(
            status: process.terminationStatus,
            output: String(decoding: output, as: UTF8.self),
            complaint: String(decoding: complaint, as: UTF8.self)
        )
    }

    static func cleanEnvironment(adding own: [String: String] = [:]) -> [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ZONECAST_") }
            .merging(["ZONECAST_QUICK_PASSWORDS": "1"]) { $1 }.merging(own) { $1 }
    }

    /// The answer's one line of JSON.
    func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: Data(output.utf8))
    }
}
