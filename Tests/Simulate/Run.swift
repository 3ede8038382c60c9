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
            let world = World(seed, options, home)
            if let fault, !world.canTrigger(fault) { continue }
            guard let outcome = world.run() else {
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
                report(seed, world, outcome)
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

    private func report(_ seed: UInt64, _ world: World, _ outcome: Simulation.Outcome) {
        Simulate.say("FAILED \(world.title)")
        outcome.violations.forEach { Simulate.say("  \($0)") }
        let (fewer, again) = world.shrink(outcome, options.tries ?? 120)
        Simulate.say("\(fewer.count) of \(world.stepCount) steps are enough:")
        fewer.forEach { Simulate.say("  \($0)") }
        (again ?? outcome).violations.forEach { Simulate.say("  \($0)") }
        Simulate.say("The last of the trace:")
        (again ?? outcome).trace.suffix(60).forEach { Simulate.say("  \($0)") }
        let plant = options.plant.map { " --plant \($0)" } ?? ""
        Simulate.say("To repeat it: simulate --seed \(seed) --trace\(options.kind.word)\(plant)")
    }
}

/// The settings and steps of one seed.
private struct World {
    let title: String
    let stepCount: Int
    let canTrigger: (PlantedFault) -> Bool
    let run: () -> Simulation.Outcome?
    let shrink: (Simulation.Outcome, _ tries: Int) -> ([String], Simulation.Outcome?)

    init(_ seed: UInt64, _ options: Options, _ home: URL) {
        if options.kind == .nodes {
            self.init("seed \(seed): two relays", NodesStep.steps(ofSeed: seed), canTrigger: { _ in true }) {
                try? NodesSimulation(seed: seed, steps: $0, home: home).run()
            }
        } else {
            let scenario = Scenario(seed: seed, options.kind == .mirrors ? .mirrors : .everything)
            let steps = scenario.steps()
            self.init("\(scenario)", steps, canTrigger: { scenario.canTrigger($0, in: steps) }) {
                try? Simulation(scenario, steps: $0, home: home).run()
            }
        }
    }

    private init<Step>(
        _ title: String,
        _ steps: [Step],
        canTrigger: @escaping (PlantedFault) -> Bool,
        run: @escaping ([Step]) -> Simulation.Outcome?
    ) {
        self.title = title
        self.canTrigger = canTrigger
        stepCount = steps.count
        self.run = { run(steps) }
        shrink = { outcome, tries in
            let (fewer, again) = Shrinking(tries: tries, run: run).shrink(steps, from: outcome)
            return (fewer.map { "\($0)" }, again)
        }
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
