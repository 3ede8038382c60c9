import Foundation
import Records
import RelayCore
import SQLiteStore

/// Actions on a whole data folder, on a disk that fails at each of their operations in turn: backups, restores,
/// schedules, resets, compactions, copies and container deletions.
///
/// After any fault the folder must be in the old or in the new state, good backups must still be good, and the caller
/// must have received the correct outcome.
package struct FolderTrials: Sendable {
    package enum Action: String, Hashable, Sendable, CaseIterable {
        case backup, restore, restoreContainer, schedule, reset, compact, copy, delete
    }

    package var action: Action
    package var effect: FaultyDisk.Fault.Effect

    package init(_ action: Action, _ effect: FaultyDisk.Fault.Effect) {
        self.action = action
        self.effect = effect
    }

    /// Runs the trials whose numbers satisfy `isIn`, and one without a fault at the end.
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

/// A data folder with some content, and one good backup from before its last changes.
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

    /// The number of disk operations of an action.
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

    /// The instance of this process.
    package static func shared() async throws -> FolderStage { try await making.value }
}

/// One action with a fault at one operation.
private struct FolderTrial {
    let trials: FolderTrials
    let number: Int

    init(_ trials: FolderTrials, _ number: Int) {
        self.trials = trials
        self.number = number
    }

    static func perform(_ action: FolderTrials.Action, in work: String, _ disk: FaultyDisk) async throws {
        let (data, backups) = (work + "/data", work + "/backups")
        let random = SeededRandom(seed: 99)
        switch action {
        case .backup:
            _ = try Backup.create(of: data, in: backups, now: DiskWorld.now + .seconds(60), disk: disk.calls)
        case .restore:
            let backup = try Backup.named("latest", in: backups, at: DiskWorld.now)
            _ = try backup.restore(to: data, now: DiskWorld.now, draw: random.next, disk: disk.calls)
        case .restoreContainer:
            let container = try DiskWorld.home().container
            let backup = try Backup.named("latest", in: backups, at: DiskWorld.now)
            let homes = Records.Environment.allCases.map { ContainerEnvironment(container, $0) }
            _ = try backup.restore(homes, to: data, now: DiskWorld.now, draw: random.next, disk: disk.calls)
        case .schedule:
            try BackupSchedule(.daily, keep: 3, folder: backups).save(to: data, disk: disk.calls)
        case .reset:
            let home = try DiskWorld.home()
            try SchemaFolder(folder: data, container: home.container).resetDevelopment(draw: random.next)
        case .compact:
            for room in try StoreCompaction.rooms(in: data) {
                let compaction = StoreCompaction(file: room.file, in: data)
                try compaction.vacuum()
                try compaction.vacuumIncrementally { _, _ in }
            }
        case .copy: _ = try FolderCopy.make(of: data, at: work + "/copy", disk: disk.calls)
        case .delete:
            let accounts = try AccountStore(folder: data)
            try ContainerRemoval(in: data, disk: disk.calls).remove(try DiskWorld.home().container, from: accounts)
        }
    }

    /// Runs the action and checks the folder.
    ///
    /// Returns whether the fault occurred.
    func run(on stage: FolderStage, _ report: inout StepTrials.Report) async throws -> Bool {
        let place = try DiskFolder()
        let work = place.work
        try stage.copy(to: work)
        let disk = FaultyDisk(folder: work)
        let lasts = trials.effect == .isFull || trials.effect == .isCutShort
        disk.arm(.init(number: number, trials.effect, lasts: lasts))
        var problems: [String] = []
        var failure: String?
        do {
            try await Self.perform(trials.action, in: work, disk)
        } catch {
            failure = "\(error)"
            if failure?.isEmpty != false { problems.append("it failed without a reason") }
        }
        let isStruck = disk.disarm()
        if !isStruck, let failure { problems.append("it failed on a good disk: \(failure)") }
        disk.detach()
        if trials.effect == .losesPower, isStruck {
            let seed = UInt64(number)
            for (index, cut) in [PowerCut.keepsNothing, .keepsSome(seed: seed), .keepsAll].enumerated() {
                let left = place.path + "/left\(index)"
                try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
                try disk.cutPower(cut, leaving: left)
                let found = await objections(in: left, stage, isDone: failure == nil)
                problems += found.map { "after a power cut that \(cut): \($0)" }
            }
        } else {
            problems += await objections(in: work, stage, isDone: failure == nil)
        }
        report.objections += problems.map { "\(trials.action), \(trials.effect), operation \(number): \($0)" }
        return isStruck
    }

    /// The problems that the next start finds.
    private func objections(in work: String, _ stage: FolderStage, isDone: Bool) async -> [String] {
        let (data, backups) = (work + "/data", work + "/backups")
        var problems: [String] = []
        do {
            for backup in Backup.all(in: backups) {
                problems += backup.verify().map { "\(backup.name): \($0)" }
            }
            let count = Backup.all(in: backups).count
            if count < 1 { problems.append("the good backup is gone") }
            if isDone, trials.action == .backup, count < 2 { problems.append("the backup was made and is not there") }
            // As the next start does.
            try Backup.finishRestore(in: data)
            try ContainerRemoval(in: data).finish(with: AccountStore(folder: data, onLostWrite: {}))
            problems += try await objectionsToCopy(at: work + "/copy", stage, isDone: isDone)
            if isDone, trials.action == .schedule, BackupSchedule(of: data)?.keep != 3 {
                problems.append("the schedule was set and is not")
            }
            let world = try DiskWorld(data, seed: UInt64(number) + 1_000)
            defer { world.close() }
            let found = try await world.facts(pageSize: 7)
            if let objection = expected(stage, isDone: isDone).objection(to: found) { problems.append(objection) }
            for report in [try world.store().integrityReport(), try world.directory.pragma("integrity_check")]
            where report != "ok" {
                problems.append(report ?? "no report")
            }
            for probe in [Script.makeZone("Probe"), Script.save(["probe": 1], in: "Probe"), Script.addToken("probe")] {
                let outcome = try await probe.run(world)
                if outcome != .done { problems.append("\(probe.name) afterwards: \(outcome)") }
            }
            for rest in ["restoring", "container-deleted"]
            where FileManager.default.fileExists(atPath: "\(data)/\(rest)") {
                problems.append("\(rest) is still there")
            }
        } catch {
            problems.append("the next start failed: \(error)")
        }
        return problems
    }

    /// Checks that the copy is complete or absent.
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
        let step = Step(name: "the action", apply: { outcome(of: $0, stage) }, run: { _ in .done })
        if isDone { facts.happened(step) } else if !isKnownNotDone { facts.mayHaveHappened(step) }
        return facts
    }

    /// Whether a failure proves that nothing happened: a full disk is detected before the commit is on it.
    private var isKnownNotDone: Bool {
        let isFull = trials.effect == .isFull || trials.effect == .isCutShort
        return isFull && (trials.action == .reset || trials.action == .delete)
    }

    private func outcome(of facts: Facts, _ stage: FolderStage) -> Facts {
        switch trials.action {
        case .backup, .schedule, .compact, .copy: return facts
        case .restore: return stage.backedUp
        case .restoreContainer:
            let kept = ["account ", "password ", "sessions ", "name ", "token "]
            let isKept = { (key: String) in kept.contains { key.hasPrefix($0) } }
            return facts.filter { isKept($0.key) }.merging(stage.backedUp.filter { !isKept($0.key) }) { $1 }
        case .delete:
            // Accounts stay without sessions. A recreated container is empty.
            let kept = ["account ", "password ", "name ", "sessions "]
            return facts.filter { fact in kept.contains { fact.key.hasPrefix($0) } }
                .mapValues { Int($0) == nil ? $0 : "0" }
        case .reset:
            // Accounts stay. The data in development goes, and its schema becomes production's.
            let kept = ["account ", "password ", "sessions ", "name ", "token ", "schema "]
            return facts.filter { fact in kept.contains { fact.key.hasPrefix($0) } }
                .merging(["schema development": facts["schema production"] ?? ""]) { $1 }
        }
    }
}
