import Foundation
import Synchronization
import ZoneTesting

extension Simulation {
    private static let fields = ["a", "b"]

    func perform(_ step: Step) {
        let value = "~\(step.number)~"
        switch step.deed {
        case .edit(let program, let zone, let record, let field):
            programs[program].edit(zone, "r\(record)", Self.fields[field], value)
        case .editTwice(let program, let zone, let record, let turns):
            programs[program].edit(zone, "r\(record)", "a", value)
            workOff(turns: turns)
            programs[program].edit(zone, "r\(record)", "a", "~\(step.number)+~")
        case .addField(let program, let zone, let record) where program < 3:
            programs[program].edit(zone, "r\(record)", "new\(step.number % 3)", value)
        case .addField: break
        case .delete(let program, let zone, let record): programs[program].delete(zone, "r\(record)")
        case .cut(let program): programs[program].device.network.cut()
        case .heal(let program): programs[program].device.network.heal()
        case .dropSockets(let program): programs[program].device.network.dropSockets()
        case .crash(let program, let turns):
            workOff(turns: turns)
            restart(program)
        case .crashInFetch(let program, let turns): crashInFetch(program, turns)
        case .restartRelay: attempt { try relay.restart() }
        case .killRelay(let turns):
            workOff(turns: turns)
            relay.kill()
            attempt { try relay.start() }
        case .expireTokens:
            judge.state.withLock { $0.epoch += 1 }
            attempt { try relay.expireChangeTokens() }
        case .fillQuota: relay.limits.privateBytes = 0
        case .emptyQuota:
            relay.emptyQuota()
            programs.forEach { $0.retry() }
        default: performByHand(step, value)
        }
    }

    private func performByHand(_ step: Step, _ value: String) {
        let (alice, bob) = (hands[0], hands[1])
        let removal = Judge.Removal(
            user: people["bob"] ?? "",
            zone: ZoneName(owner: people["alice"] ?? "", name: "Z0")
        )
        switch step.deed {
        case .group(let hand, let zone): hands[hand * 2].writeGroup(zone, value, looksFirst: hand == 1)
        case .race(let record): alice.race(record, value)
        case .move: alice.move()
        case .makeZone(let zone): alice.makeZone(zone)
        case .deleteZone: alice.deleteZone()
        case .share: alice.openShare()
        case .join: bob.join(alice, removal)
        case .remove: alice.closeShare(removal)
        case .post(let record): bob.post(record, value)
        case .pry: bob.pry(at: people["alice"] ?? "")
        default: break
        }
    }

    private func attempt(_ body: () throws -> Void) {
        do {
            try body()
        } catch {
            judge.accuse("k", "the relay does not start: \(error)")
        }
    }

    /// Ends a program where it stands, and begins it anew.
    private func restart(_ number: Int) {
        let program = programs[number]
        let (weather, isCut) = (program.device.network.weather, program.device.network.isCut)
        attempt {
            let device = try program.device.restarted()
            device.network.weather = weather
            if isCut { device.network.cut() }
            program.begin(on: device)
        }
    }

    /// Waits for the program's next page and ends it while that is being taken in.
    private func crashInFetch(_ number: Int, _ turns: Int) {
        let network = programs[number].device.network
        let before = network.answerCount(of: "changes/zone")
        for _ in 0..<400 {
            workOff(turns: 1)
            if network.answerCount(of: "changes/zone") > before { break }
            guard world.stage.isAtRest else { continue }
            guard let next = clock.nextDeadline, clock.now.duration(to: next) < .seconds(3) else { break }
            clock.advance(by: clock.now.duration(to: next))
        }
        workOff(turns: turns)
        restart(number)
    }
}
