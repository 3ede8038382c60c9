import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import ZoneKit
import ZoneTesting

extension Simulation {
    private static let fields = ["a", "b"]

    func perform(_ step: Step) {
        let value = "~\(step.number)~"
        let step = step.aimed(among: programs.count)
        switch step.action {
        case .edit(let program, let zone, let record, let field):
            programs[program].edit(zone, "r\(record)", Self.fields[field], value)
        case .editTwice(let program, let zone, let record, let turns):
            programs[program].edit(zone, "r\(record)", "a", value)
            runReady(turns: turns)
            programs[program].edit(zone, "r\(record)", "a", "~\(step.number)+~")
        case .addField(let program, let zone, let record) where programs[program] is EngineProgram:
            programs[program].edit(zone, "r\(record)", "new\(step.number % 3)", value)
        case .addField: break
        case .delete(let program, let zone, let record): programs[program].delete(zone, "r\(record)")
        case .cut(let program): programs[program].device.network.cut()
        case .heal(let program): programs[program].device.network.heal()
        case .dropSockets(let program): programs[program].device.network.dropSockets()
        case .crash(let program, let turns):
            runReady(turns: turns)
            restart(program)
        case .crashInFetch(let program, let turns): crashInFetch(program, turns)
        case .restartRelay:
            relay.stop()
            startRelay()
        case .breakDisk(let fault): disk?.arm(fault)
        case .mendDisk:
            disk?.heal()
            startRelay()
        case .alterSchema(let isPromotion): alterSchema("Made\(step.number)", isPromotion: isPromotion)
        case .relayClock(let hours): relay.clockError = .seconds(hours * 3600)
        case .deviceClock(let program, let hours): programs[program].device.clockError = .seconds(hours * 3600)
        case .switchUser(let program, let isBack):
            signIn(programs[program], as: isBack ? programs[program].device.user ?? "" : "erin")
        case .expireSignIn(let program): expireSignIn(programs[program])
        case .killRelay(let turns):
            runReady(turns: turns)
            relay.kill()
            startRelay()
        case .expireTokens:
            do {
                try relay.expireChangeTokens()
                checker.state.withLock { $0.epoch += 1 }
            } catch {
                // On a full disk the new epoch cannot be stored, so the tokens stay valid.
                if disk?.isHealthy != false { checker.reportViolation("k", "tokens cannot be made void: \(error)") }
            }
        case .forgetTombstones: forgetTombstones()
        case .fillQuota: relay.limits.privateBytes = 0
        case .emptyQuota:
            restoreLimits()
            programs.forEach { $0.retry() }
        case .lower(let limit): lower(limit)
        case .count(let program): (programs[program] as? LinkedProgram)?.count()
        case .relate(let program, let relation): (programs[program] as? LinkedProgram)?.relate(relation)
        case .burst(let program, let zone, let turns, let interruption):
            burst(programs[program], zone, step.number)
            runReady(turns: turns)
            perform(interruption, on: programs[program])
        default: performOnClient(step, value)
        }
    }

    /// Probes access as bob, who may be a participant, or as erin, who is not.
    private func probeAccess() {
        let bench = SimulatedProcess("stranger", on: world.executor)
        let (relay, checker, probeAccess) = (relay, checker, AccessProbe(owner: people["alice"] ?? ""))
        let stranger = random.number() % 2 == 0 ? "bob" : "erin"
        Task(executorPreference: bench) { await probeAccess.run(relay, as: stranger, checker) }
        runReady()
    }

    // MARK: Limits and surprises

    func restoreLimits() {
        var limits = TestRelay.Limits()
        limits.itemsPerRequest = scenario.itemsPerRequest
        relay.limits = limits
    }

    private func lower(_ limit: Step.Limit) {
        switch limit {
        case .items(let count): relay.limits.itemsPerRequest = count
        case .zones(let count): relay.limits.zonesPerUser = count
        case .recordBytes(let count): relay.limits.recordBytes = count
        }
    }

    /// Makes more edits than fit into one request in most runs.
    private func burst(_ program: any Program, _ zone: Int, _ number: Int) {
        for record in 0..<5 { program.edit(zone, "r\(record)", "a", "~\(number)rush\(record)~") }
    }

    private func perform(_ interruption: Step.Interruption, on program: any Program) {
        switch interruption {
        case .otherUser: signIn(program, as: "erin")
        case .removal: clients[0].closeShare(bobsRemoval)
        case .quota: relay.limits.privateBytes = 0
        case .limit(let limit): lower(limit)
        }
    }

    var bobsRemoval: Checker.Removal {
        Checker.Removal(user: people["bob"] ?? "", zone: ZoneName(owner: people["alice"] ?? "", name: "Z0"))
    }

    var sharers: [MirrorProgram] {
        programs.compactMap { $0 as? MirrorProgram }.filter { $0.kind == .sharing }
    }

    private func perform(_ action: Step.TreeAction, _ value: String) {
        let (alice, bob, owner) = (clients[0], clients[1], people["alice"] ?? "")
        let removal = Checker.Removal(user: people["bob"] ?? "", zone: ZoneName(owner: owner, name: "Tree"))
        switch action {
        case .share: alice.shareTree()
        case .join: bob.joinTree(alice, removal)
        case .close: alice.closeTree(isEnd: false, removal)
        case .end: alice.closeTree(isEnd: true, removal)
        case .edit(let leaf): alice.editLeaf(leaf, of: nil, value)
        case .editAsGuest(let leaf): bob.editLeaf(leaf, of: owner, value)
        case .reparent(let leaf): alice.reparent(leaf)
        }
    }

    private func perform(_ action: Step.PictureAction) {
        let (alice, bob, zones) = (clients[0], clients[1], APIClient.pictureZones)
        switch action {
        case .put(let number, let zone, let content):
            let bytes = SeededRandom(seed: UInt64(content)).bytes(1 + content * 700)
            alice.putPicture(number, in: zones[zone], bytes)
        case .copy(let number, let zone, let other): alice.copyPicture(number, in: zones[zone], from: other)
        case .delete(let number, let zone): alice.deletePicture(number, in: zones[zone])
        case .claim(let content): bob.claimPicture(content)
        case .look: lookAtPictures()
        case .clearAway:
            let (relay, checker) = (relay, checker)
            Task(executorPreference: housekeeper) {
                let count = (try? await relay.removeUnusedAssets()) ?? 0
                checker.note("\(count) files cleared away")
            }
        }
    }

    private func forgetTombstones() {
        let (relay, checker) = (relay, checker)
        Task(executorPreference: housekeeper) {
            checker.state.withLock { $0.runningPurges += 1 }
            let count = (try? await relay.forgetTombstones()) ?? 0
            checker.state.withLock { $0.runningPurges -= 1 }
            checker.note("\(count) tombstones forgotten")
        }
    }

    private func perform(_ action: Step.LinkAction) {
        let (alice, bob, erin) = (clients[0], clients[1], clients[3])
        switch action {
        case .offer: alice.offerLink()
        case .take(let first, let second):
            if let first { bob.takeLink(first) }
            if let second { erin.takeLink(second) }
        case .withdraw:
            let once = ZoneName(owner: people["alice"] ?? "", name: APIClient.once.zoneName)
            alice.withdrawLinks(from: ["bob", "erin"].map { Checker.Removal(user: people[$0] ?? "", zone: once) })
        }
    }

    /// Adds a record type while the relay runs, or promotes the schema to production, as the command line does.
    private func alterSchema(_ type: String, isPromotion: Bool) {
        guard scenario.isOnDisk, let container = ContainerID(TestRelay.containerIdentifier) else { return }
        let folder = relay.files.schemas(of: container)
        do {
            let before = try folder.schema(of: .development)
            if isPromotion {
                try folder.change(.production) { _ in (before, ()) }
                let after = try folder.schema(of: .production)
                if after.types != before.types {
                    checker.reportViolation("g", "production has only a part of the promoted types")
                }
            } else {
                try folder.change(.development) { schema in
                    var new = schema
                    new.types[type] = RecordType()
                    return (new, ())
                }
                if try folder.schema(of: .development).types[type] == nil {
                    checker.reportViolation("a", "the type \(type) was created, and is missing")
                }
            }
        } catch {
            if disk?.isHealthy != false { checker.reportViolation("k", "the schema cannot be changed: \(error)") }
        }
    }

    // MARK: Accounts

    /// Signs a user in on a program's device.
    func signIn(_ program: any Program, as user: String) {
        guard program.device.connection.credentials.webAuthToken != "dev-\(user)" else { return }
        let container = program.device.container
        Task(executorPreference: program.device.process) { try? await container.signIn(.dev(user: user)) }
        runReady()
    }

    /// Revokes the session of a program's user, and checks that its notice sockets close within 5 s.
    private func expireSignIn(_ program: any Program) {
        let device = program.device
        Task(executorPreference: device.process) { try? await device.signIn() }
        advance(by: .seconds(8))
        guard relay.isRunning, let token = device.connection.credentials.webAuthToken, !token.hasPrefix("dev-") else {
            return
        }
        let before = checker.sockets(of: "\(device.user ?? "")-\(device.name)")
        let isEnded = Flag()
        Task(executorPreference: device.process) {
            // On a full disk the revocation fails with an error.
            if (try? await device.expireSignIn()) != nil { isEnded.raise() }
        }
        advance(by: .seconds(5))
        guard relay.isRunning, isEnded.isRaised else { return }
        askAfterSignOut(token, device.name)
        if !before.isDisjoint(with: checker.sockets(of: "\(device.user ?? "")-\(device.name)")) {
            checker.reportViolation("j", "\(device.name) keeps its notice socket, though its sign-in was ended 5 s ago")
        }
    }

    /// Checks that the token of a revoked session is rejected.
    private func askAfterSignOut(_ token: String, _ name: String) {
        var allowed = CharacterSet.alphanumerics
        allowed.insert(charactersIn: "-_.")
        let query = token.addingPercentEncoding(withAllowedCharacters: allowed) ?? ""
        let request = APIRequest(
            method: .post,
            path: "/database/1/\(TestRelay.containerIdentifier)/development/private/zones/list",
            query: "ckWebAuthToken=\(query)",
            body: Array("{}".utf8)
        )
        let (relay, checker) = (relay, checker)
        Task(executorPreference: housekeeper) {
            guard let answer = await relay.answer(request), answer.status.code == 200 else { return }
            checker.reportViolation("j", "\(name) is served 5 s after its sign-in was ended")
        }
        runReady()
    }

    // MARK: Disk

    /// Restarts the relay after a disk failure, as a supervisor does when the relay asks for it.
    func restartAfterLoss() {
        checker.note("the disk has failed the relay")
        relay.kill()
        startRelay()
    }

    func startRelay() {
        guard !relay.isRunning else { return }
        attempt { try disk?.cutPowerIfLost() }
        // On a full disk the relay may not start until space is freed.
        do { try relay.start() } catch {
            guard disk?.isHealthy != true else {
                return checker.reportViolation("k", "the relay does not start: \(error)")
            }
            checker.note("the relay does not start yet")
        }
    }

    private func performOnClient(_ step: Step, _ value: String) {
        let (alice, bob) = (clients[0], clients[1])
        let removal = bobsRemoval
        switch step.action {
        case .group(let client, let zone): clients[client * 2].writeGroup(zone, value, looksFirst: client == 1)
        case .race(let record): alice.race(record, value)
        case .move: alice.move()
        case .makeZone(let zone): alice.makeZone(zone)
        case .deleteZone: alice.deleteZone()
        case .share: alice.openShare()
        case .join: bob.join(alice, removal)
        case .remove: alice.closeShare(removal)
        case .post(let record): bob.post(record, value)
        case .probeAccess: probeAccess()
        case .endShare: alice.endShare(removal)
        case .saveEncrypted(let record): clients[step.number % 2 * 2].saveEncrypted(record, value)
        case .tree(let action): perform(action, value)
        case .picture(let action): perform(action)
        case .link(let action): perform(action)
        case .poll: for program in programs { (program as? WebProgram)?.poll() }
        case .shareItem(let record): sharers.first?.shareItem("r\(record)")
        case .joinItem: if sharers.count > 1 { sharers[1].join(sharers[0]) }
        default: performRareStep(step)
        }
    }

    func attempt(_ body: () throws -> Void) {
        do {
            try body()
        } catch {
            checker.reportViolation("k", "the relay does not start: \(error)")
        }
    }

    /// Kills a program and restarts it.
    func restart(_ number: Int, _ change: (TestDevice) throws -> Void = { _ in }) {
        let program = programs[number]
        let (faultRates, isCut) = (program.device.network.faultRates, program.device.network.isCut)
        attempt {
            let life = program.device.process
            let device = try program.device.restarted()
            // The killed program's suspended work ends without effect.
            world.executor.wake(life)
            device.network.faultRates = faultRates
            if isCut { device.network.cut() }
            try change(device)
            program.begin(on: device)
        }
    }

    /// Waits for the program's next page and kills the program while it processes the page.
    private func crashInFetch(_ number: Int, _ turns: Int) {
        let network = programs[number].device.network
        let before = network.answerCount(of: "changes/zone")
        for _ in 0..<400 {
            runReady(turns: 1)
            if network.answerCount(of: "changes/zone") > before { break }
            guard world.executor.isIdle else { continue }
            guard let next = clock.nextDeadline, clock.now.duration(to: next) < .seconds(3) else { break }
            clock.advance(by: clock.now.duration(to: next))
        }
        runReady(turns: turns)
        restart(number)
    }
}

/// A thread-safe flag.
private final class Flag: Sendable {
    private let raised = Mutex(false)
    func raise() { raised.withLock { $0 = true } }
    var isRaised: Bool { raised.withLock { $0 } }
}

/// Steps that occur at most once or twice in a run.
extension Simulation {
    func performRareStep(_ step: Step) {
        switch step.action {
        case .restrict(let isReadOnly): clients[0].restrict(isReadOnly: isReadOnly)
        case .deleteSharedZone: clients[0].deleteSharedZone(bobsRemoval)
        case .leave: clients[1].leave(bobsRemoval, byZone: step.number % 2 == 0)
        case .mirror(let action): perform(action)
        case .engine(let program, let zone, let action):
            (programs[program % programs.count] as? EngineProgram)?.perform(action, on: zone, clock: clock)
        case .sleep(let program, let isOver):
            let process = programs[program % programs.count].device.process
            if isOver { world.executor.wake(process) } else { world.executor.sleep(process) }
        case .backUp: backUp()
        case .restoreBackup: restoreBackup()
        case .backUpDevice(let program): backUpDevice(programs[program % programs.count])
        case .restoreDevice(let program): restoreDevice(program % programs.count)
        default: break
        }
    }

    private func perform(_ action: Step.MirrorAction) {
        switch action {
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

    private var moment: Timestamp { Timestamp(milliseconds: 1_700_000_000_000 + checker.now) }

    /// Creates a backup while the relay runs, as its timer does.
    func backUp() {
        guard scenario.restoresBackups, relay.isRunning else { return }
        do {
            _ = try relay.files.backups.create(in: backups, now: moment) { _ in }
            checker.state.withLock { $0.doneInBackup = $0.done }
        } catch {
            checker.reportViolation("k", "the backup cannot be created: \(error)")
        }
    }

    /// Restores the latest backup, as an operator would.
    private func restoreBackup() {
        guard scenario.restoresBackups, let backup = relay.files.backups.all(in: backups).last else { return }
        relay.stop()
        do {
            let random = random
            _ = try relay.files.backups.restore(backup, nil, now: moment, draw: { random.number() }) { _ in }
            checker.state.withLock { $0.restoreBackup() }
        } catch {
            checker.reportViolation("k", "the backup cannot be restored: \(error)")
        }
        startRelay()
    }

    // MARK: Devices

    private func copy(of program: any Program) -> URL {
        relay.folder.url.appendingPathComponent("copy of \(program.device.user ?? "") \(program.device.name)")
    }

    /// Copies the device's files, and makes the program copy the rest of its state.
    private func backUpDevice(_ program: any Program) {
        attempt {
            let copy = copy(of: program)
            try? FileManager.default.removeItem(at: copy)
            try FileManager.default.copyItem(at: program.device.folder(), to: copy)
            program.saveState()
        }
    }

    private func restoreDevice(_ number: Int) {
        let (program, copy) = (programs[number], copy(of: programs[number]))
        guard FileManager.default.fileExists(atPath: copy.path) else { return }
        restart(number) { device in
            let folder = try device.folder()
            try FileManager.default.removeItem(at: folder)
            try FileManager.default.copyItem(at: copy, to: folder)
            program.restoreState()
        }
    }
}
