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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _recordFetchedBlock.letGo()
        _recordMatchedBlock.letGo()
        _queryCompletionBlock.letGo()
        _queryResultBlock.letGo()
    }
}
