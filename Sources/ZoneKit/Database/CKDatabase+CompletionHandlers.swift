import Foundation

/// Variants of the async methods for callers without tasks.
///
/// Each method does the same as the async method named in its description. It calls its completion handler once, on any
/// thread, with a value or an error.
extension CKDatabase {
    func run<Value>(
        _ completionHandler: @escaping @Sendable (Value?, (any Error)?) -> Void,
        _ body: @escaping @Sendable () async throws -> sending Value
    ) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(try await body(), nil)
            } catch {
                completionHandler(nil, error)
            }
        }
    }

    func run<Value>(
        _ completionHandler: @escaping @Sendable (Result<Value, any Error>) -> Void,
        _ body: @escaping @Sendable () async throws -> sending Value
    ) {
        Task(executorPreference: OwnThreads.lane) {
            do {
                completionHandler(.success(try await body()))
            } catch {
                completionHandler(.failure(error))
            }
        }
    }

    // MARK: Records

    /// Fetches a record; see `record(for:)`.
    @preconcurrency
    public func fetch(
        withRecordID recordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKRecord?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.record(for: recordID) }
    }

    /// Fetches records; see `records(for:desiredKeys:)`.
    @preconcurrency
    public func fetch(
        withRecordIDs recordIDs: [CKRecord.ID],
        desiredKeys: [CKRecord.FieldKey]? = nil,
        completionHandler: @escaping @Sendable (Result<[CKRecord.ID: Result<CKRecord, any Error>], any Error>) -> Void
    ) {
        run(completionHandler) { try await self.records(for: recordIDs, desiredKeys: desiredKeys) }
    }

    /// Saves a record; see `save(_:)`.
    @preconcurrency
    public func save(
        _ record: CKRecord,
        completionHandler: @escaping @Sendable (CKRecord?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.save(record) }
    }

    /// Deletes a record; see `deleteRecord(withID:)`.
    @preconcurrency
    public func delete(
        withRecordID recordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKRecord.ID?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.deleteRecord(withID: recordID) }
    }

    /// Saves and deletes records; see `modifyRecords(saving:deleting:savePolicy:atomically:)`.
    @preconcurrency
    public func modifyRecords(
        saving recordsToSave: [CKRecord],
        deleting recordIDsToDelete: [CKRecord.ID],
        savePolicy: CKModifyRecordsOperation.RecordSavePolicy = .ifServerRecordUnchanged,
        atomically: Bool = true,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        saveResults: [CKRecord.ID: Result<CKRecord, any Error>],
                        deleteResults: [CKRecord.ID: Result<Void, any Error>]
                    ), any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.modifyRecords(
                saving: recordsToSave,
                deleting: recordIDsToDelete,
                savePolicy: savePolicy,
                atomically: atomically
            )
        }
    }

    // MARK: Queries

    /// Fetches all records that a query matches, page by page.
    ///
    /// - Parameters:
    ///   - query: The query to run.
    ///   - zoneID: The zone to search; `nil` for all zones of the database.
    /// - Returns: The records in the query's order.
    /// - Throws: The errors of `records(matching:inZoneWith:desiredKeys:resultsLimit:)`.
    public func perform(_ query: CKQuery, inZoneWith zoneID: CKRecordZone.ID?) async throws -> [CKRecord] {
        var (results, cursor) = try await records(matching: query, inZoneWith: zoneID)
        var found = try results.map { try $0.1.get() }
        while let next = cursor {
            (results, cursor) = try await records(continuingMatchFrom: next)
            found += try results.map { try $0.1.get() }
        }
        return found
    }

    /// Fetches all records that a query matches; see `perform(_:inZoneWith:)`.
    @preconcurrency
    public func perform(
        _ query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID?,
        completionHandler: @escaping @Sendable ([CKRecord]?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.perform(query, inZoneWith: zoneID) }
    }

    /// Fetches the first page of a query; see `records(matching:inZoneWith:desiredKeys:resultsLimit:)`.
    @preconcurrency
    public func fetch(
        withQuery query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?),
                    any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.records(
                matching: query,
                inZoneWith: zoneID,
                desiredKeys: desiredKeys,
                resultsLimit: resultsLimit
            )
        }
    }

    /// Fetches the next page of a query; see `records(continuingMatchFrom:desiredKeys:resultsLimit:)`.
    @preconcurrency
    public func fetch(
        withCursor queryCursor: CKQueryOperation.Cursor,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?),
                    any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.records(
                continuingMatchFrom: queryCursor,
                desiredKeys: desiredKeys,
                resultsLimit: resultsLimit
            )
        }
    }
}
