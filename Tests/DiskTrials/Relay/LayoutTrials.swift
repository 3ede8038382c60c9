import Foundation
import GRDB
import RelayCore
import RelayStore

/// Files of every older layout, opened on a disk that fails at each operation in turn.
///
/// A start that fails reports an error and leaves the file unchanged. The next start on a good disk finds everything
/// that the file held.
package struct LayoutTrials: Sendable {
    /// The number of migrations that the file already has.
    package var version: Int
    package var effect: FaultyDisk.Fault.Effect

    package init(version: Int, _ effect: FaultyDisk.Fault.Effect) {
        self.version = version
        self.effect = effect
    }

    /// The number of layouts that a store has had, and those of the accounts.
    package static var stores: Int { EarlierLayout.storeVersions }
    package static var accounts: Int { EarlierLayout.accountVersions }

    private static let records = 40

    /// Opens a store's file.
    ///
    /// `isIn` selects the operations that fail, counted from 1.
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
            guard number < 500 else { throw WorldFailure("500 operations failed and there are more") }
            guard number > last || isIn(number) else { continue }
            let place = try DiskFolder()
            var work = place.work
            try FileManager.default.copyItem(atPath: stage.path, toPath: work)
            let disk = FaultyDisk(folder: work)
            let lasts = effect == .isFull || effect == .isCutShort
            disk.arm(.init(number: number, effect, lasts: lasts))
            var problems: [String] = []
            do {
                let found = try open(work, disk)
                if let objection = found.objection { problems.append("while it fails: \(objection)") }
            } catch {
                if "\(error)".isEmpty { problems.append("it failed without a reason") }
            }
            let isStruck = disk.disarm()
            // The store's background work can make one operation more or less.
            isOver = !isStruck && number > last
            disk.detach()
            if effect == .losesPower, isStruck {
                work = place.path + "/left"
                try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
                try disk.cutPower(number % 2 == 0 ? .keepsNothing : .keepsSome(seed: UInt64(number)), leaving: work)
            }
            do {
                let (objection, integrity) = try open(work, nil)
                if let objection { problems.append("after the next start: \(objection)") }
                if integrity != "ok" { problems.append(integrity) }
            } catch {
                problems.append("the next start failed: \(error)")
            }
            report.objections += problems.map { "layout \(version), \(effect), operation \(number): \($0)" }
            report.runs += 1
        }
        return report
    }

    /// The approximate number of operations that the effect can affect.
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
