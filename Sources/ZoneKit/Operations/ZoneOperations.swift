/// Creates and deletes zones.
open class CKModifyRecordZonesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The zones to create.
    open var recordZonesToSave: [CKRecordZone]?
    /// The IDs of the zones to delete with all their records.
    open var recordZoneIDsToDelete: [CKRecordZone.ID]?

    /// Called with the result of each creation.
    @Block open var perRecordZoneSaveBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ saveResult: Result<CKRecordZone, any Error>) -> Void)?
    /// Called with the result of each deletion.
    @Block open var perRecordZoneDeleteBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Called at the end with the created and deleted zones, and with `partialFailure` if some changes failed.
    @Block open var modifyRecordZonesCompletionBlock:
        (
            (
                _ savedRecordZones: [CKRecordZone]?, _ deletedRecordZoneIDs: [CKRecordZone.ID]?,
                _ operationError: (any Error)?
            ) -> Void
        )?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var modifyRecordZonesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that creates and deletes zones.
    ///
    /// - Parameters:
    ///   - recordZonesToSave: The zones to create.
    ///   - recordZoneIDsToDelete: The IDs of the zones to delete.
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
}

/// Fetches zones with their capabilities.
open class CKFetchRecordZonesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The IDs of the zones; `nil` for all zones of the database.
    open var recordZoneIDs: [CKRecordZone.ID]?

    /// Called with the result of each zone.
    @Block open var perRecordZoneResultBlock:
        ((_ recordZoneID: CKRecordZone.ID, _ recordZoneResult: Result<CKRecordZone, any Error>) -> Void)?
    /// Called at the end with the found zones, and with `partialFailure` if some could not be fetched.
    @Block open var fetchRecordZonesCompletionBlock:
        ((_ recordZonesByZoneID: [CKRecordZone.ID: CKRecordZone]?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var fetchRecordZonesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an operation that fetches all zones unless `recordZoneIDs` is set.
    public override init() { super.init() }

    /// Creates an operation that fetches zones.
    public convenience init(recordZoneIDs zoneIDs: [CKRecordZone.ID]) {
        self.init()
        recordZoneIDs = zoneIDs
    }

    /// Creates an operation that fetches all zones of the database.
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
}
