import ArgumentParser
import Foundation

/// Runs the command and turns however it ends into an exit code a script can act on.
@main
enum Main {
    static func main() async {
        let (flags, arguments) = EverywhereFlags.take(from: Array(CommandLine.arguments.dropFirst()))
        flags.apply()
        // Asked about what is no command, the library explains them all and takes it for an answer.
        if arguments.first == "help", let mistyped = MistypedCommand.first(in: Array(arguments.dropFirst())) {
            Terminal.complain("zonecast: \(mistyped.words)")
            end(CommandExit.usage.rawValue)
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
            Terminal.complain("zonecast: \(failure.description)")
            end(failure.exit.rawValue)
        } catch {
            leave(with: error, arguments)
        }
    }

    /// What argument parsing says: help and the version are answers, everything else is wrong usage.
    private static func leave(with error: any Error, _ arguments: [String]) -> Never {
        let message = Zonecast.fullMessage(for: error)
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
            Terminal.complain("zonecast: \(mistyped.words)")
            end(CommandExit.usage.rawValue)
        }
        Terminal.complain(message)
        end(
            Zonecast.exitCode(for: error) == .validationFailure
                ? CommandExit.usage.rawValue : CommandExit.failed.rawValue
        )
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
            return Zonecast.exitCode(for: error) == .success ? Zonecast.fullMessage(for: error) : nil
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
