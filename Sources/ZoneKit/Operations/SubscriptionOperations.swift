/// Saves and deletes subscriptions.
open class CKModifySubscriptionsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// What to watch.
    open var subscriptionsToSave: [CKSubscription]?
    /// What to watch no more.
    open var subscriptionIDsToDelete: [CKSubscription.ID]?

    /// Told what became of each subscription to save.
    @Block open var perSubscriptionSaveBlock:
        ((_ subscriptionID: CKSubscription.ID, _ saveResult: Result<CKSubscription, any Error>) -> Void)?
    /// Told what became of each subscription to delete.
    @Block open var perSubscriptionDeleteBlock:
        ((_ subscriptionID: CKSubscription.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Told at the end what was saved and deleted, and `partialFailure` if something failed.
    @Block open var modifySubscriptionsCompletionBlock:
        (
            (
                _ savedSubscriptions: [CKSubscription]?, _ deletedSubscriptionIDs: [CKSubscription.ID]?,
                _ operationError: (any Error)?
            ) -> Void
        )?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var modifySubscriptionsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that saves and deletes subscriptions.
    ///
    /// - Parameters:
    ///   - subscriptionsToSave: What to watch.
    ///   - subscriptionIDsToDelete: What to watch no more.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perSubscriptionSaveBlock.letGo()
        _perSubscriptionDeleteBlock.letGo()
        _modifySubscriptionsCompletionBlock.letGo()
        _modifySubscriptionsResultBlock.letGo()
    }
}

/// Fetches subscriptions.
open class CKFetchSubscriptionsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// Their names; `nil`: all of the user's in the database.
    open var subscriptionIDs: [CKSubscription.ID]?

    /// Told what became of each subscription.
    @Block open var perSubscriptionResultBlock:
        ((_ subscriptionID: CKSubscription.ID, _ subscriptionResult: Result<CKSubscription, any Error>) -> Void)?
    /// Told at the end what was found, and `partialFailure` if something failed.
    @Block open var fetchSubscriptionCompletionBlock:
        (
            (_ subscriptionsBySubscriptionID: [CKSubscription.ID: CKSubscription]?, _ operationError: (any Error)?) ->
                Void
        )?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    @Block open var fetchSubscriptionsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation that fetches all subscriptions until it is told which.
    public override init() { super.init() }

    /// An operation that fetches these subscriptions.
    public convenience init(subscriptionIDs: [CKSubscription.ID]) {
        self.init()
        self.subscriptionIDs = subscriptionIDs
    }

    /// An operation that fetches all of the user's subscriptions in the database.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perSubscriptionResultBlock.letGo()
        _fetchSubscriptionCompletionBlock.letGo()
        _fetchSubscriptionsResultBlock.letGo()
    }
}
