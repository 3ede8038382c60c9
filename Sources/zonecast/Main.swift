import ArgumentParser
import Foundation
import RelayStore

/// Runs the command and turns however it ends into an exit code a script can act on.
@main
enum Main {
    static func main() async {
        let (flags, arguments) = EverywhereFlags.take(from: Array(CommandLine.arguments.dropFirst()))
        flags.apply()
        // Asked about what is no command, the library explains them all and takes it for an answer.
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

    /// What argument parsing says: help and the version are answers, everything else is wrong usage.
    private static func leave(with error: any Error, _ arguments: [String]) -> Never {
        let message = text(of: error)
        guard Zonecast.exitCode(for: error) != .success else {
            Terminal.say(message.contains("USAGE: ") ? EverywhereFlags.added(to: message) : message)
            end(0)
        }
        if arguments.last == "help", MistypedCommand.first(in: arguments.dropLast()) == nil,
            let text = help(of: arguments.dropLast())
        {
            Terminal.say(EverywhereFlags.added(to: text))
            end(0)
        }
        if Zonecast.exitCode(for: error) == .validationFailure, let mistyped = MistypedCommand.first(in: arguments) {
            leave(CommandFailure(.usage, mistyped.words), arguments)
        }
        let exit: CommandExit = Zonecast.exitCode(for: error) == .validationFailure ? .usage : .failed
        let reason = Zonecast.message(for: error)
        let hint = dashHint(arguments, reason).map { "\n\($0)" } ?? ""
        leave(CommandFailure(exit, (reason.isEmpty ? message : reason) + hint), arguments, words: message + hint)
    }

    /// In lines for whoever reads them.
    private static func text(of error: any Error) -> String {
        let width = HelpPage.width
        return HelpPage.laidOut(Zonecast.fullMessage(for: error, columns: width), width: width)
    }

    /// For whoever gave an option a value that looks like another option.
    private static func dashHint(_ arguments: [String], _ reason: String) -> String? {
        guard
            let (option, value) = zip(arguments, arguments.dropFirst()).first(where: { option, value in
                option.hasPrefix("--") && value.hasPrefix("-") && reason.hasPrefix("Missing value for '\(option)")
            })
        else { return nil }
        return "A value that begins with - stands behind an equals sign: \(option)=\(value)"
    }

    /// Says why a command did not do what it was asked, on standard error; where an answer in JSON was asked for and there is
    /// none yet, as that too.
    private static func leave(_ failure: CommandFailure, _ arguments: [String], words: String? = nil) -> Never {
        struct Refusal: Encodable { var code: String, reason: String }
        if arguments.prefix(while: { $0 != "--" }).contains("--json"), !Terminal.hasSpoken {
            try? Terminal.say(json: ["error": Refusal(code: failure.codeOrKind, reason: failure.description)])
        }
        Terminal.complain(words ?? "zonecast: \(failure.description)")
        end(failure.exit.rawValue)
    }

    /// What a command says of itself; `nil` where there is no such.
    ///
    /// For `zonecast push help`, as other programs have it: only where the words mean nothing else.
    private static func help(of words: ArraySlice<String>) -> String? {
        do {
            var command = try Zonecast.parseAsRoot(words + ["--help"])
            try command.run()
            return nil
        } catch {
            return Zonecast.exitCode(for: error) == .success ? text(of: error) : nil
        }
    }

    /// Ends the process at once, without the libraries' own farewells.
    ///
    /// What they clean up, threads of theirs may still be using (libcurl's and libwebsockets' share OpenSSL): then the
    /// process hangs or crashes on its way out. Everything of ours is on the disk or on its way by now.
    private static func end(_ code: Int32) -> Never {
        fflush(nil)
        _exit(code)
    }
}
