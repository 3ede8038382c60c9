import Foundation
import Records
import SyncCore
import Wire

extension CKDatabase {
    /// A subscription by its name.
    ///
    /// - Parameter subscriptionID: The name.
    /// - Returns: The subscription.
    /// - Throws: `unknownItem` if there is none, and what any call throws.
    public func subscription(for subscriptionID: CKSubscription.ID) async throws -> CKSubscription {
        let results = try await subscriptions(for: [subscriptionID])
        guard let result = results[subscriptionID] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Some subscriptions by their names.
    ///
    /// - Parameter ids: The names.
    /// - Returns: For each name a subscription or its own error.
    /// - Throws: What concerns the request as a whole.
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

    /// All subscriptions of the current user in this database.
    public func allSubscriptions() async throws -> [CKSubscription] {
        var reader = RecordReader(scope: scope, caller: try session.connection().caller)
        let document = try await call("subscriptions/list")
        return try subscriptionEntries(document).compactMap { entry in
            guard case .subscription(let found) = entry else { return nil }
            return make(found, &reader)
        }
    }

    /// Saves a subscription; one of the same name is replaced.
    ///
    /// - Parameter subscription: What to watch. In the public database neither zones nor the database can be.
    /// - Returns: The subscription as the relay has it.
    /// - Throws: `invalidArguments` for what cannot be watched, `badDatabase` for zones and databases in the public
    ///   database, and what any call throws.
    @discardableResult
    public func save(_ subscription: CKSubscription) async throws -> CKSubscription {
        let results = try await modifySubscriptions(saving: [subscription], deleting: [])
        guard let result = results.saveResults[subscription.subscriptionID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes a subscription; deleting what is not there succeeds.
    ///
    /// - Parameter subscriptionID: The name.
    /// - Returns: The same name.
    /// - Throws: What any call throws.
    @discardableResult
    public func deleteSubscription(withID subscriptionID: CKSubscription.ID) async throws -> CKSubscription.ID {
        let results = try await modifySubscriptions(saving: [], deleting: [subscriptionID])
        try results.deleteResults[subscriptionID]?.get()
        return subscriptionID
    }

    /// Saves and deletes subscriptions.
    ///
    /// - Parameters:
    ///   - subscriptionsToSave: What to watch.
    ///   - subscriptionIDsToDelete: What to watch no more.
    /// - Returns: Each subscription's own outcome.
    /// - Throws: `badDatabase` for zones and databases in the public database, and what concerns the request as a whole.
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
        let missing = CKError(.internalError, "The relay's answer leaves this subscription out.")
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
