/// Finds records, one page at a time.
open class CKQueryOperation: CKDatabaseOperation, @unchecked Sendable {
    /// As many results as the relay gives in one answer.
    public static let maximumResults = 0

    /// Where a query's page ended.
    public typealias Cursor = CKQueryCursor

    /// Which records, in what order.
    open var query: CKQuery?
    /// Where the page before ended, instead of a query.
    open var cursor: Cursor?
    /// Where to look; `nil`: in all zones of the database.
    open var zoneID: CKRecordZone.ID?
    /// At most so many records, 200 at the most.
    open var resultsLimit = CKQueryOperation.maximumResults
    /// The fields wanted; `nil`: all.
    open var desiredKeys: [CKRecord.FieldKey]?

    /// Told of each record; the older form of `recordMatchedBlock`, not called where that is set.
    @Block open var recordFetchedBlock: ((CKRecord) -> Void)?
    /// Told of each record.
    @Block open var recordMatchedBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Told at the end where to go on; the older form of `queryResultBlock`.
    @Block open var queryCompletionBlock: ((_ cursor: Cursor?, _ operationError: (any Error)?) -> Void)?
    /// Told at the end where to go on, `nil` if there is no more.
    @Block open var queryResultBlock: ((_ operationResult: Result<Cursor?, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that finds the first records.
    public convenience init(query: CKQuery) {
        self.init()
        self.query = query
    }

    /// An operation that finds the next records.
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
            // A block may have cancelled it.
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
