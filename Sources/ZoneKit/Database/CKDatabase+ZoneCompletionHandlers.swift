import Foundation

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
