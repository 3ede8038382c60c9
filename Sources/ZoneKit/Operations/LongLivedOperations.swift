/// Operations that outlive a process: there are none here, so a program that looks for them finds none and begins anew.
extension CKContainer {
    /// The operations that are still under way from an earlier run: none.
    public func allLongLivedOperationIDs() async throws -> [CKOperation.ID] { [] }

    /// An operation of an earlier run: none.
    public func longLivedOperation(for operationID: CKOperation.ID) async throws -> CKOperation? { nil }

    /// The operations that are still under way from an earlier run: none.
    @preconcurrency
    public func fetchAllLongLivedOperationIDs(
        completionHandler: @escaping @Sendable ([CKOperation.ID]?, (any Error)?) -> Void
    ) {
        Task(executorPreference: OwnThreads.lane) { completionHandler([], nil) }
    }

    /// An operation of an earlier run: none.
    @preconcurrency
    public func fetchLongLivedOperation(
        withID operationID: CKOperation.ID,
        completionHandler: @escaping @Sendable (CKOperation?, (any Error)?) -> Void
    ) {
        Task(executorPreference: OwnThreads.lane) { completionHandler(nil, nil) }
    }
}
