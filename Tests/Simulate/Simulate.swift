import Foundation
import Simulation
import ZoneTesting

/// `simulate [--seeds A..<B | --seed N] [--seconds S] [--mirrors | --nodes] [--plant FAULT] [--trace]`: runs seeds one after the other.
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

/// The command-line options of `simulate`.
struct Options {
    struct Unknown: Error, CustomStringConvertible {
        var description: String
    }

    /// What takes part in the runs.
    enum Kind {
        /// Devices with all kinds of program.
        case everything
        /// Mirrors with linked objects.
        case mirrors
        /// Two relays over one store.
        case nodes

        /// The option, after a space.
        var word: String {
            switch self {
            case .everything: ""
            case .mirrors: " --mirrors"
            case .nodes: " --nodes"
            }
        }
    }

    var seeds: Range<UInt64> = 1..<101
    /// Wall-clock time after which no further seed starts.
    var seconds: Double = .infinity
    /// CPU time after which no further seed starts.
    var processorSeconds: Double = .infinity
    /// How often to run the two-user test instead of seeds, to measure its cost.
    var twoUsers: Int?
    var plant: String?
    var kind = Kind.everything
    /// The maximum number of runs for shrinking a failing seed.
    ///
    /// `nil` means 120. With a planted fault, it means that only the first violation of the seed is printed.
    var tries: Int?
    var showsTrace = false
    var showsEach = false

    init(_ words: [String]) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "--seed":
                let seed = try Self.number(&rest, of: word)
                seeds = seed..<seed + 1
            case "--seeds":
                let bounds = (rest.popFirst() ?? "").split(separator: ".").compactMap {
                    UInt64($0.trimmingPrefix("<"))
                }
                guard bounds.count == 2, bounds[0] < bounds[1] else {
                    throw Unknown(description: "--seeds wants A..<B.")
                }
                seeds = bounds[0]..<bounds[1]
            case "--seconds": seconds = Double(try Self.number(&rest, of: word))
            case "--processor-seconds": processorSeconds = Double(try Self.number(&rest, of: word))
            case "--two-users": twoUsers = Int(try Self.number(&rest, of: word))
            case "--mirrors": kind = .mirrors
            case "--nodes": kind = .nodes
            case "--plant": plant = rest.popFirst()
            case "--tries": tries = Int(try Self.number(&rest, of: word))
            case "--trace": showsTrace = true
            case "--each": showsEach = true
            default:
                throw Unknown(
                    description:
                        "\(word) is unknown. simulate takes --seed, --seeds, --seconds, --processor-seconds, --mirrors, "
                        + "--nodes, --plant, --tries, --two-users, --each, --trace."
                )
            }
        }
    }

    private static func number(_ rest: inout ArraySlice<String>, of word: String) throws -> UInt64 {
        guard let number = rest.popFirst().flatMap({ UInt64($0) }) else {
            throw Unknown(description: "\(word) wants a number.")
        }
        return number
    }
}
