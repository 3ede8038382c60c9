import Foundation
import Records
import Testing

/// Whole worlds: no acknowledged change is lost, whatever goes wrong, and what would lose one is found.
@Suite(.timeLimit(.minutes(15))) struct SimulationTests {
    /// In all; each with another relay, other devices, another network.
    private static let seeds = 240

    @Test(arguments: 0..<3) func noSeedGoesWrong(_ part: Int) async throws {
        let (first, count) = (1 + part * Self.seeds / 3, Self.seeds / 3)
        let run = try await SimulateProgram.run("--seeds", "\(first)..<\(first + count)")
        #expect(run.isGood, "\(run.output)")
        #expect(run.total("seeds") == "\(count)")
    }

    /// Objects that are linked in every way, and names that are used again, by every policy.
    @Test func linkedMirrorsHoldTheSame() async throws {
        let run = try await SimulateProgram.run("--mirrors", "--seeds", "1..<41")
        #expect(run.isGood, "\(run.output)")
        #expect(run.total("seeds") == "40")
    }

    @Test func oneSeedIsOneRun() async throws {
        let first = try await SimulateProgram.run("--seeds", "1..<6")
        let second = try await SimulateProgram.run("--seeds", "1..<6")
        let other = try await SimulateProgram.run("--seeds", "6..<11")
        #expect(first.total("fingerprint") != nil)
        #expect(first.total("fingerprint") == second.total("fingerprint"))
        #expect(first.total("fingerprint") != other.total("fingerprint"))
    }

    /// Assets are files also of a relay that has its records in memory.
    @Test func aRunLeavesNothingBehind() async throws {
        let home = FileManager.default.temporaryDirectory.appendingPathComponent("simulate-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: home) }
        let run = try await SimulateProgram.run("--seeds", "1..<13", home: home)
        #expect(run.isGood, "\(run.output)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path) == [])
    }

    /// However many programs are ended where they stand: some fifty files a run those of mirrors would keep.
    @Test func aRunLeavesNoFilesOpen() async throws {
        let run = try await SimulateProgram.run("--mirrors", "--seeds", "1..<9")
        #expect(run.isGood, "\(run.output)")
        #expect(run.total("openFiles").flatMap { Int($0) } ?? .max < 60, "\(run.output)")
    }

    /// As long as that holds, an application's tests of sync can be as many as its other ones.
    ///
    /// Less than 50 ms it is meant to be, on a machine where the piece of work takes 5 to 8 ms; on one half as fast it is
    /// no worse for taking 80. So what counts is how many pieces of work it takes: four to six, when this was written.
    @Test func aTestOfTwoUsersCostsNextToNothing() async throws {
        let run = try await SimulateProgram.run("--two-users", "10")
        let pieces = try #require(run.total("pieces").flatMap { Double($0) })
        #expect(run.isGood, "\(run.output)")
        #expect(pieces > 0 && pieces < 14, "\(run.output)")
    }

    #if DEBUG
        /// Within three hundred runs, however slow the machine.
        @Test(arguments: PlantedFault.allCases) func isFound(_ fault: PlantedFault) async throws {
            let first = fault.firstSeed
            let run = try await SimulateProgram.run("--seeds", "\(first)..<\(first + 300)", "--plant", fault.rawValue)
            #expect(run.isGood, "\(fault) was not found: \(run.output)")
        }

        /// Options, steps, what is wrong, the trace and how to come to it again; and fewer steps that do the same.
        @Test func aSeedThatFailsIsToldWholeWithFewerSteps() async throws {
            let run = try await SimulateProgram.run("--seed", "400", "--plant", "sentForAnother", "--tries", "24")
            #expect(run.isGood, "\(run.output)")
            let enough = try #require(run.output.firstMatch(of: /(\d+) of (\d+) steps are enough/), "\(run.output)")
            #expect(Int(enough.1) ?? .max < Int(enough.2) ?? 0)
            for part in [
                "FAILED seed 400: ", "weather: ", "invariant f: ", "otherUser", "The last of the trace:",
                "To repeat it: simulate --seed 400 --trace --plant sentForAnother",
            ] {
                #expect(run.output.contains(part), "\(part) is missing: \(run.output)")
            }
        }

        /// For each invariant of Reliability.md, "Invariants", there is a planted fault that breaks it.
        @Test func everyInvariantHasAFault() {
            #expect(String(Set(PlantedFault.allCases.map(\.invariant)).sorted()) == "abcdefghijkl")
        }
    #endif
}

extension PlantedFault {
    /// Where the search begins: most are met soon anywhere, and for the others here, when this was written.
    fileprivate var firstSeed: Int {
        switch self {
        case .tokenBeforeData: 540
        case .linkLetsInTwo: 472
        case .uploadResumedWrong, .usedFileCleared: 417
        default: 400
        }
    }

    /// Which of Reliability.md, "Invariants", it breaks first.
    fileprivate var invariant: Character {
        switch self {
        case .answerBeforeCommit, .usedFileCleared, .pageSumUnchecked, .logCopiedWithGap: "a"
        case .tokenOneTooFar, .databaseTokenTooFar, .newerVersionCleared, .tokenBeforeData, .epochOutlivesRestore: "b"
        case .numberOutsideTransaction, .numberReused: "c"
        case .tombstoneDropped, .horizonUnheeded: "d"
        case .noticeBeforeCommit, .participantUntold: "e"
        case .strangerToldApart, .sentForAnother: "f"
        case .atomicBatchTorn, .moveTorn: "g"
        case .changeTagUnchecked, .linkLetsInTwo: "h"
        case .repeatAppliedTwice, .uploadResumedWrong: "i"
        case .removedParticipantServed, .socketOutlivesSignOut, .revokedSignInRemembered, .readerWrites: "j"
        case .fullDiskStops: "k"
        case .connectionKept: "l"
        }
    }
}
