/// Fetches which zones of a private or shared database have changed.
open class CKFetchDatabaseChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// How far the caller has come; `nil`: from the start.
    open var previousServerChangeToken: CKServerChangeToken?
    /// At most so many zones in one answer; 0: as many as the relay gives.
    open var resultsLimit = 0
    /// Whether to go on until there is no more; else one answer is all.
    open var fetchAllChanges = true

    /// Told of each zone that is new or changed.
    @Block open var recordZoneWithIDChangedBlock: ((CKRecordZone.ID) -> Void)?
    /// Told of each zone that is gone.
    @Block open var recordZoneWithIDWasDeletedBlock: ((CKRecordZone.ID) -> Void)?
    /// Told of each zone that went because the user erased the application's data; else the block above is.
    @Block open var recordZoneWithIDWasPurgedBlock: ((CKRecordZone.ID) -> Void)?
    /// Told of each zone that went because the user reset the key of their encrypted data; else the first block is.
    @Block open var recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock: ((CKRecordZone.ID) -> Void)?
    /// Told how far the caller has come, after each answer.
    @Block open var changeTokenUpdatedBlock: ((CKServerChangeToken) -> Void)?
    /// Told at the end; the older form of `fetchDatabaseChangesResultBlock`.
    @Block open var fetchDatabaseChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ moreComing: Bool, _ operationError: (any Error)?) -> Void)?
    /// Told at the end how far the caller has come, and whether there is more.
    @Block open var fetchDatabaseChangesResultBlock:
        ((_ operationResult: Result<(serverChangeToken: CKServerChangeToken, moreComing: Bool), any Error>) -> Void)?

    /// An operation that fetches from the start until it is told otherwise.
    public override init() { super.init() }

    /// An operation that fetches what came after a token.
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
                // The token of a page that a block has broken off is not told: what is left of it comes again.
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
