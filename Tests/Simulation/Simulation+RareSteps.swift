import Foundation
import Records
import RelayStore
import Synchronization
import ZoneKit
import ZoneTesting

/// Steps that occur at most once or twice in a run.
extension Simulation {
    func performRarely(_ step: Step) {
        switch step.deed {
        case .restrict(let isReadOnly): hands[0].restrict(isReadOnly: isReadOnly)
        case .deleteSharedZone: hands[0].deleteSharedZone(bobsRemoval)
        case .leave: hands[1].leave(bobsRemoval, byZone: step.number % 2 == 0)
        case .mirror(let deed): perform(deed)
        case .engine(let program, let zone, let deed):
            (programs[program % programs.count] as? EngineProgram)?.perform(deed, on: zone, clock: clock)
        case .sleep(let program, let isOver):
            let party = programs[program % programs.count].device.party
            if isOver { world.stage.wake(party) } else { world.stage.sleep(party) }
        case .backUp: backUp()
        case .goBack: goBack()
        case .keepDevice(let program): keep(programs[program % programs.count])
        case .returnDevice(let program): putBack(program % programs.count)
        default: break
        }
    }

    private func perform(_ deed: Step.MirrorDeed) {
        switch deed {
        case .leave: if sharers.count > 1 { sharers[1].leave() }
        case .restrict(let isReadOnly): sharers.first?.restrict(isReadOnly: isReadOnly)
        case .stopSharing: sharers.first?.stopSharing()
        case .deleteZone: (programs.first as? LinkedProgram)?.deleteZone()
        case .erase(let program): (programs[program % programs.count] as? any ErasingProgram)?.erase()
        case .resetKeys(let program): (programs[program % programs.count] as? any ErasingProgram)?.resetKeys()
        }
    }

    // MARK: Backups

    private var backups: String { relay.folder.url.path + "/backups" }

    private var moment: Timestamp { Timestamp(milliseconds: 1_700_000_000_000 + judge.now) }

    /// Creates a backup while the relay runs, as its timer does.
    func backUp() {
        guard scenario.goesBack, relay.isRunning else { return }
        do {
            _ = try Backup.create(of: relay.folder.url.path, in: backups, now: moment)
            judge.state.withLock { $0.doneInBackup = $0.done }
        } catch {
            judge.accuse("k", "the backup cannot be created: \(error)")
        }
    }

    /// Restores the latest backup, as an operator would.
    private func goBack() {
        guard scenario.goesBack, let backup = Backup.all(in: backups).last else { return }
        relay.stop()
        do {
            let chance = chance
            _ = try backup.restore(to: relay.folder.url.path, now: moment, draw: { chance.number() })
            judge.state.withLock { $0.goBack() }
        } catch {
            judge.accuse("k", "the backup cannot be restored: \(error)")
        }
        startRelay()
    }

    // MARK: Devices

    private func copy(of program: any Program) -> URL {
        relay.folder.url.appendingPathComponent("copy of \(program.device.user ?? "") \(program.device.name)")
    }

    /// Copies the device's files, and makes the program copy the rest of its state.
    private func keep(_ program: any Program) {
        attempt {
            let copy = copy(of: program)
            try? FileManager.default.removeItem(at: copy)
            try FileManager.default.copyItem(at: program.device.folder(), to: copy)
            program.keepState()
        }
    }

    private func putBack(_ number: Int) {
        let (program, copy) = (programs[number], copy(of: programs[number]))
        guard FileManager.default.fileExists(atPath: copy.path) else { return }
        restart(number) { device in
            let folder = try device.folder()
            try FileManager.default.removeItem(at: folder)
            try FileManager.default.copyItem(at: copy, to: folder)
            program.putStateBack()
        }
    }
}
