import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayServer
import RelaySystem

/// `zonecast log`: shows a relay's log and the audit log.
struct LogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show a relay's log and the audit log.",
        subcommands: [Show.self, Audit.self]
    )

    struct Audit: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the audit log, newest first.")

        @Option(name: .count, help: ArgumentHelp("How many entries.", valueName: "count"))
        var limit = 50

        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var at: String
            var actor: String
            var action: String
            var container: String?
            var environment: String?
            var subject: String
        }

        func validate() throws {
            guard (1...100_000).contains(limit) else { throw ValidationError("--limit is a number from 1 to 100000.") }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.auditEntries(limit: limit) }.map {
                Row(
                    at: $0.at.iso8601,
                    actor: $0.actor,
                    action: $0.action,
                    container: $0.home?.container.name,
                    environment: $0.home?.environment.rawValue,
                    subject: $0.subject
                )
            }
            try options.list(
                rows,
                as: "entries",
                heading: ["TIME", "ACTOR", "ACTION", "CONTAINER", "SUBJECT"],
                empty: "The audit log is empty."
            ) { [$0.at, $0.actor, $0.action, $0.container ?? "-", $0.subject] }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a relay's log: the service's, a file, or standard input.",
            discussion: """
                The log contains refused requests (with log.access: true, all requests) with their IDs and without private data: users \
                and devices have pseudonyms, which only the data folder's key resolves. Without --file and standard input, the log is the \
                service's, read with journalctl.
                """
        )

        @Option(help: ArgumentHelp("Read this file.", valueName: "path"))
        var file: String?
        @Flag(name: .shortAndLong, help: "Wait for new lines.")
        var follow = false
        @Flag(help: "Only refused requests, warnings and errors.")
        var errors = false
        @Option(help: ArgumentHelp("Only requests of this operation, such as records/modify.", valueName: "name"))
        var operation: String?
        @Option(help: ArgumentHelp("Only this request: the uuid of a response.", valueName: "id"))
        var request: String?
        @Option(
            help: ArgumentHelp(
                "Only requests of this user: an e-mail address or dev-NAME, looked up in --data, or a pseudonym of the log.",
                valueName: "user"
            )
        )
        var user: String?
        @Option(
            name: .customLong("data"),
            help: ArgumentHelp(
                "With --user: the data folder. (default: $ZONECAST_DATA, the configuration's, or ./zonecast-data)",
                valueName: "dir"
            ),
            completion: .directory
        )
        var data: String?
        @Option(
            name: .count,
            help: ArgumentHelp(
                "How many lines of the log to search, from its end. (default: 200 of the service's log, all of others)",
                valueName: "count"
            )
        )
        var lines: Int?

        func validate() throws {
            guard (1...1_000_000).contains(lines ?? 1) else {
                throw ValidationError("--lines is a number from 1 to 1000000.")
            }
        }

        func run() throws {
            let filter = LogFilter(errors: errors, operation: operation, request: request, users: try pseudonyms())
            if let file { return try show(try tail(file), filter) }
            if Self.hasInput, !follow { return showInput(filter) }
            var arguments = ["journalctl", "--unit", "zonecast", "--output", "cat", "--lines", "\(lines ?? 200)"]
            if follow { arguments.append("--follow") }
            try show(arguments, filter)
        }

        /// Whether standard input is a pipe, a file or a socket; timers and services have /dev/null or nothing.
        private static var hasInput: Bool {
            FileStatus(descriptor: STDIN_FILENO).map { [S_IFIFO, S_IFREG, S_IFSOCK].contains($0.kind) } ?? false
        }

        /// Returns the user's pseudonyms in all containers; `nil` if all users are selected.
        private func pseudonyms() throws -> Set<String>? {
            guard let user else { return nil }
            if user.count == 10, user.allSatisfy({ $0.isHexDigit }) { return [user.lowercased()] }
            let names = try FolderOptions(data: data).withDirectory { store in
                let account = try UserCommand.account(user, in: store)
                let names = Pseudonyms(relayKey: try store.relayKey())
                return try store.profiles(of: account.id).map { names.of($0.profile.user) }
            }
            guard !names.isEmpty else {
                throw CommandFailure(
                    .failed,
                    "\(user) has not used any container yet, so no log contains them. See: zonecast user show \(user)"
                )
            }
            return Set(names)
        }

        private func showInput(_ filter: LogFilter) {
            guard let lines else {
                while let line = readLine() {
                    if filter.admits(line) { Terminal.say(line) }
                }
                return
            }
            // The last lines are known only at the end, so keep no more than `lines`.
            var (last, count) = ([String](), 0)
            while let line = readLine() {
                if last.count < lines { last.append(line) } else { last[count % lines] = line }
                count += 1
            }
            let first = count > lines ? count % lines : 0
            for line in last[first...] + last[..<first] where filter.admits(line) { Terminal.say(line) }
        }

        private func tail(_ file: String) throws -> [String] {
            guard FileManager.default.isReadableFile(atPath: file) else {
                throw CommandFailure(
                    .failed,
                    "\(file) cannot be read. Name the relay's log with --file, or run this as a user who may read it."
                )
            }
            let start = lines.map { "\($0)" } ?? "+1"
            return ["tail", "-n", start] + (follow ? ["-F"] : []) + ["--", file]
        }

        /// Runs a system program and shows the matching lines of its output.
        private func show(_ arguments: [String], _ filter: LogFilter) throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = arguments
            let output = Pipe()
            process.standardOutput = output
            process.standardInput = FileHandle.nullDevice
            try process.run()
            // Being stopped is success; the handler also ends the program if no one reads the output.
            let ending = TerminationSignals(status: 0) { process.terminate() }
            defer { ending.end() }
            var (rest, read, shown) = (Data(), 0, 0)
            func take(_ bytes: Data) {
                let line = String(decoding: bytes, as: UTF8.self)
                read += 1
                guard filter.admits(line) else { return }
                shown += 1
                Terminal.say(line)
            }
            while case let more = output.fileHandleForReading.availableData, !more.isEmpty {
                rest.append(more)
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    take(rest[rest.startIndex..<end])
                    rest.removeSubrange(rest.startIndex...end)
                }
            }
            // A truncated log may end within a line.
            if !rest.isEmpty { take(rest) }
            process.waitUntilExit()
            guard process.terminationStatus == 0 else {
                throw CommandFailure(
                    .failed,
                    "\(arguments[0]) failed. Name the log with --file, or pipe it in: podman logs zonecast 2>&1 | zonecast log show --errors"
                )
            }
            guard shown == 0, !Terminal.isQuiet else { return }
            Terminal.sayError(
                read > 0
                    ? "None of the log's \(read.of("line")) matches."
                    : "The log is empty. Check that the relay is running: systemctl status zonecast; for another log: zonecast log show --file PATH"
            )
        }
    }
}

/// Selects lines of a log, in text or JSON format.
struct LogFilter: Hashable, Sendable {
    var errors = false
    var operation: String?
    var request: String?
    /// The users' pseudonyms.
    var users: Set<String>?

    func admits(_ line: String) -> Bool {
        (!errors || isError(line))
            && operation.map { Self.value("path", in: line)?.hasSuffix("/\($0)") == true } ?? true
            && request.map { Self.value("request", in: line) == $0 } ?? true
            && users.map { Self.value("user", in: line).map($0.contains) ?? false } ?? true
    }

    private func isError(_ line: String) -> Bool {
        let level = Self.value("level", in: line) ?? line.split(separator: " ").dropFirst().first.map(String.init) ?? ""
        if ["warning", "error", "critical"].contains(level) { return true }
        return Self.value("status", in: line).flatMap { Int($0) }.map { $0 >= 400 } ?? false
    }

    /// Returns the value of `key=value` or `"key":"value"`.
    static func value(_ key: String, in line: String) -> String? {
        if line.hasPrefix("{") {
            let object = try? JSONDecoder().decode([String: Scalar].self, from: Data(line.utf8))
            return object?[key]?.text
        }
        for word in line.split(separator: " ") where word.hasPrefix("\(key)=") {
            return String(word.dropFirst(key.count + 1)).trimmingCharacters(in: ["\""])
        }
        return nil
    }

    private struct Scalar: Decodable {
        var text: String?

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                self.text = text
            } else if let number = try? container.decode(Double.self) {
                text = Int(exactly: number).map { "\($0)" } ?? "\(number)"
            }
        }
    }
}
