import ZoneTesting

/// One action in a run, with its time.
package struct Step: Hashable, Sendable, CustomStringConvertible {
    enum Action: Hashable, Sendable {
        /// A program's user changes a field of a record, which is created if it is missing.
        case edit(program: Int, zone: Int, record: Int, field: Int)
        case delete(program: Int, zone: Int, record: Int)
        /// Edits the same field twice with a few work items in between, so that the first edit may still be in
        /// progress.
        case editTwice(program: Int, zone: Int, record: Int, turns: Int)
        case cut(program: Int)
        case heal(program: Int)
        case dropSockets(program: Int)
        /// Kills the program after `turns` work items, and restarts it.
        case crash(program: Int, turns: Int)
        /// Kills the program a few work items after the response to its next fetch.
        case crashInFetch(program: Int, turns: Int)
        case restartRelay
        case killRelay(turns: Int)
        case expireTokens
        /// The relay purges all tombstones.
        case forgetTombstones
        case fillQuota
        case emptyQuota
        /// Saves three records that always change together.
        case group(client: Int, zone: Int)
        /// Sends two concurrent updates of a record, both based on the same version.
        case race(record: Int)
        /// Moves the family of records to the other zone.
        case move
        case makeZone(zone: Int)
        case deleteZone
        case share
        case join
        case remove
        case post(record: Int)
        case addField(program: Int, zone: Int, record: Int)
        /// A user without access requests invisible and missing records.
        case probeAccess
        /// The owner stops sharing.
        case endShare
        case tree(TreeAction)
        /// Saves a value that only its user can read.
        case saveEncrypted(record: Int)
        /// The plain client fetches changes.
        case poll
        case shareItem(record: Int)
        case joinItem
        /// Another user signs in on a program's device, or the original user returns.
        case switchUser(program: Int, isBack: Bool)
        case expireSignIn(program: Int)
        case relayClock(hours: Int)
        case deviceClock(program: Int, hours: Int)
        case alterSchema(isPromotion: Bool)
        case breakDisk(SimulatedDisk.Fault)
        case mendDisk
        case picture(PictureAction)
        case link(LinkAction)
        case lower(Limit)
        case relate(program: Int, Relation)
        /// Increments a counter that all devices share.
        case count(program: Int)
        /// The owner makes the public link read-only or read-write.
        case restrict(isReadOnly: Bool)
        /// The owner deletes the shared zone.
        case deleteSharedZone
        /// The participant leaves the share.
        case leave
        case mirror(MirrorAction)
        /// Without a zone, the action affects all zones.
        case engine(program: Int, zone: Int?, EngineAction)
        /// Suspends the device in the middle of its work, or wakes it.
        case sleep(program: Int, isOver: Bool)
        case backUp
        /// Restores the latest backup.
        case restoreBackup
        /// Backs up the device with its program's state.
        case backUpDevice(program: Int)
        /// Restores the device's backup, as a phone from its owner's computer.
        case restoreDevice(program: Int)
        /// Makes many edits, and triggers an interruption `turns` work items later, while they are being sent.
        case burst(program: Int, zone: Int, turns: Int, Interruption)

        /// Whether programs may need a retry after the account is restored.
        var isAboutAccounts: Bool {
            switch self {
            case .switchUser, .expireSignIn, .burst(_, _, _, .otherUser): true
            default: false
            }
        }

        /// Whether changes that a limit rejected may need a retry.
        var isAboutLimits: Bool {
            switch self {
            case .fillQuota, .lower, .burst(_, _, _, .quota), .burst(_, _, _, .limit): true
            default: false
            }
        }
    }

    /// A limit that the operator lowers while the relay runs.
    enum Limit: Hashable, Sendable {
        case items(Int)
        case zones(Int)
        case recordBytes(Int)
    }

    /// An event in the middle of a batch.
    enum Interruption: Hashable, Sendable {
        case otherUser
        /// The owner closes the share of which the program's user is a participant.
        case removal
        case quota
        case limit(Limit)
    }

    /// An action on a shared hierarchy.
    enum TreeAction: Hashable, Sendable {
        case share
        case join
        case close
        case end
        case edit(String)
        case editAsGuest(String)
        case reparent(String)
    }

    /// An action on assets.
    enum PictureAction: Hashable, Sendable {
        case put(Int, zone: Int, content: Int)
        case copy(Int, zone: Int, from: Int)
        case delete(Int, zone: Int)
        case look
        /// The relay removes all unused assets, whatever their age.
        case clearAway
        case claim(Int)
    }

    /// An action on one-time links.
    enum LinkAction: Hashable, Sendable {
        case offer
        /// Bob and erin each open a link, possibly the same one.
        case take(bob: Int?, erin: Int?)
        case withdraw
    }

    /// Returns the step with program numbers reduced to the existing programs.
    func aimed(among count: Int) -> Step {
        var step = self
        switch action {
        case .edit(let program, let zone, let record, let field):
            step.action = .edit(program: program % count, zone: zone, record: record, field: field)
        case .delete(let program, let zone, let record):
            step.action = .delete(program: program % count, zone: zone, record: record)
        case .editTwice(let program, let zone, let record, let turns):
            step.action = .editTwice(program: program % count, zone: zone, record: record, turns: turns)
        default: break
        }
        return step
    }

    /// Milliseconds since the previous step.
    var pause: Int64
    var action: Action
    /// Identifies the values that this step writes.
    var number: Int

    package var description: String { "+\(pause) ms \(action) #\(number)" }
}

extension Scenario {
    /// The steps of this seed.
    package func steps() -> [Step] {
        var random = SeededRandom(seed: seed ^ 0xC0FF_EE00).generator
        let steps = (0..<stepCount).map { number in
            let isPatient = Int.random(in: 0..<20, using: &random) == 0
            let pause = Int64.random(in: 0...(isPatient ? 120_000 : 2_500), using: &random)
            return Step(
                pause: pause,
                action: kind == .mirrors ? mirrorAction(&random) : action(&random),
                number: number
            )
        }
        return withSleep(withEngineActions(withRareActions(withForgetting(steps))))
    }

    private func action(_ random: inout SeededRandom.Generator) -> Step.Action {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        let (program, zone, record) = (pick(programCount), pick(2), pick(5))
        switch pick(169) {
        case 0..<30: return .edit(program: program, zone: zone, record: record, field: pick(2))
        case 30..<38: return .delete(program: program, zone: zone, record: record)
        case 38..<48: return .editTwice(program: program, zone: zone, record: record, turns: pick(60))
        case 48..<51: return .cut(program: program)
        case 51..<55: return .heal(program: program)
        case 55..<57: return .dropSockets(program: program)
        case 57..<60: return .crash(program: program, turns: pick(80))
        case 60..<65: return .crashInFetch(program: program, turns: pick(12))
        case 65..<71 where isOnDisk: return relayAction(pick(6), pick(60), &random)
        case 72..<80: return .group(client: pick(2), zone: zone)
        case 80..<84: return .race(record: pick(2))
        case 84..<86: return .move
        case 86: return .makeZone(zone: zone)
        case 87: return .deleteZone
        case 88..<91: return .share
        case 91..<94: return .join
        case 94..<96: return .remove
        case 96: return .endShare
        case 97: return .addField(program: program, zone: zone, record: record)
        case 98: return .probeAccess
        case 99: return .post(record: record)
        case 100..<109: return .tree(treeAction(pick(12), pick(4)))
        case 109..<112: return .crashInFetch(program: pick(3), turns: pick(6))
        case 112: return .expireTokens
        case 113: return .fillQuota
        case 114: return .emptyQuota
        case 115: return .saveEncrypted(record: pick(2))
        case 116..<120: return .poll
        case 120..<122: return .shareItem(record: record)
        case 122: return .joinItem
        case 123: return .switchUser(program: pick(3) / 3 + 1, isBack: false)
        case 124, 125: return .switchUser(program: pick(3) / 3 + 1, isBack: true)
        case 126: return .expireSignIn(program: pick(3))
        case 127: return .relayClock(hours: pick(200_000) - 100_000)
        case 128: return .deviceClock(program: program, hours: pick(200_000) - 100_000)
        case 129: return .alterSchema(isPromotion: pick(3) == 0)
        case 130..<141: return .picture(pictureAction(pick(12), pick(4), pick(4), pick(7)))
        // About ten work items pass until an engine delivers a page to the program.
        case 148..<157: return .crashInFetch(program: pick(3), turns: 6 + pick(8))
        case 141..<148: return .link(linkAction(pick(7), pick(4), pick(4)))
        case 157: return .lower(limit(pick(3), pick(3)))
        case 158..<169: return burst(pick(8), pick(40), limit(pick(3), pick(3)), program, zone)
        default: return .poll
        }
    }

    func relayAction(_ kind: Int, _ turns: Int, _ random: inout SeededRandom.Generator) -> Step.Action {
        switch kind {
        case 0: .restartRelay
        case 1: .killRelay(turns: turns)
        case 2, 3, 4: .breakDisk(SimulatedDisk.Fault(number: turns / 2 + 1, &random))
        default: .mendDisk
        }
    }

    private func pictureAction(_ kind: Int, _ picture: Int, _ zone: Int, _ content: Int) -> Step.PictureAction {
        switch kind {
        case 0..<5: .put(picture, zone: zone, content: content)
        case 5: .copy(picture, zone: zone, from: content % 4)
        case 6: .delete(picture, zone: zone)
        case 7, 8: .look
        case 9, 10: .clearAway
        default: .claim(content)
        }
    }

    private func limit(_ kind: Int, _ size: Int) -> Step.Limit {
        switch kind {
        case 0: .items(1 + size)
        case 1: .zones(size + 1)
        default: .recordBytes(40 << size)
        }
    }

    private func burst(_ kind: Int, _ turns: Int, _ limit: Step.Limit, _ program: Int, _ zone: Int) -> Step.Action {
        switch kind {
        // Program 1's device is used by several users, and program 2 is a participant.
        case 0..<4: .burst(program: 1, zone: zone, turns: turns, .otherUser)
        case 4, 5: .burst(program: 2, zone: 1, turns: turns, .removal)
        case 6: .burst(program: program, zone: zone, turns: turns, .quota)
        default: .burst(program: program, zone: zone, turns: turns, .limit(limit))
        }
    }

    private func linkAction(_ kind: Int, _ one: Int, _ other: Int) -> Step.LinkAction {
        switch kind {
        case 0, 1: .offer
        case 2: .take(bob: one, erin: one)
        case 3: .take(bob: one, erin: other)
        case 4: .take(bob: one, erin: nil)
        case 5: .take(bob: nil, erin: other)
        default: .withdraw
        }
    }

    private func treeAction(_ kind: Int, _ leaf: Int) -> Step.TreeAction {
        let name = ["t0", "t1", "t2", "beside"][leaf]
        switch kind {
        case 0, 1: return .share
        case 2, 3, 4: return .join
        case 5: return .close
        case 6: return .end
        case 7, 8: return .editAsGuest(name)
        case 9: return .reparent(leaf % 2 == 0 ? "t2" : "beside")
        default: return .edit(name)
        }
    }
}

extension Step {
    /// An explicit action of a program on its sync engines.
    enum EngineAction: Hashable, Sendable {
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
        case delayEvents(Int)
        /// Deletes the zone.
        case endZone
    }
}

extension Scenario {
    /// Returns the steps with engine actions added in half of the runs.
    ///
    /// Uses a generator of its own, so that the seed's other steps do not change.
    func withEngineActions(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0xE2_614E_5A1D).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        guard kind == .everything, pick(2) == 0 else { return steps }
        var steps = steps
        for number in 0..<pick(14) {
            let (zone, kind) = (pick(3) == 0 ? nil : pick(2), engineAction(pick(20), pick(5)))
            // Zone 0 is never deleted: at the end all programs write to it, even those that create no zones.
            let action = Step.Action.engine(program: pick(3), zone: kind == .endZone ? 1 : zone, kind)
            let pause = Int64.random(in: 0...(pick(3) == 0 ? 2_000 : 200), using: &random)
            steps.insert(Step(pause: pause, action: action, number: 2_000 + number), at: pick(steps.count + 1))
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
                action: .sleep(program: program, isOver: false),
                number: 3_000 + 2 * number
            )
            steps.insert(fall, at: first)
            let length = Int64(pick(4) == 0 ? pick(3_600_000) : pick(3_000))
            let rise = Step(pause: length, action: .sleep(program: program, isOver: true), number: 3_001 + 2 * number)
            steps.insert(rise, at: min(steps.count, first + 1 + pick(6)))
        }
        return steps
    }

    private func engineAction(_ kind: Int, _ record: Int) -> Step.EngineAction {
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
        case 17, 18: .delayEvents(record * record * 90)
        default: .endZone
        }
    }
}

extension Scenario {
    /// An action for linked mirrors.
    ///
    /// Few names are used again and again, so that conflicts are likely.
    func mirrorAction(_ random: inout SeededRandom.Generator) -> Step.Action {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        let (program, record, turns) = (pick(programCount), pick(4), pick(60))
        switch pick(100) {
        case 0..<8: return .count(program: program)
        case 8..<40: return .relate(program: program, relation(pick(6), pick(4), pick(4), isEnd: pick(5) == 0))
        case 40..<60: return .delete(program: program, zone: pick(2), record: record)
        case 60..<68: return .edit(program: program, zone: 0, record: record, field: pick(2))
        case 68..<73: return .cut(program: program)
        case 73..<80: return .heal(program: program)
        case 80..<85: return .crash(program: program, turns: turns)
        case 85..<89: return .crashInFetch(program: program, turns: turns % 12)
        case 89, 90: return .dropSockets(program: program)
        case 91..<94 where isOnDisk: return relayAction(pick(6), turns, &random)
        case 94: return .expireTokens
        case 95: return .fillQuota
        case 96: return .emptyQuota
        case 97: return .lower(.items(1 + turns % 3))
        default: return .relate(program: program, relation(pick(6), pick(4), pick(4), isEnd: true))
        }
    }

    private func relation(_ kind: Int, _ from: Int, _ to: Int, isEnd: Bool) -> Relation {
        Relation(kind: Relation.Kind.allCases[kind], from: from, to: to, isEnd: isEnd)
    }
}

extension Step {
    /// An action on the zones of mirrors.
    enum MirrorAction: Hashable, Sendable {
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

extension Step.Action {
    /// Whether the action removes data that no user has deleted.
    var losesData: Bool {
        switch self {
        case .restoreBackup, .restoreDevice, .switchUser, .mirror(.erase), .mirror(.deleteZone), .mirror(.resetKeys):
            true
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
            let actions: [Step.Action] = [
                .delete(program: program, zone: Int.random(in: 0..<2, using: &random), record: record),
                .forgetTombstones,
            ]
            let place = Int.random(in: stepCount / 4...steps.count, using: &random)
            let some = actions.enumerated().map { index, action in
                Step(pause: Int64.random(in: 0...4_000, using: &random), action: action, number: steps.count + index)
            }
            steps.insert(contentsOf: some, at: place)
        }
        return steps
    }

    /// Returns the steps with rare actions added, each with the steps that it requires.
    ///
    /// Uses a generator of its own, so that the seed's other steps do not change.
    func withRareActions(_ steps: [Step]) -> [Step] {
        var random = SeededRandom(seed: seed ^ 0x5A_FE1E_A7E5).generator
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        var steps = steps
        for round in 0..<pick(4) {
            let kind = restoresBackups && pick(2) == 0 ? .relay : kinds[pick(kinds.count)]
            let actions = rareActions(kind, pick(4), record: pick(5))
            var place = pick(steps.count + 1)
            for (index, action) in actions.enumerated() {
                // Mostly long enough for the earlier steps to finish.
                let pause = Int64.random(in: pick(4) == 0 ? 0...500 : 1_000...6_000, using: &random)
                steps.insert(Step(pause: pause, action: action, number: 1_000 + 10 * round + index), at: place)
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

    private func rareActions(_ kind: RareKind, _ turn: Int, record: Int) -> [Step.Action] {
        let (bob, carol, dave) = (2, 5, 6)
        let edit = { (program: Int) in Step.Action.edit(program: program, zone: 1, record: record, field: 0) }
        switch kind {
        case .relay:
            return turn == 0 ? [.restoreBackup] : [.backUp, edit(turn), .poll, .restoreBackup]
        case .device:
            let (program, other) = (record % programCount, turn)
            return [.edit(program: program, zone: 1, record: turn, field: 1), .backUpDevice(program: program)]
                + [edit(program), edit(other), .poll, .restoreDevice(program: program)]
        case .account:
            // Mirrors only: engines have account steps of their own.
            let program = self.kind == .mirrors ? turn % 3 : carol - turn % 2
            return [edit(program), .switchUser(program: program, isBack: false), edit(program)]
                + [.switchUser(program: program, isBack: true), edit(program)]
        case .shares:
            let actions: [Step.Action] =
                switch turn {
                case 0 where record % 2 == 0: [.deleteSharedZone, .makeZone(zone: 0), .share, .join]
                case 0: [.leave]
                case 1: [.leave, .join, edit(bob)]
                case 2: [.restrict(isReadOnly: true), .delete(program: bob, zone: 1, record: record)]
                default: [.restrict(isReadOnly: true), edit(bob), .restrict(isReadOnly: false)]
                }
            return [.share, .join, edit(bob)] + actions + [edit(bob)]
        case .sharingMirrors:
            let end: [Step.Action] =
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
