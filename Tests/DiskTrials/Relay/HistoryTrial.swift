import Foundation
import RelayStore

/// A relay's life on a bad disk: writes by chance, faults by chance, restarts and power cuts, over many steps.
///
/// What single steps cannot show: a fault whose damage comes out later, a log that was written back in between, a process
/// that starts again on what the last one could not flush. All chance is the seed's.
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
        /// `nil` where all was well; else what was wrong, and what came before it.
        package var objection: String?

        package init(starts: Int = 1) { self.starts = starts }
    }

    package func run() async -> Report {
        var history: History?
        do {
            let begun = try History(seed: seed)
            history = begun
            for _ in 0..<length { try await begun.go() }
            // How many calls of the disk a write is made of depends on what is written beside it: few faults may be met.
            for _ in 0..<length * 4 where begun.report.faults == 0 { try await begun.go() }
            try await begun.restart()
            begun.end()
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
    private let draw: Draw
    /// Every other life writes its log back as seldom as a relay does.
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
        draw = Draw(seed: seed)
        pages = seed.isMultiple(of: 2) ? 8_000 : 16
        folder = try DiskFolder()
        data = folder.path + "/data0"
        try FileManager.default.createDirectory(atPath: data, withIntermediateDirectories: true)
        disk = FaultyDisk(folder: data)
        world = try DiskWorld(data, on: disk, seed: draw.next(), tags: tags, checkpointPages: pages)
    }

    func end() {
        world.close()
        disk.detach()
    }

    private var known: Facts { facts.states.first ?? [:] }

    func go() async throws {
        switch draw.below(20) {
        case 0: try await draw.below(2) == 0 ? restart() : kill()
        case 1: try await cutPower()
        case 2, 3, 4, 5: try await write(under: fault())
        default: try await write(under: nil)
        }
    }

    private func fault() -> FaultyDisk.Fault {
        let effects: [FaultyDisk.Fault.Effect] = [.fails, .fails, .isFull, .isCutShort, .losesPower]
        let effect = effects[draw.below(effects.count)]
        let isFull = effect == .isFull || effect == .isCutShort
        // A flush now and then by itself: there are few among the writes.
        let operations: Set<FaultyDisk.Operation>? = isFull || draw.below(3) > 0 ? nil : [.sync]
        return FaultyDisk.Fault(
            operations,
            number: 1 + draw.below(operations == nil ? 8 : 3),
            effect,
            lasts: isFull && draw.below(2) == 0
        )
    }

    private func write(under fault: FaultyDisk.Fault?) async throws {
        // A store's first use makes its file and users: that goes by the fault too, every other time.
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
        // The fault may have met what the relay does by itself, beside the step.
        if isStruck { await world.settle() }
        // It is about to end by itself; somebody may be faster.
        if world.wantsRestart { return try await draw.below(3) == 0 ? restart() : kill() }
        if isStruck { try await look() }
    }

    /// What is found must be possible; from then on it is known.
    private func look() async throws {
        let found = try await world.facts(pageSize: 1 + draw.below(5))
        if let objection = facts.objection(to: found) { throw WorldFailure(objection) }
        facts.found(found)
    }

    /// The process is killed, and another begins on what the disk shows, flushed or not.
    private func kill() async throws {
        trace.append("kill")
        report.starts += 1
        try await goOn(in: folder.path + "/data\(report.starts)-\(report.cuts)") { old, left in
            try FaultyDisk(afterKillOn: old, folder: left)
        }
    }

    /// The old process is as if it had never been asked to end, and a new one begins in another folder.
    private func goOn(in left: String, _ make: (FaultyDisk, String) throws -> FaultyDisk) async throws {
        try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
        let next = try make(disk, left)
        disk.arm(FaultyDisk.Fault(number: 1, .losesPower))
        world.close()
        disk.detach()
        try? FileManager.default.removeItem(atPath: data)
        data = left
        disk = next
        world = try DiskWorld(data, on: disk, seed: draw.next(), tags: tags, checkpointPages: pages)
        try await look()
        try check()
    }

    /// The process ends as it should, and another begins on the same folder and disk.
    func restart() async throws {
        trace.append("restart")
        report.starts += 1
        world.close()
        world = try DiskWorld(data, on: disk, seed: draw.next(), tags: tags, checkpointPages: pages)
        try await look()
        try check()
    }

    private func cutPower() async throws {
        let cuts: [PowerCut] = [.keepsNothing, .keepsNothing, .keepsSome(seed: draw.next()), .keepsAll]
        let cut = cuts[draw.below(cuts.count)]
        trace.append("power cut that \(cut)")
        report.cuts += 1
        report.starts += 1
        // Nothing that is written from here on counts; the process is gone.
        try await goOn(in: folder.path + "/data\(report.starts)-\(report.cuts)") { old, left in
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

    // MARK: Steps by chance

    private static let zones = ["Notes", "Box", "Shelf"]

    /// One that the rules allow now.
    private func step() -> Step? {
        let zone = Self.zones[draw.below(Self.zones.count)]
        let other = Self.zones[draw.below(Self.zones.count)]
        let here = known.keys.filter { $0.hasPrefix("\(zone)/r") }.map { String($0.dropFirst(zone.count + 1)) }.sorted()
        value += 1
        let some =
            here.isEmpty ? [] : Array(Set((0...draw.below(4)).map { _ in here[draw.below(here.count)] })).sorted()
        let step: Step
        switch draw.below(12) {
        case 0: step = Script.makeZone(zone)
        case 1, 2, 3, 4:
            let names = (0...draw.below(6)).map { _ in "r\(draw.below(30))" }
            step = Script.save(Dictionary(names.map { ($0, value) }) { $1 }, in: zone)
        case 5 where !some.isEmpty: step = Script.delete(some, in: zone)
        case 6 where !some.isEmpty && other != zone && some.allSatisfy { known["\(other)/\($0)"] == nil }:
            step = Script.move(some, from: zone, to: other)
        case 7 where other != zone && known["zone \(other)"] == nil && here.count < 60:
            step = Script.moveAll(from: zone, to: other)
        case 8 where draw.below(3) == 0: step = Script.deleteZone(zone)
        case 9: step = Script.savePublic("p\(draw.below(5))", value)
        case 10: step = Script.subscribe("s\(draw.below(3))")
        default:
            let content = String(repeating: "\(value) ", count: 1 + draw.below(3_000))
            step =
                draw.below(2) == 0
                ? Script.saveAsset(content, as: "file", in: zone) : Script.addToken("t\(draw.below(4))")
        }
        guard facts.states.allSatisfy({ step.apply($0) != nil }) else { return nil }
        return step
    }
}
