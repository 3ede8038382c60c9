import ArgumentParser
import Foundation
import RelayCore

/// The `zonecast` command: the relay server and its tools.
struct Zonecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zonecast",
        abstract: "A self-hosted sync relay that does CloudKit's job on your own machine.",
        discussion: """
            First steps:
              zonecast demo         a relay and three clients on this machine
              zonecast serve --dev  a relay for development
              zonecast init         set up a relay for production
              zonecast doctor       check that a relay works
              zonecast container create iCloud.org.example
              zonecast token create --container iCloud.org.example

            Every command takes -q (only the requested output, for scripts), -v (what it does) and --no-color; most take -o json.
            Exit codes: 0 success, 1 refused or failed, 2 wrong usage, 3 relay unreachable, 4 not allowed, 5 conflict.
            """,
        version: Self.version,
        subcommands: [VersionCommand.self, CompletionsCommand.self] + CKToolCommands.all + CKToolCommands.records,
        groupedSubcommands: [
            CommandGroup(
                name: "Run",
                subcommands: [
                    Serve.self, Demo.self, ClusterCommand.self, StatusCommand.self, DoctorCommand.self,
                    BenchCommand.self,
                ]
            ),
            CommandGroup(
                name: "Set up",
                subcommands: [InitCommand.self, ConfigCommand.self, LoginCommand.self, LogoutCommand.self]
            ),
            CommandGroup(
                name: "Data",
                subcommands: [
                    ContainerCommand.self, RecordCommand.self, ZoneCommand.self, ShareCommand.self, SchemaCommand.self,
                    AssetCommand.self,
                ]
            ),
            CommandGroup(name: "People", subcommands: [UserCommand.self, TokenCommand.self]),
            CommandGroup(
                name: "Operate",
                subcommands: [
                    BackupCommand.self, StorageCommand.self, PushCommand.self, AlertCommand.self, LogCommand.self,
                    UpgradeCommand.self,
                ]
            ),
        ]
    )

    /// Returns the arguments with a plural noun, such as `records`, replaced by the noun.
    static func singular(_ arguments: [String]) -> [String] {
        var arguments = arguments
        let index = arguments.first == "help" ? 1 : 0
        guard arguments.indices.contains(index), arguments[index].hasSuffix("s") else { return arguments }
        let noun = String(arguments[index].dropLast())
        if configuration.subcommands.contains(where: { $0._commandName == noun }) { arguments[index] = noun }
        return arguments
    }
}

/// Runs the command and maps its outcome to an exit code for scripts.
@main
enum Main {
    static func main() async {
        let (flags, given) = GlobalFlags.take(from: Array(CommandLine.arguments.dropFirst()))
        flags.apply()
        let words = given.first == "help" ? Array(given.dropFirst()) : given
        if let renamed = RenamedCommand.first(in: words) { leave(CommandFailure(.usage, renamed.words), given) }
        let arguments = Zonecast.singular(given)
        // For an unknown command, the library's help prints the root help and succeeds.
        if arguments.first == "help", let mistyped = MistypedCommand.first(in: Array(arguments.dropFirst())) {
            leave(CommandFailure(.usage, mistyped.words), arguments)
        }
        do {
            var command = try Zonecast.parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            end(0)
        } catch let failure as CommandFailure {
            leave(failure, arguments)
        } catch let failure as BackupFailure {
            leave(CommandFailure(failure), arguments)
        } catch {
            leave(with: error, arguments)
        }
    }

    /// Handles results of argument parsing: help and version succeed, everything else is wrong usage.
    private static func leave(with error: any Error, _ arguments: [String]) -> Never {
        let message = text(of: error)
        guard Zonecast.exitCode(for: error) != .success else {
            Terminal.say(message.contains("USAGE: ") ? GlobalFlags.added(to: message) : message)
            end(0)
        }
        if arguments.last == "help", MistypedCommand.first(in: arguments.dropLast()) == nil,
            let text = help(of: arguments.dropLast())
        {
            Terminal.say(GlobalFlags.added(to: text))
            end(0)
        }
        if Zonecast.exitCode(for: error) == .validationFailure, let mistyped = MistypedCommand.first(in: arguments) {
            leave(CommandFailure(.usage, mistyped.words), arguments)
        }
        let exit: CommandExit = Zonecast.exitCode(for: error) == .validationFailure ? .usage : .failed
        let reason = Zonecast.message(for: error)
        let text = reason.isEmpty ? message : reason
        let stop = text.last.map { ".?!".contains($0) } == true ? "" : "."
        let hint = dashHint(arguments, reason).map { " \($0)." } ?? ""
        let help = text.contains("--help") ? "" : " For its options: \(MistypedCommand.command(in: arguments)) --help"
        leave(CommandFailure(exit, text + stop + hint + (exit == .usage ? help : "")), arguments)
    }

    /// Returns the error's full text, wrapped to the terminal's width.
    private static func text(of error: any Error) -> String {
        let width = HelpPage.width
        return HelpPage.laidOut(Zonecast.fullMessage(for: error, columns: width), width: width)
    }

    /// Returns a hint for an option whose value begins with a dash.
    private static func dashHint(_ arguments: [String], _ reason: String) -> String? {
        guard
            let (option, value) = zip(arguments, arguments.dropFirst()).first(where: { option, value in
                option.hasPrefix("--") && value.hasPrefix("-") && reason.hasPrefix("Missing value for '\(option)")
            })
        else { return nil }
        return "Write a value that begins with - after an equals sign: \(option)=\(value)"
    }

    /// Prints the failure to standard error; with `--json`, also as JSON on standard output unless output was written
    /// before.
    private static func leave(_ failure: CommandFailure, _ arguments: [String]) -> Never {
        struct Refusal: Encodable { var code: String, reason: String }
        if arguments.prefix(while: { $0 != "--" }).contains("--json"), !Terminal.hasWrittenOutput {
            try? Terminal.say(json: ["error": Refusal(code: failure.codeOrKind, reason: failure.description)])
        }
        Terminal.sayError("zonecast: \(failure.description)")
        end(failure.exit.rawValue)
    }

    /// Returns the help of a command; `nil` if there is no such command.
    ///
    /// For `zonecast push help`, as other programs accept it; only used if the words have no other meaning.
    private static func help(of words: ArraySlice<String>) -> String? {
        do {
            var command = try Zonecast.parseAsRoot(words + ["--help"])
            try command.run()
            return nil
        } catch {
            return Zonecast.exitCode(for: error) == .success ? text(of: error) : nil
        }
    }

    /// Ends the process at once, without exit handlers.
    ///
    /// Exit handlers of libraries free resources that their threads may still be using (libcurl and libwebsockets share
    /// OpenSSL), which can hang or crash the process. All our data is written by now.
    private static func end(_ code: Int32) -> Never {
        fflush(nil)
        _exit(code)
    }
}
