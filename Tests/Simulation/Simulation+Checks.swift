import Synchronization
import ZoneTesting

/// Checks at the end of a run, when all faults are over.
extension Simulation {
    /// Fetches with some of the tokens issued so far, with various page sizes.
    func audit() {
        let bench = Party("auditor", on: world.stage)
        let (relay, judge) = (relay, judge)
        let questions = judge.questions(4) { Int(self.chance.number() % UInt64($0)) }
        let names = Dictionary(uniqueKeysWithValues: people.map { ($0.value, $0.key) })
        Task(executorPreference: bench) {
            for question in questions {
                guard let user = names[question.user] else { continue }
                await question.ask(relay, as: user, judge)
            }
        }
        workOff()
    }

    /// Checks that exactly the users who may see a picture can download it.
    func lookAtPictures() {
        let bench = Party("viewer", on: world.stage)
        let (relay, judge) = (relay, judge)
        let users = ["alice", "bob", "erin"]
        Task(executorPreference: bench) {
            for picture in judge.pictures {
                for user in users { await judge.look(at: picture.record, in: picture.zone, as: user, relay) }
            }
        }
        workOff()
        for _ in 0..<3 { judge.lookAgain { Int(chance.number() % UInt64($0)) } }
    }

    /// Checks that the number of timers and connections does not grow with the number of steps.
    func checkBounds() {
        if world.stage.strays > 0 {
            judge.accuse(
                "b",
                "\(world.stage.strays) work items came from other threads: the run is not repeatable"
            )
        }
        let sleepers = clock.sleeperCount
        if sleepers > 60 + 20 * programs.count + 8 * steps.count { judge.accuse("l", "\(sleepers) sleepers are left") }
        let sockets = judge.state.withLock { $0.sockets.count }
        if relay.connectionCount > sockets {
            judge.accuse(
                "l",
                "the relay has \(relay.connectionCount) notice connections, but only \(sockets) are open"
            )
        }
    }

    /// Whether steps discard data; then counters may lose increments, and concurrent removals of links may be lost too.
    private var losesData: Bool { steps.contains { $0.deed.losesData } }

    /// Checks that each increment of a counter, on any device, is counted once.
    private func checkScores(_ truth: Truth) {
        let programs = programs.compactMap { $0 as? LinkedProgram }
        guard !losesData else { return }
        guard let scores = programs.first?.scores(in: truth) else { return }
        let counted = programs.reduce(into: [:]) { $0.merge($1.counts, uniquingKeysWith: +) }
        if scores != counted { judge.accuse("b", "the relay's counters are \(scores); expected \(counted)") }
    }

    /// Checks that each object that a mirror's user created, and no user deleted, is in some zone of the relay.
    private func checkKept(_ truth: Truth) {
        let mirrors = programs.compactMap { $0 as? MirrorProgram }.filter { $0.kind != .everybodys }
        guard !losesData, !steps.contains(where: { $0.deed.isAboutAccounts }) else { return }
        let deleted = mirrors.reduce(into: Set<String>()) { $0.formUnion($1.deleted) }
        let names = truth.zones.values.reduce(into: Set<String>()) { $0.formUnion($1.records.keys) }
        for mirror in mirrors {
            for record in mirror.made.subtracting(deleted).subtracting(names).sorted() {
                judge.accuse("a", "\(record), made on \(mirror.device.user ?? "")'s \(mirror.device.name), is lost")
            }
        }
    }

    func compare() {
        let truth = judge.truth
        checkScores(truth)
        checkKept(truth)
        for (index, program) in programs.enumerated() {
            let name = "\(program.device.user ?? "")'s \(program.device.name) (program \(index))"
            if !program.unsent().isEmpty { judge.accuse("b", "\(name) has not sent \(program.unsent())") }
            for pair in (program as? LinkedProgram)?.orphans(in: truth) ?? [] where !losesData {
                judge.accuse("b", "the relay has \(pair), but not both ends of that link")
            }
            guard let holdings = program.holdings() else {
                judge.accuse("b", "\(name) cannot be read")
                continue
            }
            let expected = program.expected(from: truth)
            for zone in Set(holdings.keys).union(expected.keys).sorted(by: { $0.description < $1.description }) {
                let (there, records) = (expected[zone] ?? [:], holdings[zone] ?? [:])
                if holdings[zone] == nil { judge.accuse("b", "\(name) does not have \(zone)") }
                for record in Set(there.keys).union(records.keys).sorted()
                where !record.hasPrefix("zonecast.key") && !record.hasPrefix("pic") {
                    let mine = records[record]?.filter { $0.key != "secret" }
                    let theirs = there[record]?.fields
                    let known = theirs?.filter { $0.key != "CD_entityName" && $0.key != "secret" }
                    if mine != known {
                        judge.accuse(
                            "b",
                            "\(record) in \(zone) is \(mine.map { "\($0)" } ?? "not there") on \(name), and \(known.map { "\($0)" } ?? "not there") on the relay"
                        )
                    }
                }
            }
            if !truth.zones.values.contains(where: { $0.records.keys.contains { $0.hasSuffix("last\(index)") } }) {
                judge.accuse("b", "\(name)'s last change is not on the relay")
            }
        }
    }
}
