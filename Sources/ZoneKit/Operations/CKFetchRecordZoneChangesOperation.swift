public import Foundation

/// Fetches what has changed in some zones, one zone after the other.
open class CKFetchRecordZoneChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// How to fetch one zone.
    public typealias ZoneConfiguration = CKFetchRecordZoneChangesConfiguration
    /// The older name of `ZoneConfiguration`.
    public typealias ZoneOptions = ZoneConfiguration

    /// The zones, in the order in which they are fetched.
    open var recordZoneIDs: [CKRecordZone.ID]?
    /// How to fetch each; one without is fetched from the start.
    open var configurationsByRecordZoneID: [CKRecordZone.ID: ZoneConfiguration]?
    /// Whether to go on in each zone until there is no more; else one answer per zone is all.
    open var fetchAllChanges = true

    /// The older name of `configurationsByRecordZoneID`.
    open var optionsByRecordZoneID: [CKRecordZone.ID: ZoneOptions]? {
        get { configurationsByRecordZoneID }
        set { configurationsByRecordZoneID = newValue }
    }

    /// Told of each record that is new or changed; the older form of `recordWasChangedBlock`, not called where that is set.
    @Block open var recordChangedBlock: ((CKRecord) -> Void)?
    /// Told of each record that is new or changed.
    @Block open var recordWasChangedBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Told of each record that is gone.
    @Block open var recordWithIDWasDeletedBlock: ((CKRecord.ID, CKRecord.RecordType) -> Void)?
    /// Told how far the caller has come in a zone, after each answer; after the last one before the zone's end is told.
    @Block open var recordZoneChangeTokensUpdatedBlock: ((CKRecordZone.ID, CKServerChangeToken?, Data?) -> Void)?
    /// Told at the end of each zone; the older form of `recordZoneFetchResultBlock`.
    @Block open var recordZoneFetchCompletionBlock:
        ((CKRecordZone.ID, CKServerChangeToken?, Data?, Bool, (any Error)?) -> Void)?
    /// Told at the end of each zone how far the caller has come in it, and whether there is more.
    @Block open var recordZoneFetchResultBlock:
        (
            (
                _ recordZoneID: CKRecordZone.ID,
                _ fetchChangesResult: Result<
                    (serverChangeToken: CKServerChangeToken, clientChangeTokenData: Data?, moreComing: Bool), any Error
                >
            ) -> Void
        )?
    /// Told at the end; the older form of `fetchRecordZoneChangesResultBlock`.
    @Block open var fetchRecordZoneChangesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var fetchRecordZoneChangesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that fetches some zones.
    ///
    /// - Parameters:
    ///   - recordZoneIDs: The zones.
    ///   - configurationsByRecordZoneID: How to fetch each.
    public convenience init(
        recordZoneIDs: [CKRecordZone.ID]? = nil,
        configurationsByRecordZoneID: [CKRecordZone.ID: ZoneConfiguration]? = nil
    ) {
        self.init()
        self.recordZoneIDs = recordZoneIDs
        self.configurationsByRecordZoneID = configurationsByRecordZoneID
    }

    /// An operation that fetches some zones, in the older words.
    ///
    /// - Parameters:
    ///   - recordZoneIDs: The zones.
    ///   - optionsByRecordZoneID: How to fetch each.
    public convenience init(
        recordZoneIDs: [CKRecordZone.ID],
        optionsByRecordZoneID: [CKRecordZone.ID: ZoneOptions]?
    ) {
        self.init(recordZoneIDs: recordZoneIDs, configurationsByRecordZoneID: optionsByRecordZoneID)
    }

    package override func perform() async {
        var errors: [AnyHashable: any Error] = [:]
        var failure: CKError?
        var fetchedAny = false
        let database = resolvedDatabase
        let user = (try? database.session.connection()).map(AccountBinding.ofNow)
        for zoneID in recordZoneIDs ?? [] {
            if let failure {
                tellEnd(of: zoneID, .failure(failure))
                continue
            }
            do throws(CKError) {
                try await fetch(zoneID, from: database, for: user, &errors)
                fetchedAny = true
            } catch {
                tellEnd(of: zoneID, .failure(error))
                errors[zoneID] = error
                // What is no single zone's trouble would meet the others too.
                if !error.isOfZone, error.code != .changeTokenExpired, error.code != .invalidArguments {
                    failure = error
                }
            }
        }
        let error = failure ?? (errors.isEmpty ? nil : CKError.partialFailure(errors))
        fetchRecordZoneChangesCompletionBlock?(error)
        let result = CKError.operationResult(of: errors, anySucceeded: fetchedAny)
        fetchRecordZoneChangesResultBlock?(failure.map { .failure($0) } ?? result)
    }

    /// One zone, page by page.
    private func fetch(
        _ zoneID: CKRecordZone.ID,
        from database: CKDatabase,
        for user: AccountBinding?,
        _ errors: inout [AnyHashable: any Error]
    ) async throws(CKError) {
        let configuration = configurationsByRecordZoneID?[zoneID] ?? ZoneConfiguration()
        var token = configuration.previousServerChangeToken
        var progress = FeedProgress()
        while true {
            try requireNotCancelled()
            let ask = { () async throws(CKError) in
                try await database.zoneChangesPage(
                    in: zoneID,
                    since: token,
                    desiredKeys: configuration.desiredKeys,
                    limit: configuration.resultsLimit > 0 ? configuration.resultsLimit : nil
                )
            }
            let page = if let user { try await user.during(ask) } else { try await ask() }
            try progress.accept(page.changeToken, after: token, moreComing: page.moreComing)
            try tell(page, &errors)
            token = page.changeToken
            recordZoneChangeTokensUpdatedBlock?(zoneID, page.changeToken, nil)
            guard page.moreComing, fetchAllChanges else {
                return tellEnd(of: zoneID, .success((page.changeToken, nil, page.moreComing)))
            }
        }
    }

    /// Throws where a block has broken the operation off: the page's token is not told then, so that what is left of it comes
    /// again.
    private func tell(
        _ page: CKDatabase.ZoneChangesPage,
        _ errors: inout [AnyHashable: any Error]
    ) throws(CKError) {
        for record in page.records {
            try requireNotCancelled()
            if let recordWasChangedBlock {
                recordWasChangedBlock(record.recordID, .success(record))
            } else {
                recordChangedBlock?(record)
            }
        }
        for (id, error) in page.failures {
            try requireNotCancelled()
            recordWasChangedBlock?(id, .failure(error))
            errors[id] = error
        }
        for deletion in page.deletions {
            try requireNotCancelled()
            recordWithIDWasDeletedBlock?(deletion.recordID, deletion.recordType)
        }
        try requireNotCancelled()
    }

    private func tellEnd(
        of zoneID: CKRecordZone.ID,
        _ result: Result<
            (serverChangeToken: CKServerChangeToken, clientChangeTokenData: Data?, moreComing: Bool), any Error
        >
    ) {
        recordZoneFetchResultBlock?(zoneID, result)
        switch result {
        case .success(let end): recordZoneFetchCompletionBlock?(zoneID, end.serverChangeToken, nil, end.moreComing, nil)
        case .failure(let error): recordZoneFetchCompletionBlock?(zoneID, nil, nil, false, error)
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _recordChangedBlock.letGo()
        _recordWasChangedBlock.letGo()
        _recordWithIDWasDeletedBlock.letGo()
        _recordZoneChangeTokensUpdatedBlock.letGo()
        _recordZoneFetchCompletionBlock.letGo()
        _recordZoneFetchResultBlock.letGo()
        _fetchRecordZoneChangesCompletionBlock.letGo()
        _fetchRecordZoneChangesResultBlock.letGo()
    }
}
