import ArgumentParser
import Foundation
import Synchronization
import Testing

@testable import zonecast

/// Every promised command exists, prints its usage, and reports wrong usage by its exit code.
///
/// See CONTRIBUTING.md, "Commands and error texts". Commands for several machines (`node`, `shard`, stores other than
/// folders) are for later versions.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct CommandTreeTests {
    private static let tree = [
        "serve", "init", "demo", "bench", "doctor", "config show", "config check", "config reference", "container list",
        "container create", "container delete", "container usage", "container quota", "schema export", "schema import",
        "schema validate", "schema diff",
        "schema promote", "schema reset", "schema codegen", "records query", "records get", "records create",
        "records update", "records delete", "records delete-many", "records changes", "records import",
        "records export", "zones list", "zones create", "zones delete", "zones changes", "shares list", "shares create",
        "shares invite", "shares accept", "shares participants", "shares permission", "shares stop", "watch",
        "user add",
        "user list", "user show", "user password", "user disable", "user delete", "user export", "user quota",
        "token api create", "token api list", "token api revoke", "token api rotate", "token server-key list",
        "token server-key revoke", "token server-key rotate",
        "token management create", "token management list", "token management rotate",
        "token management revoke", "token session sessions", "login", "logout", "push apns set",
        "push fcm set",
        "push webpush set",
        "push unifiedpush set", "push apns test", "push webpush show", "assets list", "assets verify", "assets gc",
        "backup create", "backup list", "backup verify", "backup restore", "backup schedule", "storage info",
        "storage copy", "storage compact", "alerts show", "logs", "version", "completions",
        "query-records", "create-record", "get-record", "update-record", "delete-record", "delete-records",
        "export-schema", "import-schema", "validate-schema", "reset-schema",
    ]

    @Test func everyPromisedCommandExists() {
        for command in Self.tree {
            let help = HelpText.of(command.split(separator: " ").map(String.init))
            #expect(help?.contains("USAGE: zonecast \(command)") == true, "\(command)")
        }
    }

    /// Under `token`, `create` works for every kind of token.
    @Test(arguments: [
        ("token server-key create", "token server-key add"), ("token session create", "token session sign-in"),
    ])
    func createMakesEveryKindOfToken(other: String, name: String) {
        let help = HelpText.of(other.split(separator: " ").map(String.init))
        #expect(help?.contains("USAGE: zonecast \(name)") == true)
        #expect(MistypedCommand.first(in: other.split(separator: " ").map(String.init)) == nil)
    }

    /// Every command with output has `--json`.
    @Test func everyCommandHasJSONOutput() {
        let without = ["serve", "completions", "logs", "logout"]
        for command in Self.tree where !without.contains(command) {
            let isTool = command.hasSuffix("-records") || command.hasSuffix("-record")
            let help = HelpText.of(command.split(separator: " ").map(String.init))
            #expect(isTool || help?.contains("--json") == true, "\(command)")
        }
    }

    /// `help` as the last word shows the help, unless it is an argument of the command.
    @Test func helpIsAcceptedAsTheLastWord() throws {
        let help = try Command.run(["push", "help"])
        #expect(help.status == 0 && help.output.contains("USAGE: zonecast push"), "\(help.errors)")
        #expect(try Command.run(["pusch", "help"]).status == 2)
        let name = try Command.run(["user", "show", "help", "--data", "/nowhere"])
        #expect(name.status != 0 && !name.output.contains("USAGE"))
    }

    /// The program prints help to standard output and reports wrong usage with exit code 2.
    @Test func wrongUsageExitsWith2() throws {
        for words in [["serve"], ["records", "query"], ["token", "api", "create"]] {
            let help = try Command.run(words + ["--help"])
            #expect(help.status == 0 && help.output.contains("USAGE: zonecast \(words.joined(separator: " "))"))
            let wrong = try Command.run(words + ["--no-such-option"])
            #expect(wrong.status == 2 && wrong.output.isEmpty, "\(words): \(wrong.status)")
        }
    }
}

/// The help texts of commands, without starting the program.
///
/// In a debug build a help text takes up to a second of CPU time, so each is made once for all tests.
enum HelpText {
    private static let known = Mutex<[[String]: String]>([:])

    /// Returns the help of a command, `nil` if the command does not exist.
    static func of(_ words: [String]) -> String? {
        if let text = known.withLock({ $0[words] }) { return text }
        let text = make(words)
        if let text { known.withLock { $0[words] = text } }
        return text
    }

    private static func make(_ words: [String]) -> String? {
        do {
            // `--help` parses to a command that throws the help text when it runs.
            var help = try Zonecast.parseAsRoot(words + ["--help"])
            try help.run()
            return nil
        } catch {
            return Zonecast.exitCode(for: error) == .success ? Zonecast.fullMessage(for: error) : nil
        }
    }
}

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
