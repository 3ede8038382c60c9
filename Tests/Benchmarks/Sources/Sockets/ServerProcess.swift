package import Foundation

/// A server run as a child, which prints a line that starts with `ready ` once it serves.
package final class ServerProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    /// What followed `ready ` in its line.
    package private(set) var readyLine = ""

    /// Starts it and waits for its line.
    ///
    /// Its standard error goes to the file `errors`, and is shown if it does not get ready.
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
            let said = (try? String(contentsOf: errors, encoding: .utf8)) ?? ""
            throw LoadError.missing("\(executable) did not get ready. It said: \(said.suffix(2000))")
        }
    }

    package var identifier: Int32 { process.processIdentifier }

    /// Asks it to end, and waits until it has.
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

/// What the system says about a running process.
package struct ProcessMeter {
    private let identifier: Int32

    package init(_ identifier: Int32) { self.identifier = identifier }

    /// CPU time used so far by all of its threads, user and system, in seconds; resolution 10 ms.
    package var cpuSeconds: Double {
        // The command's name, second field, may hold anything but ends at the last parenthesis.
        guard let text = read("stat"), let end = text.lastIndex(of: ")") else { return 0 }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Resident memory in bytes that belongs to the process alone: no mapped files, no socket buffers.
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
