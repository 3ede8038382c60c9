import Foundation
import Records
import SyncCore
import Wire

extension CKDatabase {
    /// Fetches a subscription by its ID.
    ///
    /// - Parameter subscriptionID: The ID of the subscription.
    /// - Returns: The subscription.
    /// - Throws: `unknownItem` if it does not exist, and the errors of any request.
    public func subscription(for subscriptionID: CKSubscription.ID) async throws -> CKSubscription {
        let results = try await subscriptions(for: [subscriptionID])
        guard let result = results[subscriptionID] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Fetches subscriptions by their IDs.
    ///
    /// - Parameter ids: The IDs of the subscriptions.
    /// - Returns: A subscription or an error for each ID.
    /// - Throws: An error that concerns the request as a whole.
    public func subscriptions(
        for ids: [CKSubscription.ID]
    ) async throws -> [CKSubscription.ID: Result<CKSubscription, any Error>] {
        var reader = RecordReader(scope: scope, caller: try session.connection().caller)
        let document = try await call("subscriptions/lookup", ClientRequest.lookup(subscriptions: ids))
        var results: [CKSubscription.ID: Result<CKSubscription, any Error>] = [:]
        for entry in try subscriptionEntries(document) {
            switch entry {
            case .subscription(let found): results[found.id] = .success(make(found, &reader))
            case .failed(let id?, let failure): results[id] = .failure(CKError(failure, at: .item))
            case .deleted, .failed(nil, _): continue
            }
        }
        for id in ids where results[id] == nil { results[id] = .failure(CKError(.unknownItem)) }
        return results
    }

    /// Fetches all subscriptions of the current user in this database.
    public func allSubscriptions() async throws -> [CKSubscription] {
        var reader = RecordReader(scope: scope, caller: try session.connection().caller)
        let document = try await call("subscriptions/list")
        return try subscriptionEntries(document).compactMap { entry in
            guard case .subscription(let found) = entry else { return nil }
            return make(found, &reader)
        }
    }

    /// Saves a subscription, replacing one with the same ID.
    ///
    /// - Parameter subscription: The subscription to save. The public database supports only query subscriptions.
    /// - Returns: The saved subscription.
    /// - Throws: `invalidArguments` if the relay does not support the subscription, `badDatabase` for subscriptions to
    ///   zones and databases in the public database, and the errors of any request.
    @discardableResult
    public func save(_ subscription: CKSubscription) async throws -> CKSubscription {
        let results = try await modifySubscriptions(saving: [subscription], deleting: [])
        guard let result = results.saveResults[subscription.subscriptionID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes a subscription.
    ///
    /// Succeeds if it does not exist.
    ///
    /// - Parameter subscriptionID: The ID of the subscription.
    /// - Returns: The same ID.
    /// - Throws: The errors of any request.
    @discardableResult
    public func deleteSubscription(withID subscriptionID: CKSubscription.ID) async throws -> CKSubscription.ID {
        let results = try await modifySubscriptions(saving: [], deleting: [subscriptionID])
        try results.deleteResults[subscriptionID]?.get()
        return subscriptionID
    }

    /// Saves and deletes subscriptions.
    ///
    /// - Parameters:
    ///   - subscriptionsToSave: The subscriptions to save.
    ///   - subscriptionIDsToDelete: The IDs of the subscriptions to delete.
    /// - Returns: The result of each subscription.
    /// - Throws: `badDatabase` for subscriptions to zones and databases in the public database, or an error that
    ///   concerns the request as a whole.
    public func modifySubscriptions(
        saving subscriptionsToSave: [CKSubscription],
        deleting subscriptionIDsToDelete: [CKSubscription.ID]
    ) async throws -> (
        saveResults: [CKSubscription.ID: Result<CKSubscription, any Error>],
        deleteResults: [CKSubscription.ID: Result<Void, any Error>]
    ) {
        try requireFeed(for: subscriptionsToSave)
        var wanted: [Subscription] = []
        for subscription in subscriptionsToSave where subscription.refusal == nil {
            wanted.append(try await namingCaller(in: subscription.subscription))
        }
        var entries: ArraySlice<ClientResponse.SubscriptionEntry> = []
        let user = AccountBinding.ofNow(try session.connection())
        let isRefusedWhole = wanted.isEmpty && subscriptionIDsToDelete.isEmpty && !subscriptionsToSave.isEmpty
        for part in BatchLimits.parts(wanted, subscriptionIDsToDelete) where !isRefusedWhole {
            let body = ClientRequest.modify(creating: part.first, deleting: part.second)
            let document = try await user.during { () throws(CKError) in
                try await call("subscriptions/modify", body, isWrite: true)
            }
            entries += try subscriptionEntries(document)
        }
        var saves: [CKSubscription.ID: Result<CKSubscription, any Error>] = [:]
        var deletes: [CKSubscription.ID: Result<Void, any Error>] = [:]
        let missing = CKError(.internalError, "The relay's response does not contain this subscription.")
        for saved in subscriptionsToSave {
            if let refusal = saved.refusal {
                saves[saved.subscriptionID] = .failure(refusal)
                continue
            }
            let result: Result<CKSubscription, any Error> =
                switch entries.popFirst() {
                case .subscription, .deleted: .success(saved)
                case .failed(_, let failure): .failure(CKError(failure, at: .item))
                case nil: .failure(missing)
                }
            saves[saved.subscriptionID] = result
        }
        for id in subscriptionIDsToDelete {
            let result: Result<Void, any Error> =
                switch entries.popFirst() {
                case .subscription, .deleted: .success(())
                case .failed(_, let failure): .failure(CKError(failure, at: .item))
                case nil: .failure(missing)
                }
            deletes[id] = result
        }
        return (saves, deletes)
    }

    private func make(_ found: Subscription, _ reader: inout RecordReader) -> CKSubscription {
        if let query = found.query {
            let zoneID = query.zone.map { reader.zoneID($0) }
            let made = CKQuerySubscription(
                query,
                subscriptionID: found.id,
                zoneID: zoneID,
                caller: reader.caller.recordName
            )
            made.notificationInfo = found.notificationInfo.flatMap { CKNotificationInfo(json: $0) }
            return made
        }
        guard case .zone(let zone?) = found.kind else { return CKSubscription.make(found, zoneID: nil) }
        return CKSubscription.make(found, zoneID: reader.zoneID(zone))
    }

    private func subscriptionEntries(
        _ document: JSONDocument
    ) throws(CKError) -> [ClientResponse.SubscriptionEntry] {
        try reading { () throws(JSONError) in try ClientResponse.subscriptions(document.root) }
    }
}
