import ZoneTesting

extension Step {
    /// An action on the zones of mirrors.
    enum MirrorDeed: Hashable, Sendable {
        /// The participant leaves.
        case leave
        /// The owner makes the public link read-only or read-write.
        case restrict(isReadOnly: Bool)
        /// The owner stops sharing, which moves all objects back to the owner's zone.
        case stopSharing
        /// The user erases the application's data on one device.
        case erase(program: Int)
        /// Another program, or the console, deletes the zone.
        case deleteZone
        /// The encryption key is lost, and the database is recreated from the devices' data.
        case resetKeys(program: Int)
    }
}

extension Step.Deed {
    /// Whether the action removes data that no user has deleted.
    var losesData: Bool {
        switch self {
        case .goBack, .returnDevice, .switchUser, .mirror(.erase), .mirror(.deleteZone), .mirror(.resetKeys): true
        default: false
        }
    }
}

extension Scenario {
    /// Returns the steps with deletions whose tombstones are purged soon, added in a third of the runs.
    ///
    /// Uses a generator of its own, so that the seed's other steps do not change.
    func withForgetting(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0x70_4B57_0E5E).generator
        guard Int.random(in: 0..<3, using: &random) == 0 else { return steps }
        var steps = steps
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let (program, record) = (
                Int.random(in: 0..<programCount, using: &random), Int.random(in: 0..<5, using: &random)
            )
            let deeds: [Step.Deed] = [
                .delete(program: program, zone: Int.random(in: 0..<2, using: &random), record: record),
                .forgetTombstones,
            ]
            let place = Int.random(in: stepCount / 4...steps.count, using: &random)
            let some = deeds.enumerated().map { index, deed in
                Step(pause: Int64.random(in: 0...4_000, using: &random), deed: deed, number: steps.count + index)
            }
            steps.insert(contentsOf: some, at: place)
        }
        return steps
    }

    /// Returns the steps with rare actions added, each with the steps that it requires.
    ///
    /// Uses a generator of its own, so that the seed's other steps do not change.
    func withRareDeeds(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0x5A_FE1E_A7E5).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        var steps = steps
        for round in 0..<pick(4) {
            let kind = goesBack && pick(2) == 0 ? .relay : kinds[pick(kinds.count)]
            let deeds = rareDeeds(kind, pick(4), record: pick(5))
            var place = pick(steps.count + 1)
            for (index, deed) in deeds.enumerated() {
                // Mostly long enough for the earlier steps to finish.
                let pause = Int64.random(in: pick(4) == 0 ? 0...500 : 1_000...6_000, using: &random)
                steps.insert(Step(pause: pause, deed: deed, number: 1_000 + 10 * round + index), at: place)
                place = min(steps.count, place + 1 + pick(2))
            }
        }
        return steps
    }

    private enum RareKind { case relay, device, account, shares, sharingMirrors, mirrors }

    private var kinds: [RareKind] {
        if kind == .mirrors { return [.mirrors, .device, .account] }
        return hasMirrors
            ? [.device, .account, .shares, .sharingMirrors, .sharingMirrors, .mirrors] : [.device, .shares]
    }

    private func rareDeeds(_ kind: RareKind, _ turn: Int, record: Int) -> [Step.Deed] {
        let (bob, carol, dave) = (2, 5, 6)
        let edit = { (program: Int) in Step.Deed.edit(program: program, zone: 1, record: record, field: 0) }
        switch kind {
        case .relay:
            return turn == 0 ? [.goBack] : [.backUp, edit(turn), .poll, .goBack]
        case .device:
            let (program, other) = (record % programCount, turn)
            return [.edit(program: program, zone: 1, record: turn, field: 1), .keepDevice(program: program)]
                + [edit(program), edit(other), .poll, .returnDevice(program: program)]
        case .account:
            // Mirrors only: engines have account steps of their own.
            let program = self.kind == .mirrors ? turn % 3 : carol - turn % 2
            return [edit(program), .switchUser(program: program, isBack: false), edit(program)]
                + [.switchUser(program: program, isBack: true), edit(program)]
        case .shares:
            let deeds: [Step.Deed] =
                switch turn {
                case 0 where record % 2 == 0: [.deleteSharedZone, .makeZone(zone: 0), .share, .join]
                case 0: [.leave]
                case 1: [.leave, .join, edit(bob)]
                case 2: [.restrict(isReadOnly: true), .delete(program: bob, zone: 1, record: record)]
                default: [.restrict(isReadOnly: true), edit(bob), .restrict(isReadOnly: false)]
                }
            return [.share, .join, edit(bob)] + deeds + [edit(bob)]
        case .sharingMirrors:
            let end: [Step.Deed] =
                switch turn {
                case 0: [.mirror(.leave)]
                case 1: [.mirror(.erase(program: carol))]
                case 2: [.mirror(.restrict(isReadOnly: true)), edit(dave), .mirror(.restrict(isReadOnly: false))]
                default: [.mirror(.stopSharing)]
                }
            return [edit(carol), .shareItem(record: record), .joinItem, edit(dave)] + end + [edit(dave)]
                + (record < 3 ? [.shareItem(record: record), .joinItem, edit(carol)] : [])
        case .mirrors:
            // In runs with sharing, one name can be in two zones, and after a reset no device knows which record was
            // moved.
            guard self.kind == .mirrors else { return [.mirror(.erase(program: carol - record % 2))] }
            return [
                turn < 2
                    ? .mirror(.resetKeys(program: record))
                    : .mirror(turn == 2 ? .deleteZone : .erase(program: record))
            ]
        }
    }
}
