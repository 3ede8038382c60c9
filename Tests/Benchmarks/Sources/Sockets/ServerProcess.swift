package import Foundation

/// A server in a child process that prints a line starting with `ready ` once it serves.
package final class ServerProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    /// The rest of the line after `ready `.
    package private(set) var readyLine = ""

    /// Starts the server and waits for its ready line.
    ///
    /// Its standard error goes to the file `errors`, which is reported if the server does not become ready.
    package init(_ executable: String, _ arguments: [String], errors: URL) throws {
        process.executableURL = URL(fileURLWithPath: executable)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        _ = FileManager.default.createFile(atPath: errors.path, contents: nil)
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        do {
            readyLine = try awaitReady()
        } catch {
            process.terminate()
            let errorOutput = (try? String(contentsOf: errors, encoding: .utf8)) ?? ""
            throw LoadError.missing("\(executable) did not become ready. Its output: \(errorOutput.suffix(2000))")
        }
    }

    package var identifier: Int32 { process.processIdentifier }

    /// Asks the server to end, and waits until it has.
    package func stop() {
        try? input.fileHandleForWriting.close()
        if process.isRunning { process.terminate() }
        process.waitUntilExit()
    }

    private func awaitReady() throws -> String {
        var text = ""
        while true {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw LoadError.missing("The server ended.") }
            text += String(decoding: data, as: UTF8.self)
            for line in text.split(separator: "\n") where line.hasPrefix("ready ") && text.hasSuffix("\n") {
                return String(line.dropFirst("ready ".count))
            }
        }
    }
}

/// Measurements of a running process.
package struct ProcessMeter {
    private let identifier: Int32

    package init(_ identifier: Int32) { self.identifier = identifier }

    /// The CPU time of all threads, user and system, in seconds, with a resolution of 10 ms.
    package var cpuSeconds: Double {
        // The second field, the command's name, may contain anything but ends at the last parenthesis.
        guard let text = read("stat"), let end = text.lastIndex(of: ")") else { return 0 }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Resident private memory in bytes, without mapped files and socket buffers.
    package var residentBytes: Int {
        for line in (read("status") ?? "").split(separator: "\n") where line.hasPrefix("RssAnon:") {
            let kibibytes = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first
            return (kibibytes.flatMap { Int($0) } ?? 0) * 1024
        }
        return 0
    }

    private func read(_ file: String) -> String? {
        try? String(contentsOfFile: "/proc/\(identifier)/\(file)", encoding: .utf8)
    }
}

/// Runs other programs to their end.
package enum Shell {
    /// Runs a program and returns its output; throws its error output if it fails.
    @discardableResult
    package static func run(_ program: String, _ arguments: [String], input: String = "") throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        // Some programs fail if they may not read the current folder.
        process.currentDirectoryURL = URL(fileURLWithPath: "/")
        // Use files instead of pipes: a server that the program leaves running would keep a pipe open.
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let names = ["input", "output", "errors"].map { folder.appendingPathComponent($0) }
        try Data(input.utf8).write(to: names[0])
        for name in names.dropFirst() { try Data().write(to: name) }
        process.standardInput = try FileHandle(forReadingFrom: names[0])
        process.standardOutput = try FileHandle(forWritingTo: names[1])
        process.standardError = try FileHandle(forWritingTo: names[2])
        try process.run()
        process.waitUntilExit()
        let (printed, said) = (try Data(contentsOf: names[1]), try Data(contentsOf: names[2]))
        guard process.terminationStatus == 0 else {
            let text = String(decoding: said + printed, as: UTF8.self)
            throw LoadError.missing("\(program) failed with \(process.terminationStatus): \(text.suffix(1000))")
        }
        return String(decoding: printed, as: UTF8.self)
    }
}
