package import Foundation

/// Finds a smaller set of steps that still fails.
package struct Shrinking {
    private let scenario: Scenario
    private let home: URL
    private let tries: Int

    /// - Parameters:
    ///   - scenario: The settings of the run.
    ///   - home: A folder for the files of the runs.
    ///   - tries: The maximum number of runs.
    package init(_ scenario: Scenario, home: URL, tries: Int) {
        self.scenario = scenario
        self.home = home
        self.tries = tries
    }

    /// Removes ever smaller parts of the steps, as long as the rest violates the same invariant.
    package func shrink(_ steps: [Step], from first: Simulation.Outcome) -> ([Step], Simulation.Outcome?) {
        var (best, found) = (steps, Simulation.Outcome?.none)
        var part = max(1, steps.count / 2)
        var left = tries
        while left > 0 {
            var isShorter = false
            var start = 0
            while start < best.count, left > 0 {
                left -= 1
                var fewer = best
                fewer.removeSubrange(start..<min(start + part, best.count))
                if let outcome = try? Simulation(scenario, steps: fewer, home: home).run(),
                    outcome.violations.first?.prefix(11) == first.violations.first?.prefix(11)
                {
                    (best, found, isShorter) = (fewer, outcome, true)
                } else {
                    start += part
                }
            }
            if part == 1, !isShorter { break }
            part = max(1, part / 2)
        }
        return (best, found)
    }
}
