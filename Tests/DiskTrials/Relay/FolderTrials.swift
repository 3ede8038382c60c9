import Foundation
import Records
import RelayStore

/// What is done to a whole data folder, on a disk that fails at one operation after the other until it passes untouched:
/// backups, restores, resets, files written anew, copies, containers deleted.
///
/// Whatever the disk does, the folder afterwards is as it was or as it was to become, the good backups are good, and whoever
/// did it was told the truth.
package struct FolderTrials: Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable {
        case backup, restore, schedule, reset, compact, copy, delete
    }

    package var action: Action
    package var effect: FaultyDisk.Fault.Effect

    package init(_ action: Action, _ effect: FaultyDisk.Fault.Effect) {
        self.action = action
        self.effect = effect
    }

    /// Runs the trials whose numbers are in `numbers`, and the untouched one at the end.
    package func run(on stage: FolderStage, where isIn: (Int) -> Bool = { _ in true }) async throws -> StepTrials.Report
    {
        var report = StepTrials.Report()
        let last = try await stage.operations(of: action)
        for number in 1...last + 1 where number > last || isIn(number) {
            let isStruck = try await FolderTrial(self, number).run(on: stage, &report)
            report.runs += 1
            guard isStruck || number > last else { continue }
        }
        return report
    }
}

/// A data folder with a life behind it, and one good backup from before its last changes.
package struct FolderStage: Sendable {
    fileprivate let folder: DiskFolder
    fileprivate let backedUp: Facts
    fileprivate let now: Facts

    package init() async throws {
        folder = try DiskFolder()
        let data = folder.work + "/data"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        (backedUp, now) = try await Self.fill(data, backups: folder.work + "/backups")
    }

    private static func fill(_ data: String, backups: String) async throws -> (Facts, Facts) {
        let world = try DiskWorld(data, seed: 1)
        defer { world.close() }
        for step in Script.steps
            + [Script.promote("all"), Script.makeZone("Box"), Script.save(["kept": 1], in: "Box")]
        {
            let outcome = try await step.run(world)
            guard outcome == .done else { throw WorldFailure("\(step.name): \(outcome)") }
        }
        let backedUp = try await world.facts()
        _ = try Backup.create(of: data, in: backups, now: DiskWorld.now)
        for step in [Script.save(["kept": 2, "late": 2], in: "Box"), Script.addAccount("late@example.org")] {
            _ = try await step.run(world)
        }
        return (backedUp, try await world.facts())
    }

    fileprivate func copy(to target: String) throws {
        try FileManager.default.copyItem(atPath: folder.work, toPath: target)
    }

    /// How many operations of the disk an action takes.
    func operations(of action: FolderTrials.Action) async throws -> Int {
        let place = try DiskFolder()
        try copy(to: place.work)
        let disk = FaultyDisk(folder: place.work)
        defer { disk.detach() }
        disk.arm(.init(number: .max, .fails))
        try await FolderTrial.perform(action, in: place.work, disk)
        return disk.count
    }
}

extension FolderStage {
    private static let making = Task { try await FolderStage() }

    /// The one of this process.
    package static func shared() async throws -> FolderStage { try await making.value }
}

/// One action that is struck once.
private struct FolderTrial {
    let trials: FolderTrials
    let number: Int

    init(_ trials: FolderTrials, _ number: Int) {
        self.trials = trials
        self.number = number
    }

    static func perform(_ action: FolderTrials.Action, in work: String, _ disk: FaultyDisk) async throws {
        let (data, backups) = (work + "/data", work + "/backups")
        let draw = Draw(seed: 99)
        switch action {
        case .backup:
            _ = try Backup.create(of: data, in: backups, now: DiskWorld.now + .seconds(60), disk: disk.calls)
        case .restore:
            let backup = try Backup.named("latest", in: backups, at: DiskWorld.now)
            _ = try backup.restore(to: data, now: DiskWorld.now, draw: draw.next, disk: disk.calls)
        case .schedule:
            try BackupSchedule(.daily, keep: 3, folder: backups).save(to: data, disk: disk.calls)
        case .reset:
            let home = try DiskWorld.home()
            try SchemaFolder(folder: data, container: home.container).resetDevelopment(draw: draw.next)
        case .compact:
            for room in try StoreCompaction.rooms(in: data) {
                let compaction = StoreCompaction(file: room.file, in: data)
                try compaction.writeAnew()
                try compaction.giveBackStepwise { _, _ in }
            }
        case .copy: _ = try FolderCopy.make(of: data, at: work + "/copy", disk: disk.calls)
        case .delete:
            let accounts = try AccountStore(folder: data)
            try ContainerRemoval(in: data, disk: disk.calls).remove(try DiskWorld.home().container, from: accounts)
        }
    }

    /// Says whether the fault was met.
    func run(on stage: FolderStage, _ report: inout StepTrials.Report) async throws -> Bool {
        let place = try DiskFolder()
        let work = place.work
        try stage.copy(to: work)
        let disk = FaultyDisk(folder: work)
        let lasts = trials.effect == .isFull || trials.effect == .isCutShort
        disk.arm(.init(number: number, trials.effect, lasts: lasts))
        var said: [String] = []
        var failure: String?
        do {
            try await Self.perform(trials.action, in: work, disk)
        } catch {
            failure = "\(error)"
            if failure?.isEmpty != false { said.append("it failed without a sentence") }
        }
        let isStruck = disk.disarm()
        if !isStruck, let failure { said.append("it failed on a good disk: \(failure)") }
        disk.detach()
        if trials.effect == .losesPower, isStruck {
            let seed = UInt64(number)
            for (index, cut) in [PowerCut.keepsNothing, .keepsSome(seed: seed), .keepsAll].enumerated() {
                let left = place.path + "/left\(index)"
                try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
                try disk.cutPower(cut, leaving: left)
                let found = await objections(in: left, stage, isDone: failure == nil)
                said += found.map { "after a power cut that \(cut): \($0)" }
            }
        } else {
            said += await objections(in: work, stage, isDone: failure == nil)
        }
        report.objections += said.map { "\(trials.action), \(trials.effect), operation \(number): \($0)" }
        return isStruck
    }

    /// What is wrong with what the next start finds.
    private func objections(in work: String, _ stage: FolderStage, isDone: Bool) async -> [String] {
        let (data, backups) = (work + "/data", work + "/backups")
        var said: [String] = []
        do {
            for backup in Backup.all(in: backups) {
                said += backup.verify().map { "\(backup.name): \($0)" }
            }
            let count = Backup.all(in: backups).count
            if count < 1 { said.append("the good backup is gone") }
            if isDone, trials.action == .backup, count < 2 { said.append("the backup was made and is not there") }
            // As the next start does.
            try Backup.finishRestore(in: data)
            try ContainerRemoval(in: data).finish(with: AccountStore(folder: data, onLostWrite: {}))
            said += try await objectionsToCopy(at: work + "/copy", stage, isDone: isDone)
            if isDone, trials.action == .schedule, BackupSchedule(of: data)?.keep != 3 {
                said.append("the schedule was set and is not")
            }
            let world = try DiskWorld(data, seed: UInt64(number) + 1_000)
            defer { world.close() }
            let found = try await world.facts(pageSize: 7)
            if let objection = expected(stage, isDone: isDone).objection(to: found) { said.append(objection) }
            for report in [try world.store().integrityReport(), try world.directory.pragma("integrity_check")]
            where report != "ok" {
                said.append(report ?? "no report")
            }
            for probe in [Script.makeZone("Probe"), Script.save(["probe": 1], in: "Probe"), Script.addToken("probe")] {
                let outcome = try await probe.run(world)
                if outcome != .done { said.append("\(probe.name) afterwards: \(outcome)") }
            }
            for rest in ["restoring", "container-deleted"]
            where FileManager.default.fileExists(atPath: "\(data)/\(rest)") {
                said.append("\(rest) is still there")
            }
        } catch {
            said.append("the next start failed: \(error)")
        }
        return said
    }

    /// A copy is there whole, or not at all.
    private func objectionsToCopy(at copy: String, _ stage: FolderStage, isDone: Bool) async throws -> [String] {
        guard trials.action == .copy else { return [] }
        guard FileManager.default.fileExists(atPath: copy) else {
            return isDone ? ["the copy was made and is not there"] : []
        }
        let world = try DiskWorld(copy, seed: UInt64(number) + 2_000)
        defer { world.close() }
        return PossibleFacts(stage.now).objection(to: try await world.facts()).map { ["the copy: \($0)"] } ?? []
    }

    private func expected(_ stage: FolderStage, isDone: Bool) -> PossibleFacts {
        var facts = PossibleFacts(stage.now)
        let step = Step(name: "it", apply: { outcome(of: $0, stage) }, run: { _ in .done })
        if isDone { facts.happened(step) } else if !isTold { facts.mayHaveHappened(step) }
        return facts
    }

    /// Whether a failure says that nothing has happened: a disk is known to be full before the commit is on it.
    private var isTold: Bool {
        let isFull = trials.effect == .isFull || trials.effect == .isCutShort
        return isFull && (trials.action == .reset || trials.action == .delete)
    }

    private func outcome(of facts: Facts, _ stage: FolderStage) -> Facts {
        switch trials.action {
        case .backup, .schedule, .compact, .copy: return facts
        case .restore: return stage.backedUp
        case .delete:
            // People stay, signed in nowhere; made anew, the container has nothing.
            let kept = ["account ", "password ", "name ", "sessions "]
            return facts.filter { fact in kept.contains { fact.key.hasPrefix($0) } }
                .mapValues { Int($0) == nil ? $0 : "0" }
        case .reset:
            // People stay; what they had in development goes, and the schema is production's.
            let kept = ["account ", "password ", "sessions ", "name ", "token ", "schema "]
            return facts.filter { fact in kept.contains { fact.key.hasPrefix($0) } }
                .merging(["schema development": facts["schema production"] ?? ""]) { $1 }
        }
    }
}
