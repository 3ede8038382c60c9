import DiskTrials
import Testing

/// Backups, restores, resets and files of older layouts on disks that fail and lose power.
@Suite(.timeLimit(.minutes(15))) struct FolderTrialTests {
    static let effects: [FaultyDisk.Fault.Effect] = [.fails, .isFull, .isCutShort, .losesPower]

    @Test(arguments: FolderTrials.Action.allCases)
    func anInterruptedActionLeavesTheOldOrTheNewFolder(_ action: FolderTrials.Action) async throws {
        let stage = try await FolderStage.shared()
        for (index, effect) in Self.effects.enumerated() {
            // Each operation gets one of the effects; compactions and copies sample their operations. A soak covers all
            // of them.
            let every = action == .compact ? 96 : action == .copy ? 16 : 4
            let report = try await FolderTrials(action, effect).run(on: stage) { $0 % every == index * every / 4 }
            #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
            #expect(report.runs > 1)
        }
    }

    @Test(arguments: 1..<LayoutTrials.stores) func aStoreOfAnOlderLayoutIsMigrated(version: Int) async throws {
        let effect = Self.effects[version % Self.effects.count]
        // After the first operations all layouts take the same path, so each version tests a third of them. A soak
        // tests all.
        let report = try await LayoutTrials(version: version, effect).runStore { $0 < 12 || $0 % 3 == version / 4 % 3 }
        #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
        #expect(report.runs > 4)
    }

    @Test(arguments: 1..<LayoutTrials.accounts) func accountsOfAnOlderLayoutAreMigrated(version: Int) async throws {
        for effect in Self.effects {
            let report = try await LayoutTrials(version: version, effect).runAccounts()
            #expect(report.objections.isEmpty, "\(report.objections.joined(separator: "\n"))")
            #expect(report.runs > 4)
        }
    }
}
