/// Cancellation of rounds.
extension SyncDriver {
    /// Fetching and sending run concurrently; each of them runs one round at a time.
    enum Lane { case fetching, sending }

    /// Cancels the running rounds and those that wait.
    ///
    /// A round that is waiting for its delegate ends before its next request.
    func cancelOperations() {
        cancellations += 1
        requests.values.forEach { $0() }
    }

    /// Returns whether the current round of this kind was cancelled.
    func isRoundCancelled(_ lane: Lane) -> Bool { cancellationsBeforeRound[lane] != cancellations }

    /// Runs a request of a round in its own task, so that `cancelOperations` can cancel it.
    ///
    /// The request is sent only as the user for whom the round was started.
    func cancellable<Result: Sendable>(
        _ lane: Lane,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard !isRoundCancelled(lane) else { throw CancellationError() }
        return try await cancellable(work)
    }

    /// Runs a request that belongs to no round in its own task.
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
