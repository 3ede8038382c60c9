import Foundation
import Simulation
import ZoneTesting

/// `simulate [--seeds A..<B | --seed N] [--seconds S] [--mirrors] [--plant FAULT] [--trace]`: runs seeds one after the other.
///
/// Prints `{"seeds": …}` on one line at the end. A failing seed is printed with its steps and ends the run with exit
/// code 1. With a planted fault, the exit code is 0 if a seed found the fault.
@main struct Simulate {
    static func main() {
        // A run is repeatable only if sets and dictionaries have the same order each time.
        guard ProcessInfo.processInfo.environment["SWIFT_DETERMINISTIC_HASHING"] == "1" else {
            setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
            let words = CommandLine.arguments.map { strdup($0) } + [nil]
            execv("/proc/self/exe", words)
            FileHandle.standardError.write(Data("Set SWIFT_DETERMINISTIC_HASHING=1 and try again.\n".utf8))
            exit(2)
        }
        let options: Options
        do {
            options = try Options(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(2)
        }
        if let times = options.twoUsers {
            let cost = TwoUsers.measure(times)
            print(#"{"milliseconds":\#(cost?.milliseconds ?? -1),"pieces":\#(cost?.pieces ?? -1)}"#)
            exit(cost == nil ? 1 : 0)
        }
        exit(Run(options).run() ? 0 : 1)
    }
}
