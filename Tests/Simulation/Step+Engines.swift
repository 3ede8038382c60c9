import ZoneTesting

extension Step {
    /// An explicit action of a program on its sync engines.
    enum EngineDeed: Hashable, Sendable {
        /// An immediate fetch, as with pull to refresh.
        case fetch
        case fetchOthers
        /// An immediate send, as before the program enters the background.
        case send
        case sendOthers
        case sendRecord(Int)
        case cancel
        /// Replaces the running engine with a new one.
        case renew
        /// Pauses the sync of a zone.
        case pause
        case resume
        case atomic(Bool)
        /// Delays the handling of each event by this many milliseconds.
        case dawdle(Int)
        /// Deletes the zone.
        case endZone
    }
}

extension Scenario {
    /// Returns the steps with engine actions added in half of the runs.
    ///
    /// Uses a generator of its own, so that the seed's other steps do not change.
    func withEngineDeeds(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0xE2_614E_5A1D).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        guard kind == .everything, pick(2) == 0 else { return steps }
        var steps = steps
        for number in 0..<pick(14) {
            let (zone, kind) = (pick(3) == 0 ? nil : pick(2), engineDeed(pick(20), pick(5)))
            // Zone 0 is never deleted: at the end all programs write to it, even those that create no zones.
            let deed = Step.Deed.engine(program: pick(3), zone: kind == .endZone ? 1 : zone, kind)
            let pause = Int64.random(in: 0...(pick(3) == 0 ? 2_000 : 200), using: &random)
            steps.insert(Step(pause: pause, deed: deed, number: 2_000 + number), at: pick(steps.count + 1))
        }
        return steps
    }

    /// Returns the steps with sleeping devices added in a third of the runs, from a generator of its own.
    func withSleep(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0x51EE_9A1D).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        guard pick(3) == 0 else { return steps }
        var steps = steps
        for number in 0..<1 + pick(5) {
            let (program, first) = (pick(programCount), pick(steps.count + 1))
            // In the middle of the work that the step before has started.
            let fall = Step(
                pause: Int64(pick(120)),
                deed: .sleep(program: program, isOver: false),
                number: 3_000 + 2 * number
            )
            steps.insert(fall, at: first)
            let length = Int64(pick(4) == 0 ? pick(3_600_000) : pick(3_000))
            let rise = Step(pause: length, deed: .sleep(program: program, isOver: true), number: 3_001 + 2 * number)
            steps.insert(rise, at: min(steps.count, first + 1 + pick(6)))
        }
        return steps
    }

    private func engineDeed(_ kind: Int, _ record: Int) -> Step.EngineDeed {
        switch kind {
        case 0, 1, 2: .fetch
        case 3: .fetchOthers
        case 4, 5, 6: .send
        case 7: .sendOthers
        case 8: .sendRecord(record)
        case 9, 10, 11: .cancel
        case 12: .renew
        case 13: .pause
        case 14: .resume
        case 15, 16: .atomic(record < 4)
        case 17, 18: .dawdle(record * record * 90)
        default: .endZone
        }
    }
}
