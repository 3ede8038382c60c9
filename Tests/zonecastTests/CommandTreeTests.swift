import ArgumentParser
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import zonecast

/// Every promised command exists, prints its usage, and reports wrong usage by its exit code.
///
/// See CONTRIBUTING.md, "Commands and error texts".
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct CommandTreeTests {
    private static let tree = [
        "serve", "demo", "cluster start", "cluster status", "cluster stop", "cluster import", "cluster export",
        "cluster shard list", "cluster shard add",
        "cluster shard edit", "cluster move", "cluster balance", "status", "doctor", "bench", "init",
        "config show", "config check", "config set",
        "config reference",
        "login",
        "logout",
        "container create", "container list", "container show", "container edit", "container delete", "container quota",
        "record query", "record show", "record create", "record edit", "record delete", "record changes",
        "record import", "record export", "zone create", "zone list", "zone delete", "zone changes",
        "share create", "share list", "share show", "share invite", "share accept", "share permission", "share stop",
        "schema export", "schema import", "schema validate", "schema diff", "schema promote", "schema reset",
        "schema codegen", "asset list", "asset verify", "asset clean", "user create", "user list", "user show",
        "user edit", "user disable", "user delete", "user export", "user password", "user sign-in", "user role grant",
        "user role list", "user role revoke", "user operator create", "user operator list", "user operator password",
        "user operator delete", "user issuer create", "user issuer list", "user issuer delete", "user issuer check",
        "token create", "token list", "token rotate", "token revoke", "backup create", "backup list", "backup verify",
        "backup restore", "backup schedule", "storage show", "storage copy", "storage compact", "push show",
        "push list", "push set apns", "push set fcm", "push set webpush", "push set unifiedpush", "push test",
        "push delete", "alert create", "alert list", "alert edit", "alert delete", "alert test", "upgrade check",
        "log show", "log audit", "version",
        "completions",
        "query-records", "create-record", "get-record", "update-record", "delete-record", "delete-records",
        "export-schema", "import-schema", "validate-schema", "reset-schema",
    ]

    @Test func everyPromisedCommandExists() {
        for command in Self.tree {
            let help = HelpText.of(command.split(separator: " ").map(String.init))
            #expect(help?.contains("USAGE: zonecast \(command)") == true, "\(command)")
        }
    }

    @Test func pluralNounsAreAccepted() {
        for noun in ["container", "record", "zone", "share", "asset", "user", "token", "backup", "alert", "log"] {
            #expect(Zonecast.singular(["\(noun)s", "list"]) == [noun, "list"])
            #expect(Zonecast.singular(["help", "\(noun)s"]) == ["help", noun])
        }
        #expect(Zonecast.singular(["users"]) == ["user"] && Zonecast.singular(["status", "s"]) == ["status", "s"])
    }

    /// Every old spelling names a command that exists, and no command of today counts as renamed.
    @Test func oldSpellingsNameTheNewCommand() throws {
        for new in RenamedCommand.names.values {
            let words = new.split(separator: " ").map(String.init).prefix {
                !$0.hasPrefix("-") && $0.lowercased() == $0
            }
            #expect(HelpText.of(Array(words)) != nil, "\(new)")
        }
        for command in Self.tree {
            #expect(RenamedCommand.first(in: command.split(separator: " ").map(String.init)) == nil, "\(command)")
        }
        for (old, new) in [
            (["user", "add", "ada@example.org"], "zonecast user create"), (["logs"], "zonecast log show"),
            (["key", "add", "--container", "a"], "zonecast token create --kind server"),
            (["records", "get", "x"], "zonecast record show"),
        ] {
            let run = try Command.run(old)
            #expect(run.status == 2 && run.errors.contains("is now: \(new)."), "\(run.errors)")
        }
    }

    /// A user is created without signing in: the output has no credential.
    @Test func creatingAUserPrintsNoCredential() throws {
        let folder = ScratchFolder()
        let add = ["user", "create", "ada@example.org", "--password-stdin", "--data", folder.path]
        #expect(try Command.run(add, input: "correct horse\n").output == "created  ada@example.org\n")
    }

    /// Every command with output has `--json`.
    @Test func everyCommandHasJSONOutput() {
        let without = ["serve", "cluster start", "completions", "log show", "logout"]
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
        for words in [["serve"], ["record", "query"], ["token", "create"]] {
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
        #expect(lines.contains { $0.hasPrefix("  -q, --quiet             Print only the requested output") })
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
