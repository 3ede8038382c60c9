import Foundation
import SQLiteStore

/// A long history of a relay on a faulty disk: random writes, faults, restarts and power cuts.
///
/// It finds what single steps cannot show: damage that appears later, a log that was written back in between, a process
/// that starts on unflushed data. The seed determines all random choices.
package struct HistoryTrial: Sendable {
    package var seed: UInt64
    package var length: Int

    package init(seed: UInt64, length: Int) {
        self.seed = seed
        self.length = length
    }

    package struct Report: Sendable {
        package var writes = 0
        package var faults = 0
        package var starts = 1
        package var cuts = 0
        /// The problem and the steps before it; `nil` if there was none.
        package var objection: String?

        package init(starts: Int = 1) { self.starts = starts }
    }

    package func run() async -> Report {
        var history: History?
        do {
            let started = try History(seed: seed)
            history = started
            for _ in 0..<length { try await started.takeStep() }
            // The number of disk operations of a write depends on concurrent work, so the history may not meet a fault.
            // It then continues.
            for _ in 0..<length * 4 where started.report.faults == 0 { try await started.takeStep() }
            try await started.restart()
            started.end()
        } catch {
            let trace = history?.trace.suffix(12).joined(separator: "; ") ?? ""
            var report = history?.report ?? Report()
            report.objection = "history \(seed): \(error). Before it: \(trace)"
            history?.end()
            return report
        }
        return history?.report ?? Report()
    }
}

private final class History {
    private let random: SeededRandom
    /// Every other history writes back its log as rarely as a relay does.
    private let pages: Int
    private let folder: DiskFolder
    private var data: String
    private var disk: FaultyDisk
    private var world: DiskWorld
    private var facts = PossibleFacts()
    private var tags = Tags()
    private var value = 0
    private(set) var report = HistoryTrial.Report()
    private(set) var trace: [String] = []

    init(seed: UInt64) throws {
        random = SeededRandom(seed: seed)
        pages = seed.isMultiple(of: 2) ? 8_000 : 16
        folder = try DiskFolder()
        data = folder.path + "/data0"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        disk = FaultyDisk(folder: data)
        world = try DiskWorld(data, on: disk, seed: random.next(), tags: tags, checkpointPages: pages)
    }

    func end() {
        world.close()
        disk.detach()
    }

    private var known: Facts { facts.states.first ?? [:] }

    func takeStep() async throws {
        switch random.below(20) {
        case 0: try await random.below(2) == 0 ? restart() : kill()
        case 1: try await cutPower()
        case 2, 3, 4, 5: try await write(under: fault())
        default: try await write(under: nil)
        }
    }

    private func fault() -> FaultyDisk.Fault {
        let effects: [FaultyDisk.Fault.Effect] = [.fails, .fails, .isFull, .isCutShort, .losesPower]
        let effect = effects[random.below(effects.count)]
        let isFull = effect == .isFull || effect == .isCutShort
        // Flushes are rare among the operations, so some faults affect only them.
        let operations: Set<FaultyDisk.Operation>? = isFull || random.below(3) > 0 ? nil : [.sync]
        return FaultyDisk.Fault(
            operations,
            number: 1 + random.below(operations == nil ? 8 : 3),
            effect,
            lasts: isFull && random.below(2) == 0
        )
    }

    private func write(under fault: FaultyDisk.Fault?) async throws {
        // The fault can also hit a store's first use, which creates its file and users.
        guard let step = step() else { return }
        disk.arm(fault)
        let outcome = try await step.run(world)
        let isStruck = disk.disarm()
        report.writes += 1
        if isStruck { report.faults += 1 }
        trace.append("\(step.name)\(isStruck ? " under \(fault?.effect as Any) \(fault?.number ?? 0)" : "") \(outcome)")
        switch outcome {
        case .done: facts.happened(step)
        case .refused(let code): throw WorldFailure("\(step.name) was refused: \(code)")
        case .unknown:
            facts.mayHaveHappened(step)
            guard isStruck else { throw WorldFailure("\(step.name) failed on a good disk: \(outcome)") }
        }
        if isStruck, fault?.effect == .losesPower { return try await cutPower() }
        disk.heal()
        // The fault may have hit the relay's background work instead of the step.
        if isStruck { await world.settle() }
        // The relay is about to end by itself, or is killed before.
        if world.wantsRestart { return try await random.below(3) == 0 ? restart() : kill() }
        if isStruck { try await checkFacts() }
    }

    /// Checks that the observed state is possible; from then on it is the known state.
    private func checkFacts() async throws {
        let found = try await world.facts(pageSize: 1 + random.below(5))
        if let objection = facts.objection(to: found) { throw WorldFailure(objection) }
        facts.observed(found)
    }

    /// Kills the process and starts another on its visible data, flushed or not.
    private func kill() async throws {
        trace.append("kill")
        report.starts += 1
        try await continueOn(in: folder.path + "/data\(report.starts)-\(report.cuts)") { old, left in
            try FaultyDisk(afterKillOn: old, folder: left)
        }
    }

    /// Abandons the running process without an orderly end and starts a new one in another folder.
    private func continueOn(in left: String, _ make: (FaultyDisk, String) throws -> FaultyDisk) async throws {
        try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
        let next = try make(disk, left)
        disk.arm(FaultyDisk.Fault(number: 1, .losesPower))
        world.close()
        disk.detach()
        try? FileManager.default.removeItem(atPath: data)
        data = left
        disk = next
        world = try DiskWorld(data, on: disk, seed: random.next(), tags: tags, checkpointPages: pages)
        try await checkFacts()
        try check()
    }

    /// Ends the process in order and starts another on the same folder and disk.
    func restart() async throws {
        trace.append("restart")
        report.starts += 1
        world.close()
        world = try DiskWorld(data, on: disk, seed: random.next(), tags: tags, checkpointPages: pages)
        try await checkFacts()
        try check()
    }

    private func cutPower() async throws {
        let cuts: [PowerCut] = [.keepsNothing, .keepsNothing, .keepsSome(seed: random.next()), .keepsAll]
        let cut = cuts[random.below(cuts.count)]
        trace.append("power cut that \(cut)")
        report.cuts += 1
        report.starts += 1
        // Later writes do not count: the process is gone.
        try await continueOn(in: folder.path + "/data\(report.starts)-\(report.cuts)") { old, left in
            try old.cutPower(cut, leaving: left)
            return FaultyDisk(folder: left)
        }
    }

    private func check() throws {
        let store = try world.store().integrityReport()
        guard store == "ok" else { throw WorldFailure("the store's file: \(store)") }
        let accounts = try world.directory.pragma("integrity_check")
        guard accounts == "ok" else { throw WorldFailure("relay.sqlite: \(accounts ?? "")") }
    }

    // MARK: Random steps

    private static let zones = ["Notes", "Box", "Shelf"]

    /// A random step that the rules allow now.
    private func step() -> Step? {
        let zone = Self.zones[random.below(Self.zones.count)]
        let other = Self.zones[random.below(Self.zones.count)]
        let here = known.keys.filter { $0.hasPrefix("\(zone)/r") }.map { String($0.dropFirst(zone.count + 1)) }.sorted()
        value += 1
        let some =
            here.isEmpty ? [] : Array(Set((0...random.below(4)).map { _ in here[random.below(here.count)] })).sorted()
        let step: Step
        switch random.below(12) {
        case 0: step = Script.makeZone(zone)
        case 1, 2, 3, 4:
            let names = (0...random.below(6)).map { _ in "r\(random.below(30))" }
            step = Script.save(Dictionary(names.map { ($0, value) }) { $1 }, in: zone)
        case 5 where !some.isEmpty: step = Script.delete(some, in: zone)
        case 6 where !some.isEmpty && other != zone && some.allSatisfy { known["\(other)/\($0)"] == nil }:
            step = Script.move(some, from: zone, to: other)
        case 7 where other != zone && known["zone \(other)"] == nil && here.count < 60:
            step = Script.moveAll(from: zone, to: other)
        case 8 where random.below(3) == 0: step = Script.deleteZone(zone)
        case 9: step = Script.savePublic("p\(random.below(5))", value)
        case 10: step = Script.subscribe("s\(random.below(3))")
        default:
            let content = String(repeating: "\(value) ", count: 1 + random.below(3_000))
            step =
                random.below(2) == 0
                ? Script.saveAsset(content, as: "file", in: zone) : Script.addToken("t\(random.below(4))")
        }
        guard facts.states.allSatisfy({ step.apply($0) != nil }) else { return nil }
        return step
    }
}
