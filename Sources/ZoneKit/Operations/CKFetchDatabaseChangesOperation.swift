/// Fetches the zones of a private or shared database that have changed.
open class CKFetchDatabaseChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of zones per response; 0 for the relay's maximum.
    open var resultsLimit = 0
    /// Whether to continue until there are no more changes.
    ///
    /// If `false`, the operation ends after one response.
    open var fetchAllChanges = true

    /// Called for each zone that was created or changed.
    @Block open var recordZoneWithIDChangedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted.
    @Block open var recordZoneWithIDWasDeletedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted because the user erased the app's data.
    ///
    /// If `nil`, `recordZoneWithIDWasDeletedBlock` is called instead.
    @Block open var recordZoneWithIDWasPurgedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted because the user reset the encrypted data.
    ///
    /// If `nil`, `recordZoneWithIDWasDeletedBlock` is called instead.
    @Block open var recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock: ((CKRecordZone.ID) -> Void)?
    /// Called with the new token after each response.
    @Block open var changeTokenUpdatedBlock: ((CKServerChangeToken) -> Void)?
    /// Called at the end; the older form of `fetchDatabaseChangesResultBlock`.
    @Block open var fetchDatabaseChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ moreComing: Bool, _ operationError: (any Error)?) -> Void)?
    /// Called at the end with the token, and whether there are more changes.
    @Block open var fetchDatabaseChangesResultBlock:
        ((_ operationResult: Result<(serverChangeToken: CKServerChangeToken, moreComing: Bool), any Error>) -> Void)?

    /// Creates an operation that fetches from the beginning.
    public override init() { super.init() }

    /// Creates an operation that fetches the changes after a token.
    public convenience init(previousServerChangeToken: CKServerChangeToken?) {
        self.init()
        self.previousServerChangeToken = previousServerChangeToken
    }

    package override func perform() async {
        var token = previousServerChangeToken
        var progress = FeedProgress()
        do {
            let database = resolvedDatabase
            while true {
                try requireNotCancelled()
                let page = try await database.databaseChanges(
                    since: token,
                    resultsLimit: resultsLimit > 0 ? resultsLimit : nil
                )
                try progress.accept(page.changeToken, after: token, moreComing: page.moreComing)
                for modification in page.modifications {
                    try requireNotCancelled()
                    recordZoneWithIDChangedBlock?(modification.zoneID)
                }
                for deletion in page.deletions {
                    try requireNotCancelled()
                    tell(deletion)
                }
                // If a block cancels the operation within a page, the page's token is not reported, so the rest of it
                // is fetched again.
                try requireNotCancelled()
                token = page.changeToken
                changeTokenUpdatedBlock?(page.changeToken)
                if page.moreComing && fetchAllChanges { continue }
                fetchDatabaseChangesCompletionBlock?(page.changeToken, page.moreComing, nil)
                fetchDatabaseChangesResultBlock?(.success((page.changeToken, page.moreComing)))
                return
            }
        } catch {
            fetchDatabaseChangesCompletionBlock?(token, false, error)
            fetchDatabaseChangesResultBlock?(.failure(error))
        }
    }

    private func tell(_ deletion: CKDatabase.DatabaseChange.Deletion) {
        switch deletion.reason {
        case .deleted: recordZoneWithIDWasDeletedBlock?(deletion.zoneID)
        case .purged: (recordZoneWithIDWasPurgedBlock ?? recordZoneWithIDWasDeletedBlock)?(deletion.zoneID)
        case .encryptedDataReset:
            let block = recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock ?? recordZoneWithIDWasDeletedBlock
            block?(deletion.zoneID)
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _recordZoneWithIDChangedBlock.letGo()
        _recordZoneWithIDWasDeletedBlock.letGo()
        _recordZoneWithIDWasPurgedBlock.letGo()
        _recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock.letGo()
        _changeTokenUpdatedBlock.letGo()
        _fetchDatabaseChangesCompletionBlock.letGo()
        _fetchDatabaseChangesResultBlock.letGo()
    }
}
