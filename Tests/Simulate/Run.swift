import DiskTrials
import Dispatch
import Foundation
import Records
import Simulation
import Synchronization

/// Runs seeds and prints the results.
struct Run {
    private let options: Options
    private let home: URL

    init(_ options: Options) {
        self.options = options
        // Memory is faster than a disk; other tests cover disk behavior.
        let memory = URL(fileURLWithPath: "/dev/shm")
        let isThere = FileManager.default.isWritableFile(atPath: memory.path)
        home = (isThere ? memory : FileManager.default.temporaryDirectory)
            .appendingPathComponent("zonecast-simulate-\(ProcessInfo.processInfo.processIdentifier)")
    }

    /// Returns `true` if no seed failed or, with a planted fault, if a seed found it.
    func run() -> Bool {
        let fault = options.plant.flatMap { PlantedFault(rawValue: $0) }
        if let name = options.plant, !plant(fault) {
            Simulate.say("There is no fault \(name) to plant in this build.")
            return false
        }
        if fault == .pageSumUnchecked { return findsDamage() }
        defer { try? FileManager.default.removeItem(at: home) }
        do {
            try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        } catch {
            Simulate.say("No folder for the runs' files: \(error.localizedDescription)")
            return false
        }
        var total = Total()
        let start = ContinuousClock.now
        var isRight = options.plant == nil
        let limit = ProcessorTime.now + options.processorSeconds
        for seed in options.seeds {
            guard (ContinuousClock.now - start).seconds < options.seconds, ProcessorTime.now < limit else { break }
            let scenario = Scenario(seed: seed, options.isOfMirrors ? .mirrors : .everything)
            let steps = scenario.steps()
            if let fault, !scenario.canTrigger(fault, in: steps) { continue }
            guard let outcome = try? Simulation(scenario, steps: steps, home: home).run() else {
                Simulate.say("Seed \(seed) cannot begin: the store cannot be made in \(home.path).")
                return false
            }
            total.count(outcome)
            if options.showsEach {
                Simulate.say(
                    "seed \(seed): \(outcome.requests) requests, \(outcome.workItems) pieces, \(outcome.simulated)"
                )
            }
            if options.showsTrace { Simulate.say(outcome.trace.joined(separator: "\n")) }
            guard !outcome.isClean else { continue }
            isRight = options.plant != nil
            if isRight, options.tries == nil {
                Simulate.say("Seed \(seed): \(outcome.violations[0])")
            } else {
                report(scenario, steps, outcome)
            }
            break
        }
        Simulate.say(total.json(seconds: (ContinuousClock.now - start).seconds))
        return isRight
    }

    /// Looks for a fault that only a damaged file reveals.
    ///
    /// Returns `true` if the relay served wrong data from a damaged file.
    private func findsDamage() -> Bool {
        let (found, done) = (Found(), DispatchSemaphore(value: 0))
        let (seeds, limit) = (options.seeds, ProcessorTime.now + options.processorSeconds)
        Task {
            for seed in seeds where ProcessorTime.now < limit && !found.isThere {
                // Flipped bytes leave a well-formed page, so that only its checksum shows the damage.
                guard let report = try? await DamageTrial(seed: seed, .flipped).run() else { continue }
                if let objection = report.objection { found.say("Seed \(seed): \(objection)") }
            }
            done.signal()
        }
        done.wait()
        return found.isThere
    }

    private final class Found: Sendable {
        private let sentence = Mutex<String?>(nil)
        var isThere: Bool { sentence.withLock { $0 != nil } }

        func say(_ text: String) {
            sentence.withLock { $0 = text }
            Simulate.say(text)
        }
    }

    private func plant(_ fault: PlantedFault?) -> Bool { fault.map { PlantedFault.plant($0) } ?? false }

    private func report(_ scenario: Scenario, _ steps: [Step], _ outcome: Simulation.Outcome) {
        Simulate.say("FAILED \(scenario)")
        outcome.violations.forEach { Simulate.say("  \($0)") }
        let (fewer, again) = Shrinking(scenario, home: home, tries: options.tries ?? 120)
            .shrink(steps, from: outcome)
        Simulate.say("\(fewer.count) of \(steps.count) steps are enough:")
        fewer.forEach { Simulate.say("  \($0)") }
        (again ?? outcome).violations.forEach { Simulate.say("  \($0)") }
        Simulate.say("The last of the trace:")
        (again ?? outcome).trace.suffix(60).forEach { Simulate.say("  \($0)") }
        let plant = options.plant.map { " --plant \($0)" } ?? ""
        let kind = options.isOfMirrors ? " --mirrors" : ""
        Simulate.say("To repeat it: simulate --seed \(scenario.seed) --trace\(kind)\(plant)")
    }
}

extension Simulate {
    /// Writes a line to standard output without buffering.
    static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
}

/// The totals of all runs.
private struct Total {
    private var seeds = 0
    private var simulated = Duration.zero
    private var requests = 0
    private var commits = 0
    private var workItems: UInt64 = 0
    private var fingerprint: UInt64 = 0

    mutating func count(_ outcome: Simulation.Outcome) {
        seeds += 1
        simulated += outcome.simulated
        requests += outcome.requests
        commits += outcome.commits
        workItems += outcome.workItems
        fingerprint = fingerprint &* 31 &+ outcome.fingerprint
    }

    func json(seconds: Double) -> String {
        let hours = simulated.seconds / 3600
        // The open file descriptors of this process after all runs.
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        let files = "\"openFiles\":\(open)"
        return #"{"seeds":\#(seeds),"simulatedHours":\#(hours),"requests":\#(requests),"commits":\#(commits),"#
            + #""pieces":\#(workItems),"seconds":\#(seconds),"fingerprint":"\#(String(fingerprint, radix: 16))",\#(files)}"#
    }
}

extension Duration {
    fileprivate var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
