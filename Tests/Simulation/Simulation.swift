package import Foundation
import Records
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// One run: a relay, its users' devices, a bad network, and one seed for all of it.
///
/// One thread, which is the caller's. First the steps, with faults; then calm, in which everybody has to come to hold what
/// the relay holds, within bounded time of the clock.
package final class Simulation {
    /// What came of a run.
    package struct Outcome: Sendable {
        package var violations: [String]
        package var trace: [String]
        /// The same for two runs that went alike in everything.
        package var fingerprint: UInt64
        /// Of the clock.
        package var simulated: Duration
        package var requests: Int
        package var commits: Int
        package var pieces: UInt64

        package var isClean: Bool { violations.isEmpty }
    }

    let scenario: Scenario
    let steps: [Step]
    let clock = TestClock()
    let judge: Judge
    let world: World
    let relay: TestRelay
    var programs: [any Program] = []
    var hands: [Hand] = []
    /// What the relay writes to; `nil` in memory.
    let disk: SimulatedDisk?
    /// Users' record names.
    var people: [String: String] = [:]
    let chance: SeededRandom
    /// Who clears away what nobody uses, beside everything else.
    let housekeeper: Party

    /// More pieces of work at one moment of the clock than this, and the world runs in circles.
    private static let circle = 200_000
    /// How long everything may take to come to rest once nothing goes wrong any more.
    private static let calm = Duration.seconds(4 * 3600)

    /// - Parameters:
    ///   - scenario: What kind of run.
    ///   - steps: Its steps; those of the seed, or some of them.
    ///   - home: Where the relay's and the devices' files go; best where nothing is slow.
    /// - Throws: What SQLite and the file system throw.
    package init(_ scenario: Scenario, steps: [Step], home: URL) throws {
        self.scenario = scenario
        self.steps = steps
        let order = SeededRandom(seed: scenario.seed &+ 0x5EED)
        chance = SeededRandom(seed: scenario.seed &* 31 &+ 7)
        judge = Judge(clock: clock)
        world = World(
            clock: clock,
            seed: scenario.seed,
            stage: Stage { count in Int(order.number() % UInt64(count)) },
            witness: judge
        )
        housekeeper = Party("housekeeper", on: world.stage)
        var options = TestRelay.Options()
        options.storage = scenario.isOnDisk ? .temporaryFolder : .memory
        options.limits.itemsPerRequest = scenario.itemsPerRequest
        options.checkpointPages = scenario.checkpointPages
        let folder = TestFolder(in: home)
        disk = scenario.isOnDisk && scenario.hasFaultyDisk ? try SimulatedDisk(in: folder.make("relay")) : nil
        relay = try TestRelay(options, world: world, folder: folder, disk: disk?.relayDisk)
        judge.files.withLock { $0 = FileCarrier(relay: relay) }
        if let disk { judge.isDiskSound.withLock { $0 = { disk.isHealthy } } }
    }

    /// Runs it to its end.
    package func run() -> Outcome {
        // Files of a relay in memory go when it stops, and it is held by whoever waits for an hour that never comes.
        defer {
            relay.stop()
            programs.forEach { $0.letGo() }
        }
        begin()
        for step in steps where judge.violations.isEmpty {
            advance(by: .milliseconds(step.pause))
            judge.note("step \(step), after \(world.stage.count) pieces")
            perform(step)
        }
        if judge.violations.isEmpty { end() }
        return outcome
    }

    private var outcome: Outcome {
        let state = judge.state.withLock { ($0.violations, $0.trace, $0.hash.sum, $0.requests, $0.commits) }
        return Outcome(
            violations: state.0,
            trace: state.1,
            fingerprint: state.2,
            simulated: clock.now.offset,
            requests: state.3,
            commits: state.4,
            pieces: world.stage.count
        )
    }

    // MARK: Time

    /// Does all that is ready; what comes in circles is a violation.
    func workOff(turns: Int = circle) {
        if !world.stage.workOff(limit: turns), turns == Self.circle {
            judge.accuse("l", "\(turns) pieces of work without the clock moving")
        }
        // A machine without power runs no relay, whatever this one has met of it.
        if relay.wantsRestart || disk?.hasLostPower == true { restartAfterLoss() }
    }

    func advance(by duration: Duration) {
        let end = clock.now.advanced(by: duration)
        workOff()
        while let next = clock.nextDeadline, next <= end, judge.violations.isEmpty {
            clock.advance(by: clock.now.duration(to: next))
            workOff()
        }
        clock.advance(by: clock.now.duration(to: end))
        workOff()
        judge.judgeNotices()
    }

    /// Moves the clock until nobody has anything left to do.
    func settle(_ what: String) {
        let end = clock.now.advanced(by: Self.calm)
        let bench = Party("judge", on: world.stage)
        while judge.violations.isEmpty {
            workOff()
            guard let left = pending(bench), !left.isEmpty else { return }
            guard let next = clock.nextDeadline, next <= end else {
                judge.accuse("b", "\(what): \(Self.calm) were not enough: \(left)")
                return
            }
            clock.advance(by: clock.now.duration(to: next))
            judge.judgeNotices()
        }
    }

    /// What is left to do; actors know, so a task asks them like any other.
    private func pending(_ bench: Party) -> [String]? {
        let box = Box()
        let world = world
        Task(executorPreference: bench) { await box.put(world.unsettled()) }
        workOff()
        return box.value
    }

    private final class Box: Sendable {
        private let kept = Mutex<[String]?>(nil)
        func put(_ value: [String]) { kept.withLock { $0 = value } }
        var value: [String]? { kept.withLock { $0 } }
    }

    // MARK: Beginning and end

    private func begin() {
        let hasCarol = scenario.hasMirrors || scenario.kind == .mirrors
        let users = ["alice", "bob", "erin"] + (hasCarol ? ["carol", "dave"] : [])
        let key = FixedKey()
        hands = [("alice", "hand"), ("bob", "hand"), ("alice", "left hand"), ("erin", "hand")].map { user, name in
            Hand(relay.device(of: user, named: name, encryptionKey: user == "alice" ? key : nil), judge: judge)
        }
        for user in users {
            let device = relay.device(of: user, named: "caller")
            let box = Box()
            Task(executorPreference: device.party) {
                box.put([(try? await device.container.userRecordID().recordName) ?? ""])
            }
            advance(by: .seconds(1))
            people[user] = box.value?.first
        }
        // The earliest that there is: from before anybody has made, shared or asked to be told of anything.
        backUp()
        judge.people.withLock { $0 = people }
        judge.state.withLock { $0.loner = people["erin"] ?? "" }
        programs = scenario.kind == .mirrors ? ["phone", "laptop", "tablet"].map(linkedMirror) : everything()
        hands[0].makeZones()
        settle("the beginning")
        for program in programs { program.device.network.weather = scenario.weather }
        for hand in hands { hand.device.network.weather = scenario.weather }
    }

    private func everything() -> [any Program] {
        var programs = [engine("alice", "phone"), engine("alice", "laptop"), engine("bob", "phone")]
        programs.append(
            WebProgram(relay.device(of: "alice", named: "web"), userName: people["alice"] ?? "", judge: judge)
        )
        if scenario.hasMirrors {
            programs += [
                mirror("carol", "phone", .own), mirror("carol", "laptop", .sharing), mirror("dave", "phone", .sharing),
            ]
            if scenario.hasPublicMirrors {
                programs += [mirror("carol", "board", .everybodys), mirror("dave", "board", .everybodys)]
            }
        }
        return programs
    }

    private func linkedMirror(_ name: String) -> any Program {
        // Those that decide; with `error` the user has to.
        let policies = MergePolicy.allCases.filter { $0 != .error }
        let policy = policies[Int(scenario.seed % UInt64(policies.count))]
        return LinkedProgram(
            relay.device(of: "carol", named: name),
            policy,
            userName: people["carol"] ?? "",
            judge: judge
        )
    }

    private func engine(_ user: String, _ name: String) -> any Program {
        EngineProgram(relay.device(of: user, named: name), userName: people[user] ?? "", judge: judge)
    }

    private func mirror(_ user: String, _ name: String, _ kind: MirrorProgram.Kind) -> any Program {
        MirrorProgram(relay.device(of: user, named: name), kind, userName: people[user] ?? "", judge: judge)
    }

    /// Nothing goes wrong any more: everybody has to come to hold what the relay holds.
    private func end() {
        judge.note("calm")
        calmDown()
        settle("after the faults")
        if scenario.kind == .mirrors {
            // Knows nothing but what the relay has: whatever the others know beside that shows.
            programs.append(linkedMirror("new phone"))
            settle("a new device")
        }
        // What is changed now everybody hears of by notices alone.
        for (index, program) in programs.enumerated() { program.edit(0, "last\(index)", "a", "last \(index)") }
        settle("the last changes")
        audit()
        lookAtPictures()
        for program in programs { (program as? WebProgram)?.poll() }
        settle("the last look")
        compare()
        checkBounds()
    }

    private func calmDown() {
        disk?.heal()
        relay.clockError = .zero
        startRelay()
        restoreLimits()
        for program in programs { world.stage.wake(program.device.party) }
        // Somebody else may have been about to sign in while it slept.
        workOff()
        for program in programs {
            program.device.network.weather = nil
            program.device.clockError = .zero
            program.device.network.heal()
            (program as? EngineProgram)?.perform(.resume, on: nil, clock: clock)
            signIn(program, as: program.device.user ?? "")
            // Without a word about what was dropped nobody would ever look: as after any loss of a line.
            if scenario.weather.dropsNotice > 0 { program.device.network.dropSockets() }
        }
        for hand in hands { hand.device.network.weather = nil }
        if scenario.goesBack || steps.contains(where: { $0.deed == .deleteSharedZone }) { hands[0].makeZonesAgain() }
        workOff()
        // Only what a limit or a missing sign-in refused: whatever else is left unsent has to go by itself.
        let mustAsk = steps.contains { $0.deed.isAboutAccounts || $0.deed.isAboutLimits }
        if mustAsk { programs.forEach { $0.retry() } }
    }
}

/// A user's secret that is at hand.
private struct FixedKey: EncryptionKeyProvider {
    func userKey() async throws -> Data { Data(repeating: 7, count: 32) }
}
