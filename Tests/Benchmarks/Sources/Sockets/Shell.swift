import Foundation

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
