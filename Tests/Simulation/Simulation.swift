package import Foundation
import Records
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// One run: a relay, its users' devices and an unreliable network, all derived from one seed.
///
/// Runs on the caller's thread only. First the steps run, with faults. Then the faults end, and all devices must reach
/// the relay's state within a limited simulated time.
package final class Simulation {
    /// The result of a run.
    package struct Outcome: Sendable {
        package var violations: [String]
        package var trace: [String]
        /// Equal for two runs with the same trace.
        package var fingerprint: UInt64
        /// The simulated time.
        package var simulated: Duration
        package var requests: Int
        package var commits: Int
        package var workItems: UInt64

        package var isClean: Bool { violations.isEmpty }
    }

    let scenario: Scenario
    let steps: [Step]
    let clock = TestClock()
    let checker: Checker
    let world: World
    let relay: TestRelay
    var programs: [any Program] = []
    var clients: [APIClient] = []
    /// The relay's disk; `nil` if the relay stores its records in memory.
    let disk: SimulatedDisk?
    /// The record name of each user.
    var people: [String: String] = [:]
    let random: SeededRandom
    /// Runs maintenance, such as removing unused assets, concurrently with other work.
    let housekeeper: SimulatedProcess

    /// The number of work items without clock progress that counts as a livelock.
    private static let livelockLimit = 200_000
    /// The maximum simulated time for all work to finish after the faults end.
    private static let settleLimit = Duration.seconds(4 * 3600)

    /// - Parameters:
    ///   - scenario: The settings of the run.
    ///   - steps: The seed's steps, or some of them.
    ///   - home: A folder for the files of the relay and the devices, preferably in memory.
    /// - Throws: Errors of SQLite and the file system.
    package init(_ scenario: Scenario, steps: [Step], home: URL) throws {
        self.scenario = scenario
        self.steps = steps
        let order = SeededRandom(seed: scenario.seed &+ 0x5EED)
        random = SeededRandom(seed: scenario.seed &* 31 &+ 7)
        checker = Checker(clock: clock)
        world = World(
            clock: clock,
            seed: scenario.seed,
            executor: DeterministicExecutor { count in Int(order.number() % UInt64(count)) },
            observer: checker
        )
        housekeeper = SimulatedProcess("housekeeper", on: world.executor)
        var options = TestRelay.Options()
        options.storage = scenario.isOnDisk ? .temporaryFolder : .memory
        options.limits.itemsPerRequest = scenario.itemsPerRequest
        options.checkpointPages = scenario.checkpointPages
        let folder = TestFolder(in: home)
        disk = scenario.isOnDisk && scenario.hasFaultyDisk ? try SimulatedDisk(in: folder.make("relay")) : nil
        relay = try TestRelay(options, world: world, folder: folder, disk: disk?.relayDisk)
        checker.files.withLock { $0 = AssetClient(relay: relay) }
        if let disk { checker.isDiskSound.withLock { $0 = { disk.isHealthy } } }
    }

    /// Runs all steps and the final checks.
    package func run() -> Outcome {
        // Stopping the relay removes its temporary files. Without `stop()`, suspended timers would keep the relay
        // alive.
        defer {
            relay.stop()
            programs.forEach { $0.releaseStores() }
        }
        begin()
        for step in steps where checker.violations.isEmpty {
            advance(by: .milliseconds(step.pause))
            checker.note("step \(step), after \(world.executor.count) pieces")
            perform(step)
        }
        if checker.violations.isEmpty { end() }
        return outcome
    }

    private var outcome: Outcome {
        let state = checker.state.withLock { ($0.violations, $0.trace, $0.hash.sum, $0.requests, $0.commits) }
        return Outcome(
            violations: state.0,
            trace: state.1,
            fingerprint: state.2,
            simulated: clock.now.offset,
            requests: state.3,
            commits: state.4,
            workItems: world.executor.count
        )
    }

    // MARK: Time

    /// Runs all work that is ready; reports a violation for a livelock.
    func runReady(turns: Int = livelockLimit) {
        if !world.executor.runReady(limit: turns), turns == Self.livelockLimit {
            checker.reportViolation("l", "\(turns) work items ran without clock progress")
        }
        // After a power loss the relay cannot continue, even if it has not noticed the loss.
        if relay.wantsRestart || disk?.hasLostPower == true { restartAfterLoss() }
    }

    func advance(by duration: Duration) {
        let end = clock.now.advanced(by: duration)
        runReady()
        while let next = clock.nextDeadline, next <= end, checker.violations.isEmpty {
            clock.advance(by: clock.now.duration(to: next))
            runReady()
        }
        clock.advance(by: clock.now.duration(to: end))
        runReady()
        checker.checkNotices()
    }

    /// Advances the clock until no device has unfinished work.
    func settle(_ what: String) {
        let end = clock.now.advanced(by: Self.settleLimit)
        let bench = SimulatedProcess("judge", on: world.executor)
        while checker.violations.isEmpty {
            runReady()
            guard let left = pending(bench), !left.isEmpty else { return }
            guard let next = clock.nextDeadline, next <= end else {
                checker.reportViolation("b", "\(what): unfinished after \(Self.settleLimit): \(left)")
                return
            }
            clock.advance(by: clock.now.duration(to: next))
            checker.checkNotices()
        }
    }

    /// The unfinished work, which a task collects from the actors.
    private func pending(_ bench: SimulatedProcess) -> [String]? {
        let box = Box()
        let world = world
        Task(executorPreference: bench) { await box.put(world.pendingWork()) }
        runReady()
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
        clients = [("alice", "hand"), ("bob", "hand"), ("alice", "left hand"), ("erin", "hand")].map { user, name in
            APIClient(relay.device(of: user, named: name, encryptionKey: user == "alice" ? key : nil), checker: checker)
        }
        for user in users {
            let device = relay.device(of: user, named: "caller")
            let box = Box()
            Task(executorPreference: device.process) {
                box.put([(try? await device.container.userRecordID().recordName) ?? ""])
            }
            advance(by: .seconds(1))
            people[user] = box.value?.first
        }
        // The earliest backup, from before any user creates, shares or subscribes to anything.
        backUp()
        checker.people.withLock { $0 = people }
        checker.state.withLock { $0.isolatedUser = people["erin"] ?? "" }
        programs = scenario.kind == .mirrors ? ["phone", "laptop", "tablet"].map(linkedMirror) : everything()
        clients[0].makeZones()
        settle("the beginning")
        for program in programs { program.device.network.faultRates = scenario.faultRates }
        for client in clients { client.device.network.faultRates = scenario.faultRates }
    }

    private func everything() -> [any Program] {
        var programs = [engine("alice", "phone"), engine("alice", "laptop"), engine("bob", "phone")]
        programs.append(
            WebProgram(relay.device(of: "alice", named: "web"), userName: people["alice"] ?? "", checker: checker)
        )
        if scenario.hasMirrors {
            programs += [
                mirror("carol", "phone", .own), mirror("carol", "laptop", .sharing), mirror("dave", "phone", .sharing),
            ]
            if scenario.hasPublicMirrors {
                programs += [mirror("carol", "board", .publicDatabase), mirror("dave", "board", .publicDatabase)]
            }
        }
        return programs
    }

    private func linkedMirror(_ name: String) -> any Program {
        // Only policies that resolve conflicts; `error` leaves them to the user.
        let policies = MergePolicy.allCases.filter { $0 != .error }
        let policy = policies[Int(scenario.seed % UInt64(policies.count))]
        return LinkedProgram(
            relay.device(of: "carol", named: name),
            policy,
            userName: people["carol"] ?? "",
            checker: checker
        )
    }

    private func engine(_ user: String, _ name: String) -> any Program {
        EngineProgram(relay.device(of: user, named: name), userName: people[user] ?? "", checker: checker)
    }

    private func mirror(_ user: String, _ name: String, _ kind: MirrorProgram.Kind) -> any Program {
        MirrorProgram(relay.device(of: user, named: name), kind, userName: people[user] ?? "", checker: checker)
    }

    /// Ends all faults, and checks that all programs reach the relay's state.
    private func end() {
        checker.note("calm")
        endFaults()
        settle("after the faults")
        if scenario.kind == .mirrors {
            // A new device has only the relay's data, so differences reveal local-only data on the others.
            programs.append(linkedMirror("new phone"))
            settle("a new device")
        }
        // From here on, programs learn of changes through notices only.
        for (index, program) in programs.enumerated() { program.edit(0, "last\(index)", "a", "last \(index)") }
        settle("the last changes")
        audit()
        lookAtPictures()
        for program in programs { (program as? WebProgram)?.poll() }
        settle("the last look")
        compare()
        checkBounds()
    }

    private func endFaults() {
        disk?.heal()
        relay.clockError = .zero
        startRelay()
        restoreLimits()
        for program in programs { world.executor.wake(program.device.process) }
        // Another user may have been about to sign in while the device slept.
        runReady()
        for program in programs {
            program.device.network.faultRates = nil
            program.device.clockError = .zero
            program.device.network.heal()
            (program as? EngineProgram)?.perform(.resume, on: nil, clock: clock)
            signIn(program, as: program.device.user ?? "")
            // Programs do not know that notices were dropped; a reconnect makes them fetch.
            if scenario.faultRates.dropsNotice > 0 { program.device.network.dropSockets() }
        }
        for client in clients { client.device.network.faultRates = nil }
        if scenario.restoresBackups || steps.contains(where: { $0.action == .deleteSharedZone }) {
            clients[0].makeZonesAgain()
        }
        runReady()
        // Only changes that a limit or a missing session rejected are retried here; all others must be sent
        // automatically.
        let mustAsk = steps.contains { $0.action.isAboutAccounts || $0.action.isAboutLimits }
        if mustAsk { programs.forEach { $0.retry() } }
    }
}

/// A fixed encryption key.
private struct FixedKey: EncryptionKeyProvider {
    func userKey() async throws -> Data { Data(repeating: 7, count: 32) }
}

/// Checks at the end of a run, when all faults are over.
extension Simulation {
    /// Fetches with some of the tokens issued so far, with various page sizes.
    func audit() {
        let bench = SimulatedProcess("auditor", on: world.executor)
        let (relay, checker) = (relay, checker)
        let tokenReplays = checker.tokenReplays(4) { Int(self.random.number() % UInt64($0)) }
        let names = Dictionary(uniqueKeysWithValues: people.map { ($0.value, $0.key) })
        Task(executorPreference: bench) {
            for question in tokenReplays {
                guard let user = names[question.user] else { continue }
                await question.ask(relay, as: user, checker)
            }
        }
        runReady()
    }

    /// Checks that exactly the users who may see a picture can download it.
    func lookAtPictures() {
        let bench = SimulatedProcess("viewer", on: world.executor)
        let (relay, checker) = (relay, checker)
        let users = ["alice", "bob", "erin"]
        Task(executorPreference: bench) {
            for picture in checker.pictures {
                for user in users { await checker.look(at: picture.record, in: picture.zone, as: user, relay) }
            }
        }
        runReady()
        for _ in 0..<3 { checker.recheckAsset { Int(random.number() % UInt64($0)) } }
    }

    /// Checks that the number of timers and connections does not grow with the number of steps.
    func checkBounds() {
        if world.executor.offThreadItems > 0 {
            checker.reportViolation(
                "b",
                "\(world.executor.offThreadItems) work items came from other threads: the run is not repeatable"
            )
        }
        let sleepers = clock.sleeperCount
        if sleepers > 60 + 20 * programs.count + 8 * steps.count {
            checker.reportViolation("l", "\(sleepers) sleepers are left")
        }
        let sockets = checker.state.withLock { $0.sockets.count }
        if relay.connectionCount > sockets {
            checker.reportViolation(
                "l",
                "the relay has \(relay.connectionCount) notice connections, but only \(sockets) are open"
            )
        }
    }

    /// Whether steps discard data; then counters may lose increments, and concurrent removals of links may be lost too.
    private var losesData: Bool { steps.contains { $0.action.losesData } }

    /// Checks that each increment of a counter, on any device, is counted once.
    private func checkScores(_ snapshot: StoreSnapshot) {
        let programs = programs.compactMap { $0 as? LinkedProgram }
        guard !losesData else { return }
        guard let scores = programs.first?.scores(in: snapshot) else { return }
        let counted = programs.reduce(into: [:]) { $0.merge($1.counts, uniquingKeysWith: +) }
        if scores != counted { checker.reportViolation("b", "the relay's counters are \(scores); expected \(counted)") }
    }

    /// Checks that each object that a mirror's user created, and no user deleted, is in some zone of the relay.
    private func checkKept(_ snapshot: StoreSnapshot) {
        let mirrors = programs.compactMap { $0 as? MirrorProgram }.filter { $0.kind != .publicDatabase }
        guard !losesData, !steps.contains(where: { $0.action.isAboutAccounts }) else { return }
        let deleted = mirrors.reduce(into: Set<String>()) { $0.formUnion($1.deleted) }
        let names = snapshot.zones.values.reduce(into: Set<String>()) { $0.formUnion($1.records.keys) }
        for mirror in mirrors {
            for record in mirror.made.subtracting(deleted).subtracting(names).sorted() {
                checker.reportViolation(
                    "a",
                    "\(record), made on \(mirror.device.user ?? "")'s \(mirror.device.name), is lost"
                )
            }
        }
    }

    func compare() {
        let snapshot = checker.snapshot
        checkScores(snapshot)
        checkKept(snapshot)
        for (index, program) in programs.enumerated() {
            let name = "\(program.device.user ?? "")'s \(program.device.name) (program \(index))"
            if !program.unsent().isEmpty { checker.reportViolation("b", "\(name) has not sent \(program.unsent())") }
            for pair in (program as? LinkedProgram)?.orphans(in: snapshot) ?? [] where !losesData {
                checker.reportViolation("b", "the relay has \(pair), but not both ends of that link")
            }
            guard let localRecords = program.localRecords() else {
                checker.reportViolation("b", "\(name) cannot be read")
                continue
            }
            let expected = program.expected(from: snapshot)
            for zone in Set(localRecords.keys).union(expected.keys).sorted(by: { $0.description < $1.description }) {
                let (there, records) = (expected[zone] ?? [:], localRecords[zone] ?? [:])
                if localRecords[zone] == nil { checker.reportViolation("b", "\(name) does not have \(zone)") }
                for record in Set(there.keys).union(records.keys).sorted()
                where !record.hasPrefix("zonecast.key") && !record.hasPrefix("pic") {
                    let mine = records[record]?.filter { $0.key != "secret" }
                    let theirs = there[record]?.fields
                    let known = theirs?.filter { $0.key != "CD_entityName" && $0.key != "secret" }
                    if mine != known {
                        checker.reportViolation(
                            "b",
                            "\(record) in \(zone) is \(mine.map { "\($0)" } ?? "not there") on \(name), and \(known.map { "\($0)" } ?? "not there") on the relay"
                        )
                    }
                }
            }
            if !snapshot.zones.values.contains(where: { $0.records.keys.contains { $0.hasSuffix("last\(index)") } }) {
                checker.reportViolation("b", "\(name)'s last change is not on the relay")
            }
        }
    }
}
