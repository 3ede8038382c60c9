/// From which numbers on a query goes about its work in another way, and how long it may take.
///
/// The answer is the same with any numbers.
package struct QueryTuning: Sendable {
    /// Records that a query may look at before it asks for an index: a page's worth, since what is so small needs none.
    package var recordsWithoutIndex = 200
    /// Records that a query may look at on the thread that answers requests, for some milliseconds at the most; beyond, it
    /// begins anew beside it.
    package var recordsAtOnce = 500
    /// So few entries are visited rather than counted more exactly.
    package var fewEntries = 1_000
    /// With more than so many matches of the best filter it is cheaper to walk in the order of the results, most of which
    /// will match.
    package var manyEntries = 5_000
    /// The longest that the statements of one query may run.
    package var longestRun = RunTime.query
    /// How long a query waits for the indexes that it lacks.
    package var longestWait = Duration.seconds(20)

    package init() {}
}
