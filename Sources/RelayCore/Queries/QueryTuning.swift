/// The thresholds at which a query changes its plan, and the limits on its time.
///
/// The results are the same with any values.
package struct QueryTuning: Sendable {
    /// Records that a query may look at before it needs an index: as many as a page, which is cheap without one.
    package var recordsWithoutIndex = 200
    /// Records that a query may look at on a thread that answers requests, which takes a few milliseconds at most.
    ///
    /// Beyond this it starts again on a thread of its own.
    package var recordsAtOnce = 500
    /// Entries up to which an option is taken as it is; with more, the options are counted further.
    package var fewEntries = 1_000
    /// Entries of the best filter from which walking in the order of the results is cheaper, since most records match.
    package var manyEntries = 5_000
    /// The longest time that the statements of one query may run.
    package var longestRun = Duration.seconds(5)
    /// The longest time that a query waits for missing indexes.
    package var longestWait = Duration.seconds(20)

    package init() {}
}
