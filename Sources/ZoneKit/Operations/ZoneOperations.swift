/// Creates and deletes zones.
open class CKModifyRecordZonesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// Zones to create.
    open var recordZonesToSave: [CKRecordZone]?
    /// Zones to delete with all their records.
    open var recordZoneIDsToDelete: [CKRecordZone.ID]?

    /// Told what became of each zone to create.
    @Block open var perRecordZoneSaveBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ saveResult: Result<CKRecordZone, any Error>) -> Void)?
    /// Told what became of each zone to delete.
    @Block open var perRecordZoneDeleteBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Told at the end what was created and deleted, and `partialFailure` if something failed.
    @Block open var modifyRecordZonesCompletionBlock:
        (
            (
                _ savedRecordZones: [CKRecordZone]?, _ deletedRecordZoneIDs: [CKRecordZone.ID]?,
                _ operationError: (any Error)?
            ) -> Void
        )?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var modifyRecordZonesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that creates and deletes zones.
    ///
    /// - Parameters:
    ///   - recordZonesToSave: Zones to create.
    ///   - recordZoneIDsToDelete: Zones to delete.
    public convenience init(
        recordZonesToSave: [CKRecordZone]? = nil,
        recordZoneIDsToDelete: [CKRecordZone.ID]? = nil
    ) {
        self.init()
        self.recordZonesToSave = recordZonesToSave
        self.recordZoneIDsToDelete = recordZoneIDsToDelete
    }

    package override func perform() async {
        var tally = OperationTally<CKRecordZone, CKRecordZone.ID>()
        do {
            try requireNotCancelled()
            let saves = recordZonesToSave ?? []
            let deletes = recordZoneIDsToDelete ?? []
            let results = try await resolvedDatabase.modifyRecordZones(saving: saves, deleting: deletes)
            for zone in saves {
                guard let result = results.saveResults[zone.zoneID] else { continue }
                perRecordZoneSaveBlock?(zone.zoneID, result)
                tally.saved(zone.zoneID, result)
            }
            for id in deletes {
                guard let result = results.deleteResults[id] else { continue }
                perRecordZoneDeleteBlock?(id, result)
                tally.deleted(id, result)
            }
        } catch {
            modifyRecordZonesCompletionBlock?(nil, nil, error)
            modifyRecordZonesResultBlock?(.failure(error))
            return
        }
        modifyRecordZonesCompletionBlock?(tally.saved, tally.deleted, tally.failure)
        modifyRecordZonesResultBlock?(tally.result)
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perRecordZoneSaveBlock.letGo()
        _perRecordZoneDeleteBlock.letGo()
        _modifyRecordZonesCompletionBlock.letGo()
        _modifyRecordZonesResultBlock.letGo()
    }
}

/// Fetches zones with their capabilities.
open class CKFetchRecordZonesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The zones; `nil`: all of the database.
    open var recordZoneIDs: [CKRecordZone.ID]?

    /// Told what became of each zone.
    @Block open var perRecordZoneResultBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ recordZoneResult: Result<CKRecordZone, any Error>) -> Void)?
    /// Told at the end what was found, and `partialFailure` if something failed.
    @Block open var fetchRecordZonesCompletionBlock:
        ((_ recordZonesByZoneID: [CKRecordZone.ID: CKRecordZone]?, _ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var fetchRecordZonesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation that fetches all zones until it is told which.
    public override init() { super.init() }

    /// An operation that fetches these zones.
    public convenience init(recordZoneIDs zoneIDs: [CKRecordZone.ID]) {
        self.init()
        recordZoneIDs = zoneIDs
    }

    /// An operation that fetches all zones of the database.
    open class func fetchAllRecordZonesOperation() -> CKFetchRecordZonesOperation { CKFetchRecordZonesOperation() }

    package override func perform() async {
        var found: [CKRecordZone.ID: CKRecordZone] = [:]
        var errors: [AnyHashable: any Error] = [:]
        do {
            try requireNotCancelled()
            for (id, result) in try await results() {
                perRecordZoneResultBlock?(id, result)
                switch result {
                case .success(let zone): found[id] = zone
                case .failure(let error): errors[id] = error
                }
            }
        } catch {
            fetchRecordZonesCompletionBlock?(nil, error)
            fetchRecordZonesResultBlock?(.failure(error))
            return
        }
        let failure = errors.isEmpty ? nil : CKError.partialFailure(errors)
        fetchRecordZonesCompletionBlock?(found, failure)
        fetchRecordZonesResultBlock?(CKError.operationResult(of: errors, anySucceeded: !found.isEmpty))
    }

    private func results() async throws -> [(CKRecordZone.ID, Result<CKRecordZone, any Error>)] {
        guard let recordZoneIDs else {
            return try await resolvedDatabase.allRecordZones().map { ($0.zoneID, .success($0)) }
        }
        let results = try await resolvedDatabase.recordZones(for: recordZoneIDs)
        return recordZoneIDs.compactMap { id in results[id].map { (id, $0) } }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perRecordZoneResultBlock.letGo()
        _fetchRecordZonesCompletionBlock.letGo()
        _fetchRecordZonesResultBlock.letGo()
    }
}
