import Foundation
import GRDB
import RelayCore
import RelayStore

/// Files of every earlier layout, opened on a disk that fails at one operation after the other.
///
/// A start that fails says so and leaves the file as it was; the next one on a good disk has everything that the file held.
package struct LayoutTrials: Sendable {
    /// So many steps of the layout had been taken when the file was made.
    package var version: Int
    package var effect: FaultyDisk.Fault.Effect

    package init(version: Int, _ effect: FaultyDisk.Fault.Effect) {
        self.version = version
        self.effect = effect
    }

    /// How many layouts there have been of a store, and of the accounts.
    package static var stores: Int { EarlierLayout.storeVersions }
    package static var accounts: Int { EarlierLayout.accountVersions }

    private static let records = 40

    /// Opens a store's file; `isIn` says which of the operations, counted from 1, are struck.
    package func runStore(where isIn: (Int) -> Bool = { _ in true }) async throws -> StepTrials.Report {
        try run(
            where: isIn,
            make: { try EarlierLayout.makeStore($0 + "/file.sqlite", version: version, records: Self.records) },
            open: { folder, disk in
                let calls = disk?.calls ?? .system
                let store = try SQLiteStore(.file(path: folder + "/file.sqlite"), draw: { 7 }, disk: calls)
                defer { store.close() }
                let rows = try store.content().rows
                let isWhole = rows.count == Self.records && rows.allSatisfy { $0.fields == Array("{}".utf8) }
                return try (isWhole ? nil : "\(rows.count) records are there", store.integrityReport())
            }
        )
    }

    package func runAccounts() async throws -> StepTrials.Report {
        try run(
            make: { try EarlierLayout.makeAccounts($0, version: version) },
            open: { folder, disk in
                let calls = disk?.calls ?? .system
                let store = try AccountStore(folder: folder, disk: calls, onLostWrite: {})
                let isWhole = try store.accounts().count == 1 && store.relayKey() == [1, 2]
                return (isWhole ? nil : "the account is not there", try store.pragma("integrity_check") ?? "no report")
            }
        )
    }

    private func run(
        where isIn: (Int) -> Bool = { _ in true },
        make: (String) throws -> Void,
        open: (_ folder: String, FaultyDisk?) throws -> (objection: String?, report: String)
    ) throws -> StepTrials.Report {
        let stage = try DiskFolder()
        try make(stage.path)
        var report = StepTrials.Report()
        let last = try operations(of: stage.path, open)
        var number = 0
        var isOver = false
        while !isOver {
            number += 1
            guard number < 500 else { throw WorldFailure("500 operations were struck and there are more") }
            guard number > last || isIn(number) else { continue }
            let place = try DiskFolder()
            var work = place.work
            try FileManager.default.copyItem(atPath: stage.path, toPath: work)
            let disk = FaultyDisk(folder: work)
            let lasts = effect == .isFull || effect == .isCutShort
            disk.arm(.init(number: number, effect, lasts: lasts))
            var said: [String] = []
            do {
                let found = try open(work, disk)
                if let objection = found.objection { said.append("while it fails: \(objection)") }
            } catch {
                if "\(error)".isEmpty { said.append("it failed without a sentence") }
            }
            let isStruck = disk.disarm()
            // What the store does beside its opening may make one more or less.
            isOver = !isStruck && number > last
            disk.detach()
            if effect == .losesPower, isStruck {
                work = place.path + "/left"
                try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
                try disk.cutPower(number % 2 == 0 ? .keepsNothing : .keepsSome(seed: UInt64(number)), leaving: work)
            }
            do {
                let (objection, integrity) = try open(work, nil)
                if let objection { said.append("after the next start: \(objection)") }
                if integrity != "ok" { said.append(integrity) }
            } catch {
                said.append("the next start failed: \(error)")
            }
            report.objections += said.map { "layout \(version), \(effect), operation \(number): \($0)" }
            report.runs += 1
        }
        return report
    }

    /// How many there are about, of those that the effect can strike.
    private func operations(
        of stage: String,
        _ open: (_ folder: String, FaultyDisk?) throws -> (objection: String?, report: String)
    ) throws -> Int {
        let place = try DiskFolder()
        let work = place.work
        try FileManager.default.copyItem(atPath: stage, toPath: work)
        let disk = FaultyDisk(folder: work)
        defer { disk.detach() }
        disk.arm(.init(number: .max, effect))
        _ = try open(work, disk)
        return disk.count
    }
}
