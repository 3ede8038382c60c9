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
        } catch let failure as CommandFailure {
            Terminal.complain("zonecast: \(failure.description)")
            exit(failure.exit.rawValue)
        } catch {
            leave(with: error)
        }
    }

    /// What argument parsing says: help and the version are answers, everything else is wrong usage.
    private static func leave(with error: any Error) -> Never {
        let message = Zonecast.fullMessage(for: error)
        guard Zonecast.exitCode(for: error) != .success else {
            Terminal.say(message)
            exit(0)
        }
        Terminal.complain(message)
        exit(
            Zonecast.exitCode(for: error) == .validationFailure
                ? CommandExit.usage.rawValue : CommandExit.failed.rawValue
        )
    }
}
