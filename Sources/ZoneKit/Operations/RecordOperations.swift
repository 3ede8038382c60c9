public import Foundation

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
}

/// Runs a query and fetches one page of results.
open class CKQueryOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The value of `resultsLimit` for the relay's maximum.
    public static let maximumResults = 0

    /// The position at which a page of results ended.
    public typealias Cursor = CKQueryCursor

    /// The query to run.
    open var query: CKQuery?
    /// The position at which the previous page ended; used instead of a query.
    open var cursor: Cursor?
    /// The zone to search; `nil` for all zones of the database.
    open var zoneID: CKRecordZone.ID?
    /// The maximum number of records, up to 200; 0 for the relay's maximum.
    open var resultsLimit = CKQueryOperation.maximumResults
    /// The fields to fetch; `nil` for all fields.
    open var desiredKeys: [CKRecord.FieldKey]?

    /// Called for each record; the older form of `recordMatchedBlock`.
    ///
    /// Not called if `recordMatchedBlock` is set.
    @Block open var recordFetchedBlock: ((CKRecord) -> Void)?
    /// Called for each record.
    @Block open var recordMatchedBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Called at the end with the next cursor; the older form of `queryResultBlock`.
    @Block open var queryCompletionBlock: ((_ cursor: Cursor?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end with the cursor of the next page, or `nil` if there are no more results.
    @Block open var queryResultBlock: ((_ operationResult: Result<Cursor?, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that fetches the first page of results.
    public convenience init(query: CKQuery) {
        self.init()
        self.query = query
    }

    /// Creates an operation that fetches the next page of results.
    public convenience init(cursor: Cursor) {
        self.init()
        self.cursor = cursor
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            let page = try await self.page()
            for (id, result) in page.matchResults {
                try requireNotCancelled()
                if let recordMatchedBlock {
                    recordMatchedBlock(id, result)
                } else if case .success(let record) = result {
                    recordFetchedBlock?(record)
                }
            }
            // A block may have cancelled the operation.
            try requireNotCancelled()
            queryCompletionBlock?(page.queryCursor, nil)
            queryResultBlock?(.success(page.queryCursor))
        } catch {
            queryCompletionBlock?(nil, error)
            queryResultBlock?(.failure(error))
        }
    }

    private func page() async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: Cursor?
    ) {
        let database = resolvedDatabase
        if let cursor {
            return try await database.records(
                continuingMatchFrom: cursor,
                desiredKeys: desiredKeys,
                resultsLimit: resultsLimit
            )
        }
        guard let query else { throw CKError(.invalidArguments, "A query operation needs a query or a cursor.") }
        return try await database.records(
            matching: query,
            inZoneWith: zoneID,
            desiredKeys: desiredKeys,
            resultsLimit: resultsLimit
        )
    }
}

/// Saves and deletes records.
open class CKModifyRecordsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The behavior of a save if the relay has another version of the record.
    ///
    /// A `CKShare` is always saved with `ifServerRecordUnchanged`.
    public enum RecordSavePolicy: Int, Sendable {
        /// The save fails with `serverRecordChanged`.
        ///
        /// Only changed fields are sent.
        case ifServerRecordUnchanged = 0
        /// The changed fields overwrite the relay's values.
        case changedKeys = 1
        /// All fields of the local copy overwrite the relay's values; fields that only the relay's version has are
        /// unchanged.
        case allKeys = 2
    }

    /// The records to save.
    open var recordsToSave: [CKRecord]?
    /// The IDs of the records to delete, whatever their version on the relay is.
    open var recordIDsToDelete: [CKRecord.ID]?
    /// The behavior if the relay has another version of a record.
    open var savePolicy = RecordSavePolicy.ifServerRecordUnchanged
    /// Has no effect; it exists for source compatibility.
    open var clientChangeTokenData: Data?
    /// Whether the changes in each custom zone succeed or fail together.
    open var isAtomic = true

    /// Called with the upload progress of each record's files, from 0 to 1.
    @Block open var perRecordProgressBlock: ((CKRecord, Double) -> Void)?
    /// Called with the result of each save; the older form of `perRecordSaveBlock`.
    ///
    /// Not called if `perRecordSaveBlock` is set.
    @Block open var perRecordCompletionBlock: ((CKRecord, (any Error)?) -> Void)?
    /// Called with the result of each save.
    @Block open var perRecordSaveBlock: ((_ recordID: CKRecord.ID, _ saveResult: Result<CKRecord, any Error>) -> Void)?
    /// Called with the result of each deletion.
    @Block open var perRecordDeleteBlock: ((_ recordID: CKRecord.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Called at the end with the saved and deleted records, and with `partialFailure` if some changes failed.
    @Block open var modifyRecordsCompletionBlock:
        ((_ savedRecords: [CKRecord]?, _ deletedRecordIDs: [CKRecord.ID]?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var modifyRecordsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that saves and deletes records.
    ///
    /// - Parameters:
    ///   - recordsToSave: The records to save.
    ///   - recordIDsToDelete: The IDs of the records to delete.
    public convenience init(recordsToSave: [CKRecord]? = nil, recordIDsToDelete: [CKRecord.ID]? = nil) {
        self.init()
        self.recordsToSave = recordsToSave
        self.recordIDsToDelete = recordIDsToDelete
    }

    package override func perform() async {
        var tally = OperationTally<CKRecord, CKRecord.ID>()
        do {
            try requireNotCancelled()
            let database = resolvedDatabase
            try database.rejectDuplicates(recordsToSave ?? [], recordIDsToDelete ?? [])
            try await database.modify(
                saving: recordsToSave ?? [],
                deleting: recordIDsToDelete ?? [],
                savePolicy: savePolicy,
                atomically: isAtomic
            ) { event in
                switch event {
                case .progress(let record, let share): perRecordProgressBlock?(record, share)
                case .saved(let record, let result):
                    tell(record, result)
                    tally.saved(record.recordID, result)
                case .deleted(let id, let result):
                    perRecordDeleteBlock?(id, result)
                    tally.deleted(id, result)
                }
            }
            // A cancellation that coincided with the end of a request still cancels the operation.
            if tally.failure != nil { try requireNotCancelled() }
        } catch {
            let (saved, deleted) = (tally.saved, tally.deleted)
            modifyRecordsCompletionBlock?(saved.isEmpty ? nil : saved, deleted.isEmpty ? nil : deleted, error)
            modifyRecordsResultBlock?(.failure(error))
            return
        }
        modifyRecordsCompletionBlock?(tally.saved, tally.deleted, tally.failure)
        modifyRecordsResultBlock?(tally.result)
    }

    private func tell(_ record: CKRecord, _ result: Result<CKRecord, any Error>) {
        if let perRecordSaveBlock { return perRecordSaveBlock(record.recordID, result) }
        switch result {
        case .success(let record): perRecordCompletionBlock?(record, nil)
        case .failure(let error): perRecordCompletionBlock?(record, error)
        }
    }
}
