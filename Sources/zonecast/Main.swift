import ArgumentParser
import Foundation

/// Runs the command and turns however it ends into an exit code a script can act on.
@main
enum Main {
    static func main() async {
        do {
            var command = try Zonecast.parseAsRoot()
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
            leave(with: error)
        }
    }

    /// What argument parsing says: help and the version are answers, everything else is wrong usage.
    private static func leave(with error: any Error) -> Never {
        let message = Zonecast.fullMessage(for: error)
        guard Zonecast.exitCode(for: error) != .success else {
            Terminal.say(message)
            end(0)
        }
        Terminal.complain(message)
        end(
            Zonecast.exitCode(for: error) == .validationFailure
                ? CommandExit.usage.rawValue : CommandExit.failed.rawValue
        )
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
