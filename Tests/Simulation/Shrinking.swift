/// Finds a smaller set of steps that still fails.
package struct Shrinking<Step> {
    private let tries: Int
    private let run: ([Step]) -> Simulation.Outcome?

    /// - Parameters:
    ///   - tries: The maximum number of runs.
    ///   - run: Runs steps with the settings of the failed run; returns `nil` if the run cannot begin.
    package init(tries: Int, run: @escaping ([Step]) -> Simulation.Outcome?) {
        self.tries = tries
        self.run = run
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
                if let outcome = run(fewer), outcome.violations.first?.prefix(11) == first.violations.first?.prefix(11)
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
