/// How what is under way ends before its time.
extension SyncDriver {
    /// The two ways that go on side by side, each one round at a time.
    enum Lane { case fetching, sending }

    /// Ends the rounds that are under way, and those that were asked for and wait their turn.
    ///
    /// A round that is between two requests, with its delegate at work, ends before the next one.
    func cancelOperations() {
        cancellations += 1
        requests.values.forEach { $0() }
    }

    /// Whether the round that goes on there was cancelled.
    func isRoundCancelled(_ lane: Lane) -> Bool { cancellationsBeforeRound[lane] != cancellations }

    /// Runs a request of a round in a task of its own, so that `cancelOperations` can end it, and for the user for whom
    /// the round was begun only.
    func cancellable<Result: Sendable>(
        _ lane: Lane,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard !isRoundCancelled(lane) else { throw CancellationError() }
        return try await cancellable(work)
    }

    /// The same for a request that belongs to no round.
    func cancellable<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        lastTask += 1
        let id = lastTask
        let binding = try checkedAccount.map { AccountBinding(try database.session.connection(), generation: $0) }
        let task: Task<Result, any Error> = conditions.time.start {
            try await AccountBinding.$current.withValue(binding) { try await work() }
        }
        requests[id] = { task.cancel() }
        defer { requests[id] = nil }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
