/// Saves and deletes subscriptions.
open class CKModifySubscriptionsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The subscriptions to save.
    open var subscriptionsToSave: [CKSubscription]?
    /// The IDs of the subscriptions to delete.
    open var subscriptionIDsToDelete: [CKSubscription.ID]?

    /// Called with the result of each save.
    @Block open var perSubscriptionSaveBlock:
        ((_ subscriptionID: CKSubscription.ID, _ saveResult: Result<CKSubscription, any Error>) -> Void)?
    /// Called with the result of each deletion.
    @Block open var perSubscriptionDeleteBlock:
        ((_ subscriptionID: CKSubscription.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Called at the end with the saved and deleted subscriptions, and with `partialFailure` if some changes failed.
    @Block open var modifySubscriptionsCompletionBlock:
        (
            (
                _ savedSubscriptions: [CKSubscription]?, _ deletedSubscriptionIDs: [CKSubscription.ID]?,
                _ operationError: (any Error)?
            ) -> Void
        )?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var modifySubscriptionsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that saves and deletes subscriptions.
    ///
    /// - Parameters:
    ///   - subscriptionsToSave: The subscriptions to save.
    ///   - subscriptionIDsToDelete: The IDs of the subscriptions to delete.
    public convenience init(
        subscriptionsToSave: [CKSubscription]? = nil,
        subscriptionIDsToDelete: [CKSubscription.ID]? = nil
    ) {
        self.init()
        self.subscriptionsToSave = subscriptionsToSave
        self.subscriptionIDsToDelete = subscriptionIDsToDelete
    }

    package override func perform() async {
        var tally = OperationTally<CKSubscription, CKSubscription.ID>()
        do {
            try requireNotCancelled()
            let saves = subscriptionsToSave ?? []
            let deletes = subscriptionIDsToDelete ?? []
            let results = try await resolvedDatabase.modifySubscriptions(saving: saves, deleting: deletes)
            for subscription in saves {
                let id = subscription.subscriptionID
                guard let result = results.saveResults[id] else { continue }
                perSubscriptionSaveBlock?(id, result)
                tally.saved(id, result)
            }
            for id in deletes {
                guard let result = results.deleteResults[id] else { continue }
                perSubscriptionDeleteBlock?(id, result)
                tally.deleted(id, result)
            }
        } catch {
            modifySubscriptionsCompletionBlock?(nil, nil, error)
            modifySubscriptionsResultBlock?(.failure(error))
            return
        }
        modifySubscriptionsCompletionBlock?(tally.saved, tally.deleted, tally.failure)
        modifySubscriptionsResultBlock?(tally.result)
    }
}

/// Fetches subscriptions.
open class CKFetchSubscriptionsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The IDs of the subscriptions; `nil` for all of the user's subscriptions in the database.
    open var subscriptionIDs: [CKSubscription.ID]?

    /// Called with the result of each subscription.
    @Block open var perSubscriptionResultBlock:
        ((_ subscriptionID: CKSubscription.ID, _ subscriptionResult: Result<CKSubscription, any Error>) -> Void)?
    /// Called at the end with the found subscriptions, and with `partialFailure` if some could not be fetched.
    @Block open var fetchSubscriptionCompletionBlock:
        (
            (_ subscriptionsBySubscriptionID: [CKSubscription.ID: CKSubscription]?, _ operationError: (any Error)?) ->
                Void
        )?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them.
    @Block open var fetchSubscriptionsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an operation that fetches all subscriptions unless `subscriptionIDs` is set.
    public override init() { super.init() }

    /// Creates an operation that fetches subscriptions.
    public convenience init(subscriptionIDs: [CKSubscription.ID]) {
        self.init()
        self.subscriptionIDs = subscriptionIDs
    }

    /// Creates an operation that fetches all of the user's subscriptions in the database.
    open class func fetchAllSubscriptionsOperation() -> CKFetchSubscriptionsOperation {
        CKFetchSubscriptionsOperation()
    }

    package override func perform() async {
        var found: [CKSubscription.ID: CKSubscription] = [:]
        var errors: [AnyHashable: any Error] = [:]
        do {
            try requireNotCancelled()
            for (id, result) in try await results() {
                perSubscriptionResultBlock?(id, result)
                switch result {
                case .success(let subscription): found[id] = subscription
                case .failure(let error): errors[id] = error
                }
            }
        } catch {
            fetchSubscriptionCompletionBlock?(nil, error)
            fetchSubscriptionsResultBlock?(.failure(error))
            return
        }
        let failure = errors.isEmpty ? nil : CKError.partialFailure(errors)
        fetchSubscriptionCompletionBlock?(found, failure)
        fetchSubscriptionsResultBlock?(.success(()))
    }

    private func results() async throws -> [(CKSubscription.ID, Result<CKSubscription, any Error>)] {
        guard let subscriptionIDs else {
            return try await resolvedDatabase.allSubscriptions().map { ($0.subscriptionID, .success($0)) }
        }
        let results = try await resolvedDatabase.subscriptions(for: subscriptionIDs)
        return subscriptionIDs.compactMap { id in results[id].map { (id, $0) } }
    }
}
