/// Fetches records by their IDs.
open class CKFetchRecordsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The IDs of the records to fetch.
    open var recordIDs: [CKRecord.ID]?
    /// The fields to fetch; `nil` for all fields.
    open var desiredKeys: [CKRecord.FieldKey]?
    private var fetchesCurrentUser = false

    /// Called with the progress of each record, from 0 to 1.
    @Block open var perRecordProgressBlock: ((CKRecord.ID, Double) -> Void)?
    /// Called with the result of each record; the older form of `perRecordResultBlock`.
    @Block open var perRecordCompletionBlock: ((CKRecord?, CKRecord.ID?, (any Error)?) -> Void)?
    /// Called with the result of each record.
    @Block open var perRecordResultBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Called at the end with the found records, and with `partialFailure` if some could not be fetched.
    @Block open var fetchRecordsCompletionBlock:
        ((_ recordsByRecordID: [CKRecord.ID: CKRecord]?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var fetchRecordsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that fetches records.
    public convenience init(recordIDs: [CKRecord.ID]) {
        self.init()
        self.recordIDs = recordIDs
    }

    /// Creates an operation that fetches the current user's record, which is in the public database of every container.
    open class func fetchCurrentUserRecordOperation() -> CKFetchRecordsOperation {
        let operation = CKFetchRecordsOperation()
        operation.fetchesCurrentUser = true
        return operation
    }

    package override func perform() async {
        var found: [CKRecord.ID: CKRecord] = [:]
        var errors: [AnyHashable: any Error] = [:]
        do {
            try requireNotCancelled()
            var database = resolvedDatabase
            var ids = recordIDs ?? []
            if fetchesCurrentUser {
                let container = CKContainer(sharing: database.session)
                database = container.publicCloudDatabase.configured(requestSettings(on: container.session))
                ids = [try await container.userRecordID()]
            }
            let results = try await database.records(for: ids, desiredKeys: desiredKeys)
            for id in ids {
                guard let result = results[id] else { continue }
                try requireNotCancelled()
                perRecordProgressBlock?(id, 1)
                perRecordResultBlock?(id, result)
                switch result {
                case .success(let record):
                    found[id] = record
                    perRecordCompletionBlock?(record, id, nil)
                case .failure(let error):
                    errors[id] = error
                    perRecordCompletionBlock?(nil, id, error)
                }
            }
            // A block may have cancelled the operation.
            try requireNotCancelled()
        } catch {
            fetchRecordsCompletionBlock?(nil, error)
            fetchRecordsResultBlock?(.failure(error))
            return
        }
        let failure = errors.isEmpty ? nil : CKError.partialFailure(errors)
        fetchRecordsCompletionBlock?(found, failure)
        fetchRecordsResultBlock?(CKError.operationResult(of: errors, anySucceeded: !found.isEmpty))
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perRecordProgressBlock.letGo()
        _perRecordCompletionBlock.letGo()
        _perRecordResultBlock.letGo()
        _fetchRecordsCompletionBlock.letGo()
        _fetchRecordsResultBlock.letGo()
    }
}
