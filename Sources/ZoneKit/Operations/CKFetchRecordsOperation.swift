/// Fetches records by their addresses.
open class CKFetchRecordsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The addresses.
    open var recordIDs: [CKRecord.ID]?
    /// The fields wanted; `nil`: all.
    open var desiredKeys: [CKRecord.FieldKey]?
    private var fetchesCurrentUser = false

    /// Told how much of a record has come, from 0 to 1.
    @Block open var perRecordProgressBlock: ((CKRecord.ID, Double) -> Void)?
    /// Told what became of each record; the older form of `perRecordResultBlock`.
    @Block open var perRecordCompletionBlock: ((CKRecord?, CKRecord.ID?, (any Error)?) -> Void)?
    /// Told what became of each record.
    @Block open var perRecordResultBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Told at the end what was found, and `partialFailure` if something failed.
    @Block open var fetchRecordsCompletionBlock:
        ((_ recordsByRecordID: [CKRecord.ID: CKRecord]?, _ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var fetchRecordsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that fetches these records.
    public convenience init(recordIDs: [CKRecord.ID]) {
        self.init()
        self.recordIDs = recordIDs
    }

    /// An operation that fetches the current user's own record, which every container has in its public database.
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
            // A block may have cancelled it.
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
