import ChildProcesses
import Foundation
import Testing

/// One run of the built `zonecast` program.
struct Command {
    var status: Int32
    var output: String
    var errors: String

    /// The program that the build puts beside the test runner.
    static let program = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().appendingPathComponent("zonecast")

    /// Runs the program to its end.
    ///
    /// Its only `ZONECAST_` variables are those in `environment` and the one that makes
    /// password hashes fast.
    static func run(_ arguments: [String], input: String = "", environment: [String: String] = [:]) throws -> Command {
        let process = ChildProcess()
        process.executableURL = program
        process.arguments = arguments
        process.environment = cleanEnvironment(adding: environment)
        let streams = (input: Pipe(), output: Pipe(), errors: Pipe())
        process.standardInput = streams.input
        process.standardOutput = streams.output
        process.standardError = streams.errors
        // Keep a read end open: the program may end before it has read its input, and SIGPIPE would then end the tests.
        let reader = dup(streams.input.fileHandleForReading.fileDescriptor)
        defer { close(reader) }
        try process.run()
        streams.input.fileHandleForWriting.write(Data(input.utf8))
        try streams.input.fileHandleForWriting.close()
        // The output fits the pipes' buffers, so the pipes can be read one after the other.
        let output = streams.output.fileHandleForReading.readDataToEndOfFile()
        let errors = streams.errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Command(
            status: process.terminationStatus,
            output: String(decoding: output, as: UTF8.self),
            errors: String(decoding: errors, as: UTF8.self)
        )
    }

    static func cleanEnvironment(adding own: [String: String] = [:]) -> [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ZONECAST_") }
            .merging(["ZONECAST_QUICK_PASSWORDS": "1"]) { $1 }.merging(own) { $1 }
    }

    /// Decodes the output, which must be one JSON value.
    func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONDecoder().decode(type, from: Data(output.utf8))
    }
}

/// Runs tests that wait for processes on threads of their own.
///
/// On the shared pool, which has one thread per processor,
/// they would block all other tests.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadPerJob()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    /// Runs the suite or test on its own threads, which it may block.
    static var ownThread: Self { OwnThread() }
}

private final class ThreadPerJob: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
