/// The executor that finishes a request after its write is on disk: the event loop of its connection.
package protocol AnswerLane: Sendable {
    /// Runs the job on this executor; runs it synchronously if the caller is already there.
    func run(_ job: @escaping @Sendable () -> Void)
}

/// Runs the job on the thread that reports the outcome of the write.
struct NoLane: AnswerLane {
    func run(_ job: @escaping @Sendable () -> Void) { job() }
}
