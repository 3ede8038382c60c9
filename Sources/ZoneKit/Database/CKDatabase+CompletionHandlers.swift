import Foundation

/// Variants of the async methods for callers without tasks.
///
/// Each method does the same as the async method named in its description. It calls its completion handler once, on any
/// thread, with a value or an error.
extension CKDatabase {
    func run<Value>(
        _ completionHandler: @escaping @Sendable (Value?, (any Error)?) -> Void,
        _ body: @escaping @Sendable () async throws -> sending Value?
    ) {
        Task(executorPreference: BlockingThreads.executor) {
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
        Task(executorPreference: BlockingThreads.executor) {
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

/// Variants of the async methods for zones and subscriptions, for callers without tasks.
///
/// Each method does the same as the async method named in its description. It calls its completion handler once, on any
/// thread, with a value or an error.
extension CKDatabase {
    // MARK: Zones

    /// Fetches all zones; see `allRecordZones()`.
    @preconcurrency
    public func fetchAllRecordZones(
        completionHandler: @escaping @Sendable ([CKRecordZone]?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.allRecordZones() }
    }

    /// Fetches a zone; see `recordZone(for:)`.
    @preconcurrency
    public func fetch(
        withRecordZoneID zoneID: CKRecordZone.ID,
        completionHandler: @escaping @Sendable (CKRecordZone?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.recordZone(for: zoneID) }
    }

    /// Creates a zone; see `save(_:)`.
    @preconcurrency
    public func save(
        _ zone: CKRecordZone,
        completionHandler: @escaping @Sendable (CKRecordZone?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.save(zone) }
    }

    /// Deletes a zone; see `deleteRecordZone(withID:)`.
    @preconcurrency
    public func delete(
        withRecordZoneID zoneID: CKRecordZone.ID,
        completionHandler: @escaping @Sendable (CKRecordZone.ID?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.deleteRecordZone(withID: zoneID) }
    }

    /// Creates and deletes zones; see `modifyRecordZones(saving:deleting:)`.
    @preconcurrency
    public func modifyRecordZones(
        saving recordZonesToSave: [CKRecordZone],
        deleting recordZoneIDsToDelete: [CKRecordZone.ID],
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        saveResults: [CKRecordZone.ID: Result<CKRecordZone, any Error>],
                        deleteResults: [CKRecordZone.ID: Result<Void, any Error>]
                    ), any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.modifyRecordZones(saving: recordZonesToSave, deleting: recordZoneIDsToDelete)
        }
    }

    /// Fetches zones; see `recordZones(for:)`.
    @preconcurrency
    public func fetch(
        withRecordZoneIDs zoneIDs: [CKRecordZone.ID],
        completionHandler:
            @escaping @Sendable (Result<[CKRecordZone.ID: Result<CKRecordZone, any Error>], any Error>) -> Void
    ) {
        run(completionHandler) { try await self.recordZones(for: zoneIDs) }
    }

    // MARK: Changes

    /// Fetches the zones that have changed; see `databaseChanges(since:resultsLimit:)`.
    @preconcurrency
    public func fetchDatabaseChanges(
        since previousServerChangeToken: CKServerChangeToken?,
        resultsLimit: Int? = nil,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        modifications: [CKDatabase.DatabaseChange.Modification],
                        deletions: [CKDatabase.DatabaseChange.Deletion],
                        changeToken: CKServerChangeToken, moreComing: Bool
                    ), any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.databaseChanges(since: previousServerChangeToken, resultsLimit: resultsLimit)
        }
    }

    /// Fetches a zone's changes; see `recordZoneChanges(inZoneWith:since:desiredKeys:resultsLimit:)`.
    @preconcurrency
    public func fetchRecordZoneChanges(
        inZoneWith zoneID: CKRecordZone.ID,
        since previousServerChangeToken: CKServerChangeToken?,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int? = nil,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        modificationResultsByID: [CKRecord.ID: Result<
                            CKDatabase.RecordZoneChange.Modification, any Error
                        >],
                        deletions: [CKDatabase.RecordZoneChange.Deletion],
                        changeToken: CKServerChangeToken, moreComing: Bool
                    ), any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.recordZoneChanges(
                inZoneWith: zoneID,
                since: previousServerChangeToken,
                desiredKeys: desiredKeys,
                resultsLimit: resultsLimit
            )
        }
    }

    // MARK: Subscriptions

    /// Fetches a subscription; see `subscription(for:)`.
    @preconcurrency
    public func fetch(
        withSubscriptionID subscriptionID: CKSubscription.ID,
        completionHandler: @escaping @Sendable (CKSubscription?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.subscription(for: subscriptionID) }
    }

    /// Fetches subscriptions; see `subscriptions(for:)`.
    @preconcurrency
    public func fetch(
        withSubscriptionIDs subscriptionIDs: [CKSubscription.ID],
        completionHandler:
            @escaping @Sendable (Result<[CKSubscription.ID: Result<CKSubscription, any Error>], any Error>) -> Void
    ) {
        run(completionHandler) { try await self.subscriptions(for: subscriptionIDs) }
    }

    /// Saves and deletes subscriptions; see `modifySubscriptions(saving:deleting:)`.
    @preconcurrency
    public func modifySubscriptions(
        saving subscriptionsToSave: [CKSubscription],
        deleting subscriptionIDsToDelete: [CKSubscription.ID],
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        saveResults: [CKSubscription.ID: Result<CKSubscription, any Error>],
                        deleteResults: [CKSubscription.ID: Result<Void, any Error>]
                    ), any Error
                >
            ) -> Void
    ) {
        run(completionHandler) {
            try await self.modifySubscriptions(saving: subscriptionsToSave, deleting: subscriptionIDsToDelete)
        }
    }

    /// Fetches all subscriptions; see `allSubscriptions()`.
    @preconcurrency
    public func fetchAllSubscriptions(
        completionHandler: @escaping @Sendable ([CKSubscription]?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.allSubscriptions() }
    }

    /// Saves a subscription; see `save(_:)`.
    @preconcurrency
    public func save(
        _ subscription: CKSubscription,
        completionHandler: @escaping @Sendable (CKSubscription?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.save(subscription) }
    }

    /// Deletes a subscription; see `deleteSubscription(withID:)`.
    @preconcurrency
    public func delete(
        withSubscriptionID subscriptionID: CKSubscription.ID,
        completionHandler: @escaping @Sendable (CKSubscription.ID?, (any Error)?) -> Void
    ) {
        run(completionHandler) { try await self.deleteSubscription(withID: subscriptionID) }
    }
}
