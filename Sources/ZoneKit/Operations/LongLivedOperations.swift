/// Long-lived operations, which this SDK does not support: an app that looks for them finds none and starts again.
extension CKContainer {
    /// Returns the IDs of operations from an earlier run: always an empty array.
    public func allLongLivedOperationIDs() async throws -> [CKOperation.ID] { [] }

    /// Returns an operation from an earlier run: always `nil`.
    public func longLivedOperation(for operationID: CKOperation.ID) async throws -> CKOperation? { nil }

    /// Fetches the IDs of operations from an earlier run: always an empty array.
    @preconcurrency
    public func fetchAllLongLivedOperationIDs(
        completionHandler: @escaping @Sendable ([CKOperation.ID]?, (any Error)?) -> Void
    ) {
        Task(executorPreference: OwnThreads.lane) { completionHandler([], nil) }
    }

    /// Fetches an operation from an earlier run: always `nil`.
    @preconcurrency
    public func fetchLongLivedOperation(
        withID operationID: CKOperation.ID,
        completionHandler: @escaping @Sendable (CKOperation?, (any Error)?) -> Void
    ) {
        Task(executorPreference: OwnThreads.lane) { completionHandler(nil, nil) }
    }
}
