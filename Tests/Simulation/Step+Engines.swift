import ZoneTesting

extension Step {
    /// What a program does with its sync engines beside leaving them alone.
    enum EngineDeed: Hashable, Sendable {
        /// As by a pull at a list: what there is is wanted now.
        case fetch
        case fetchOthers
        /// As before the program goes to the background.
        case send
        case sendOthers
        case sendRecord(Int)
        case cancel
        /// Another engine takes the place of the one that is at work.
        case renew
        /// The user switches a zone off.
        case pause
        case resume
        case atomic(Bool)
        /// So long it takes for each event, in milliseconds.
        case dawdle(Int)
        /// The program deletes the zone.
        case endZone
    }
}

extension Scenario {
    /// The same, with what programs do with their engines, in one run of two; drawn apart, so that a seed's other steps are
    /// what they are.
    func withEngineDeeds(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0xE2_614E_5A1D).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        guard kind == .everything, pick(2) == 0 else { return steps }
        var steps = steps
        for number in 0..<pick(14) {
            let (zone, kind) = (pick(3) == 0 ? nil : pick(2), engineDeed(pick(20), pick(5)))
            // All write to the first zone in the end, also those that make none.
            let deed = Step.Deed.engine(program: pick(3), zone: kind == .endZone ? 1 : zone, kind)
            let pause = Int64.random(in: 0...(pick(3) == 0 ? 2_000 : 200), using: &random)
            steps.insert(Step(pause: pause, deed: deed, number: 2_000 + number), at: pick(steps.count + 1))
        }
        return steps
    }

    /// The same, with devices that sleep for a while, in one run of three; drawn apart likewise.
    func withSleep(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0x51EE_9A1D).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        guard pick(3) == 0 else { return steps }
        var steps = steps
        for number in 0..<1 + pick(5) {
            let (program, first) = (pick(programCount), pick(steps.count + 1))
            // Amid what the step before has begun.
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
