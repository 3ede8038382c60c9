import Records
import Testing

/// Whole worlds: no acknowledged change is lost, whatever goes wrong, and what would lose one is found.
@Suite(.timeLimit(.minutes(5))) struct SimulationTests {
    /// In all; each with another relay, other devices, another network.
    private static let seeds = 120

    @Test(arguments: 0..<2) func noSeedGoesWrong(_ half: Int) async throws {
        let (first, count) = (1 + half * Self.seeds / 2, Self.seeds / 2)
        let run = try await SimulateProgram.run("--seeds", "\(first)..<\(first + count)")
        #expect(run.isGood, "\(run.output)")
        #expect(run.total("seeds") == "\(count)")
    }

    @Test func oneSeedIsOneRun() async throws {
        let first = try await SimulateProgram.run("--seeds", "1..<6")
        let second = try await SimulateProgram.run("--seeds", "1..<6")
        let other = try await SimulateProgram.run("--seeds", "6..<11")
        #expect(first.total("fingerprint") != nil)
        #expect(first.total("fingerprint") == second.total("fingerprint"))
        #expect(first.total("fingerprint") != other.total("fingerprint"))
    }

    #if DEBUG
        /// As many seeds as an idle core runs in a minute: the clock of a busy machine would say nothing.
        @Test(arguments: PlantedFault.allCases) func isFound(_ fault: PlantedFault) async throws {
            let run = try await SimulateProgram.run("--seeds", "400..<600", "--plant", fault.rawValue)
            #expect(run.isGood, "\(fault) was not found: \(run.output)")
        }
    #endif
}
