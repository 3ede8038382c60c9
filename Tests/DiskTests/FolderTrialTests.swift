import DiskTrials
import Testing

/// Backups, restores and resets on disks that fail and lose power.
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
}
