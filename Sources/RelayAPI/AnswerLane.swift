/// Where the rest of a request is done once its write is on disk: the line of work that its connection lives on.
package protocol AnswerLane: Sendable {
    /// Has the job done there, at once where the caller is there already.
    func run(_ job: @escaping @Sendable () -> Void)
}

/// Does the rest wherever the store hands out its outcome.
struct NoLane: AnswerLane {
    func run(_ job: @escaping @Sendable () -> Void) { job() }
}
