import Foundation
import Sockets

/// Checks a running relay with invalid requests.
///
/// Needs `zonecast serve --dev --test-door` with a raised request rate, on this machine. Usage: `Probe PORT [--slow]
/// [TEXT]`, where TEXT selects the checks with this text in their names.
@main
enum Main {
    static func main() {
        signal(SIGPIPE, SIG_IGN)
        let arguments = CommandLine.arguments.dropFirst()
        guard let port = arguments.first.flatMap({ UInt16($0) }) else {
            print("Probe PORT [--slow] [TEXT]: checks the relay that listens on 127.0.0.1:PORT")
            exit(2)
        }
        let isSlow = arguments.contains("--slow")
        let chosen = arguments.dropFirst().first { !$0.hasPrefix("--") }
        let checks =
            FramingChecks.all + LimitChecks.all + HandshakeChecks.all + FrameChecks.all + NoticeChecks.all
            + (isSlow ? SlowChecks.all : [])
        let run = checks.filter { check in chosen.map { check.name.contains($0) } ?? true }
        let failures = failures(of: run, at: Endpoint(port: port))
        for (name, seen) in failures { print("FAILED  \(name): \(seen)") }
        print("\(run.count) checks, \(failures.count) failed")
        exit(failures.isEmpty ? 0 : 1)
    }

    /// Runs slow checks in parallel, each on its own thread, and the others in sequence.
    private static func failures(of checks: [Check], at endpoint: Endpoint) -> [(String, String)] {
        let slow = checks.filter { $0.name.hasPrefix("deadlines") }.map { check in
            (check.name, RunningThread { try check.run(endpoint) })
        }
        var outcomes = checks.filter { !$0.name.hasPrefix("deadlines") }.map { check in
            (check.name, Result { try check.run(endpoint) })
        }
        outcomes += slow.map { name, thread in (name, Result { try thread.join() }) }
        return outcomes.compactMap { name, outcome in
            switch outcome {
            case .success(nil): nil
            case .success(let seen?): (name, seen)
            case .failure(let error): (name, "\(error)")
            }
        }
    }
}
