public import Foundation
package import Records
import SyncCore
import Synchronization
import Wire

/// A database of a container: public, private or shared.
///
/// Each call sends one request to the relay, or one per zone if it concerns several zones, and throws `CKError`. A
/// database caches nothing and retries nothing; that is up to the app or `CKSyncEngine`. Cancelling a task cancels its
/// request, which throws `operationCancelled`.
public final class CKDatabase: NSObject, Sendable {
    /// The kind of database.
    public enum Scope: Int, Sendable, CaseIterable {
        /// Data of all users.
        case `public` = 1
        /// The current user's own data.
        case `private` = 2
        /// Data that other users share with the current user.
        case shared = 3
    }

    /// The kind of database.
    public let databaseScope: Scope

    package let session: RelaySession
    /// The settings of this object's requests, from `configuredWith` or an operation.
    package let settings: RequestSettings

    package init(_ scope: Scope, _ session: RelaySession, settings: RequestSettings = RequestSettings()) {
        databaseScope = scope
        self.session = session
        self.settings = settings
    }

    /// Returns this database with other request settings.
    package func configured(_ settings: RequestSettings) -> CKDatabase {
        settings == self.settings ? self : CKDatabase(databaseScope, session, settings: settings)
    }

    /// Sends this database's requests.
    package var client: any RelayClient { session.client(of: scope, settings) }

    /// The container and the scope.
    public override var description: String { "<CKDatabase: \(session.container) \(databaseScope)>" }

    /// Returns whether two databases have the same container and the same scope.
    public override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? CKDatabase else { return false }
        return session.identity == other.session.identity && databaseScope == other.databaseScope
    }

    /// A hash that is consistent with `isEqual(_:)`.
    public override var hash: Int { databaseScope.rawValue ^ session.identity.hashValue }

    /// The scope as a value of the lower modules.
    package var scope: DatabaseScope {
        switch databaseScope {
        case .public: .public
        case .private: .private
        case .shared: .shared
        }
    }
}

extension CKDatabase {
    /// Fetches a zone with its capabilities.
    ///
    /// - Parameter zoneID: The ID of the zone.
    /// - Returns: The zone.
    /// - Throws: `zoneNotFound`, and the errors of any request.
    public func recordZone(for zoneID: CKRecordZone.ID) async throws -> CKRecordZone {
        let results = try await recordZones(for: [zoneID])
        guard let result = results[zoneID] else { throw CKError(.zoneNotFound) }
        return try result.get()
    }

    /// Fetches zones with their capabilities.
    ///
    /// - Parameter ids: The IDs of the zones.
    /// - Returns: A zone or an error for each ID.
    /// - Throws: An error that concerns the request as a whole.
    public func recordZones(
        for ids: [CKRecordZone.ID]
    ) async throws -> [CKRecordZone.ID: Result<CKRecordZone, any Error>] {
        var results: [CKRecordZone.ID: Result<CKRecordZone, any Error>] = [:]
        for start in stride(from: 0, to: ids.count, by: 200) {
            let part = ids[start..<min(start + 200, ids.count)]
            let connection = try session.connection()
            let requestTime = connection.now
            for (id, entry) in zip(part, try await client.zones(part.map(\.zone))) {
                results[id] = zoneResult(entry, requested: id)
            }
            connection.didSee(part.filter { (try? results[$0]?.get()) != nil }, of: scope, at: requestTime)
        }
        for id in ids where results[id] == nil { results[id] = .failure(CKError(.zoneNotFound)) }
        return results
    }

    /// Fetches all zones of the database.
    ///
    /// The default zone is first, if there is one.
    public func allRecordZones() async throws -> [CKRecordZone] {
        let connection = try session.connection()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let requestTime = connection.now
        let zones: [CKRecordZone] = try await client.zones(nil).compactMap { entry in
            switch entry {
            case .zone(let zone): return CKRecordZone(zone, id: reader.zoneID(zone.id))
            case .deleted: return nil
            // If the zone were omitted, the caller would conclude that it does not exist.
            case .failed(_, let failure): throw CKError(failure, at: .item)
            }
        }
        connection.didSee(zones.lazy.map(\.zoneID), of: scope, at: requestTime)
        return zones
    }

    /// Creates a custom zone.
    ///
    /// Has no effect if the zone exists.
    ///
    /// - Parameter zone: The zone.
    /// - Returns: The zone with its capabilities.
    /// - Throws: `invalidArguments` if the name is not valid, `badDatabase` for the public database, and the errors of
    ///   any request.
    @discardableResult
    public func save(_ zone: CKRecordZone) async throws -> CKRecordZone {
        let results = try await modifyRecordZones(saving: [zone], deleting: [])
        guard let result = results.saveResults[zone.zoneID] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Deletes a custom zone with all its records.
    ///
    /// In the shared database, removes the current user from the zone's shares instead.
    ///
    /// - Parameter zoneID: The ID of the zone.
    /// - Returns: The same ID.
    /// - Throws: `zoneNotFound`, `badDatabase` for the public database, and the errors of any request.
    @discardableResult
    public func deleteRecordZone(withID zoneID: CKRecordZone.ID) async throws -> CKRecordZone.ID {
        let results = try await modifyRecordZones(saving: [], deleting: [zoneID])
        try results.deleteResults[zoneID]?.get()
        return zoneID
    }

    /// Creates and deletes custom zones.
    ///
    /// - Parameters:
    ///   - recordZonesToSave: The zones to create.
    ///   - recordZoneIDsToDelete: The IDs of the zones to delete with all their records; in the shared database, the
    ///     zones to leave.
    /// - Returns: The result of each zone.
    /// - Throws: `badDatabase` for the public database, or an error that concerns the request as a whole.
    public func modifyRecordZones(
        saving recordZonesToSave: [CKRecordZone],
        deleting recordZoneIDsToDelete: [CKRecordZone.ID]
    ) async throws -> (
        saveResults: [CKRecordZone.ID: Result<CKRecordZone, any Error>],
        deleteResults: [CKRecordZone.ID: Result<Void, any Error>]
    ) {
        try requireZones()
        var entries: ArraySlice<ClientResponse.ZoneEntry> = []
        let (made, gone) = (recordZonesToSave.map(\.zoneID.zone), recordZoneIDsToDelete.map(\.zone))
        // Another user may have zones with the same names.
        let user = AccountBinding.forCurrentTask(try session.connection())
        for part in BatchLimits.parts(made, gone) {
            entries += try await user.perform { () throws(CKError) in
                try await client.modifyZones(creating: part.first, deleting: part.second, because: .deleted)
            }
        }
        var saves: [CKRecordZone.ID: Result<CKRecordZone, any Error>] = [:]
        var deletes: [CKRecordZone.ID: Result<Void, any Error>] = [:]
        let missing = ClientResponse.Failure(
            error: .init(.internalError, "The relay's response does not contain this zone.")
        )
        for zone in recordZonesToSave {
            saves[zone.zoneID] = zoneResult(entries.popFirst() ?? .failed(nil, missing), requested: zone.zoneID)
        }
        for id in recordZoneIDsToDelete {
            switch entries.popFirst() ?? .failed(nil, missing) {
            case .failed(_, let failure): deletes[id] = .failure(CKError(failure, at: .item))
            case .deleted, .zone:
                deletes[id] = .success(())
                try session.connection().zoneKeys.forget(id)
            }
        }
        return (saves, deletes)
    }

    /// Deletes a custom zone and reports the reason to the user's other devices.
    ///
    /// Succeeds if the zone does not exist.
    package func end(_ zoneID: CKRecordZone.ID, because reason: ZoneDeletionReason) async throws(CKError) {
        var settings = settings
        settings.isRepeated = true
        let client = configured(settings).client
        let entries = try await client.modifyZones(creating: [], deleting: [zoneID.zone], because: reason)
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .zoneNotFound { throw error }
        }
        try session.connection().zoneKeys.forget(zoneID)
    }

    /// Returns the result for a zone under the ID that the caller has used.
    private func zoneResult(
        _ entry: ClientResponse.ZoneEntry,
        requested id: CKRecordZone.ID
    ) -> Result<CKRecordZone, any Error> {
        switch entry {
        case .zone(let zone): .success(CKRecordZone(zone, id: id))
        case .deleted: .failure(CKError(.zoneNotFound))
        case .failed(_, let failure):
            .failure(CKError(failure.error.code == .notFound ? .init(.zoneNotFound, failure) : failure, at: .item))
        }
    }
}

extension ClientResponse.Failure {
    /// The same failure with another code: some relays report a missing zone as a missing item.
    fileprivate init(_ code: ErrorCode, _ failure: ClientResponse.Failure) {
        self = failure
        error.code = code
    }
}

extension CKRecordZone {
    convenience init(_ zone: ClientResponse.Zone, id: CKRecordZone.ID) {
        var capabilities: Capabilities = []
        if zone.syncToken != nil { capabilities.insert(.fetchChanges) }
        if zone.isAtomic { capabilities.insert(.atomic) }
        if zone.isEligibleForHierarchicalShare { capabilities.insert(.sharing) }
        if zone.isEligibleForZoneShare { capabilities.insert(.zoneWideSharing) }
        let share = zone.share.map {
            CKRecord.Reference(recordID: CKRecord.ID(recordName: $0, zoneID: id), action: .none)
        }
        self.init(zoneID: id, capabilities: capabilities, share: share)
    }
}

extension CKDatabase {
    /// The results of `databaseChanges(since:resultsLimit:)`.
    public enum DatabaseChange {
        /// A zone that was created, or whose contents have changed.
        public struct Modification: Sendable, Hashable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
        }

        /// A zone that was deleted.
        public struct Deletion: Sendable, Hashable {
            /// The reason for the deletion of a zone.
            public enum Reason: Sendable, Hashable {
                /// A user deleted the zone, or the current user has lost access to it.
                case deleted
                /// The user erased the app's data.
                case purged
                /// The user reset the encrypted data.
                ///
                /// Upload the local data again.
                case encryptedDataReset
            }

            /// The zone.
            public let zoneID: CKRecordZone.ID
            /// The reason for the deletion.
            public let reason: Reason
            /// Whether the user erased the app's data; the older form of `reason`.
            public var purged: Bool { reason == .purged }

            package init(zoneID: CKRecordZone.ID, reason: Reason) {
                self.zoneID = zoneID
                self.reason = reason
            }
        }
    }

    /// The results of `recordZoneChanges(inZoneWith:since:desiredKeys:resultsLimit:)`.
    public enum RecordZoneChange {
        /// A record that was created or changed, in its current version.
        public struct Modification: Sendable, Hashable {
            /// The record.
            public let record: CKRecord
        }

        /// A record that was deleted.
        public struct Deletion: Sendable, Hashable {
            /// The ID of the record.
            public let recordID: CKRecord.ID
            /// The record type; empty if the relay no longer knows it.
            public let recordType: CKRecord.RecordType
        }
    }
}

extension CKDatabase {
    /// Fetches one page of the zones that have changed since a token.
    ///
    /// - Parameters:
    ///   - previousServerChangeToken: The token of the previous fetch; `nil` to fetch from the beginning.
    ///   - resultsLimit: The maximum number of zones, up to 200.
    /// - Returns: The zones, the token for the next fetch, and whether there are more changes.
    /// - Throws: `badDatabase` for the public database, `changeTokenExpired`, and the errors of any request.
    public func databaseChanges(
        since previousServerChangeToken: CKServerChangeToken?,
        resultsLimit: Int? = nil
    ) async throws -> (
        modifications: [CKDatabase.DatabaseChange.Modification], deletions: [CKDatabase.DatabaseChange.Deletion],
        changeToken: CKServerChangeToken, moreComing: Bool
    ) {
        try requireChangeFeed()
        let connection = try session.connection()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let page = try await client.databaseChanges(
            since: previousServerChangeToken.map { SyncToken($0.encoded) },
            limit: resultsLimit.map(Self.pageSize)
        )
        var modifications: [DatabaseChange.Modification] = []
        var deletions: [DatabaseChange.Deletion] = []
        for entry in page.entries {
            switch entry {
            case .zone(let zone): modifications.append(.init(zoneID: reader.zoneID(zone.id)))
            case .deleted(let zone, let reason):
                deletions.append(.init(zoneID: reader.zoneID(zone), reason: .init(reason)))
            // A zone that cannot be read now is reported as changed; its own feed reports the error.
            case .failed(let zone?, _): modifications.append(.init(zoneID: reader.zoneID(zone)))
            case .failed(nil, let failure): throw CKError(failure, at: .item)
            }
        }
        for deletion in deletions { connection.zoneKeys.forget(deletion.zoneID) }
        return (modifications, deletions, CKServerChangeToken(encoded: page.token.text), page.moreComing)
    }

    /// Fetches one page of the records in a zone that have changed since a token, each record once and in its current
    /// version.
    ///
    /// Apply the pages in order, and store each page's token together with its changes.
    ///
    /// - Parameters:
    ///   - zoneID: A custom zone.
    ///   - previousServerChangeToken: The token of the previous fetch; `nil` to list the zone's records from the
    ///     beginning, without deletions.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: The records, the deletions, the token for the next fetch, and whether there are more changes.
    /// - Throws: `changeTokenExpired` (fetch again without a token), `zoneNotFound`, and the errors of any request.
    public func recordZoneChanges(
        inZoneWith zoneID: CKRecordZone.ID,
        since previousServerChangeToken: CKServerChangeToken?,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int? = nil
    ) async throws -> (
        modificationResultsByID: [CKRecord.ID: Result<CKDatabase.RecordZoneChange.Modification, any Error>],
        deletions: [CKDatabase.RecordZoneChange.Deletion], changeToken: CKServerChangeToken, moreComing: Bool
    ) {
        let page = try await zoneChangesPage(
            in: zoneID,
            since: previousServerChangeToken,
            desiredKeys: desiredKeys,
            limit: resultsLimit
        )
        var modifications: [CKRecord.ID: Result<RecordZoneChange.Modification, any Error>] = [:]
        for record in page.records { modifications[record.recordID] = .success(.init(record: record)) }
        for (id, error) in page.failures { modifications[id] = .failure(error) }
        return (modifications, page.deletions, page.changeToken, page.moreComing)
    }

    /// A page of a zone's feed, in the order of the feed.
    package struct ZoneChangesPage: Sendable {
        package var records: [CKRecord] = []
        package var deletions: [RecordZoneChange.Deletion] = []
        package var failures: [(CKRecord.ID, CKError)] = []
        package var changeToken: CKServerChangeToken
        package var moreComing: Bool
        /// Whether the page contains the key of the zone's encrypted values, so that values fetched earlier can be
        /// decrypted now.
        package var containsKey = false
        /// Whether the zone's sealed values can be decrypted; `nil` if there is no key and the page needs none.
        package var isReadable: Bool?
    }

    /// Fetches a page like `recordZoneChanges`, but keeps the feed's order.
    ///
    /// If `wantsKey` is `true`, the zone's key is opened even if the page does not need it.
    package func zoneChangesPage(
        in zoneID: CKRecordZone.ID,
        since token: CKServerChangeToken?,
        desiredKeys: [String]? = nil,
        limit: Int? = nil,
        wantsKey: Bool = false
    ) async throws(CKError) -> ZoneChangesPage {
        try requireChangeFeed()
        let connection = try await connectionResolvingCaller()
        var options = FeedOptions()
        // The zone's keys are records with this field, and are useless without it.
        options.desiredKeys = desiredKeys.map { connection.encryptionKey == nil ? $0 : $0 + [KeyRecord.field] }
        options.limit = limit.map(Self.pageSize)
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let requestTime = connection.now
        var page: ZoneChangesPage
        do throws(CKError) {
            let found = try await client.zoneChanges(
                in: zoneID.zone,
                since: token.map { SyncToken($0.encoded) },
                options
            )
            if databaseScope == .private, let home = found.zone { _ = reader.zoneID(home) }
            page = try Self.page(found, in: zoneID, reader)
        } catch {
            connection.zoneKeys.requestFailed(error, of: zoneID)
            throw error
        }
        connection.didSee(page.records.lazy.map(\.recordID), .listing, of: scope, at: requestTime)
        connection.didSee(page.deletions.lazy.map(\.recordID), .listing, of: scope, at: requestTime)
        let before = connection.zoneKeys.key(zoneID)?.number
        if wantsKey { try await keys.openKey(of: zoneID) }
        try await processKeys(of: &page, in: zoneID, isListed: token == nil, connection)
        let now = connection.zoneKeys.key(zoneID)?.number
        page.containsKey = page.containsKey && token != nil && now != nil && now != before
        let hasSealed = page.records.contains { $0.state.withLock { $0.hasSealed } }
        page.isReadable = now != nil ? true : hasSealed ? false : nil
        return page
    }

    /// Processes the encryption keys of a page.
    ///
    /// Removes the key records from the page, opens the zone's key if the page needs it, and provides it to the users
    /// with whom the zone is shared.
    private func processKeys(
        of page: inout ZoneChangesPage,
        in zoneID: CKRecordZone.ID,
        isListed: Bool,
        _ connection: RelayConnection
    ) async throws(CKError) {
        let keys = page.records.filter { $0.recordType == KeyRecord.type }
        if !keys.isEmpty {
            page.records.removeAll { $0.recordType == KeyRecord.type }
            // A key record may be for this user, so values that could not be decrypted before can be now.
            try await self.keys.openOwnKey(of: zoneID, from: keys)
            page.containsKey = true
        }
        page.deletions.removeAll { $0.recordType == KeyRecord.type }
        try await self.keys.openKeys(for: page.records)
        if databaseScope == .private, connection.zoneKeys.isInaccessible(zoneID) { throw .encryptedDataReset(zoneID) }
        let shares = page.records.compactMap { $0 as? CKShare }
        let ended = page.deletions.filter { $0.recordType == CKRecord.SystemType.share }.map(\.recordID.recordName)
        await self.keys.provideKeys(by: shares, ended: ended, in: zoneID, isListed: isListed)
    }

    private static func page(
        _ found: FeedPage,
        in zoneID: CKRecordZone.ID,
        _ reader: RecordReader
    ) throws(CKError) -> ZoneChangesPage {
        var unnamed: CKError?
        var page = ZoneChangesPage(
            changeToken: CKServerChangeToken(encoded: found.token.text),
            moreComing: found.moreComing
        )
        try found.visit { item, _ in
            switch item {
            case .record(let record):
                let id = CKRecord.ID(recordName: record.id.recordName, zoneID: zoneID)
                page.records.append(reader.record(record, id: id))
            case .share(let record, let share):
                let id = CKRecord.ID(recordName: record.id.recordName, zoneID: zoneID)
                page.records.append(reader.record(record, share, id: id))
            case .deleted(let name, let type, _):
                let id = CKRecord.ID(recordName: name, zoneID: zoneID)
                page.deletions.append(.init(recordID: id, recordType: type ?? ""))
            case .failed(let name, let failure):
                let error = CKError(failure, at: .item)
                guard let name else { return unnamed = unnamed ?? error }
                page.failures.append((CKRecord.ID(recordName: name, zoneID: zoneID), error))
            }
        }
        // The failed record has no name to fetch it by, and the page's token is past it.
        if let unnamed { throw unnamed }
        return page
    }

    /// Returns the page size for a requested limit; the relay's maximum is 200.
    ///
    /// See Wire.md, "Limits".
    package static func pageSize(_ wanted: Int) -> Int { wanted <= 0 ? 200 : min(wanted, 200) }
}

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
        var results: [CKSubscription.ID: Result<CKSubscription, any Error>] = [:]
        for entry in try await client.subscriptions(ids) {
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
        return try await client.subscriptions(nil).compactMap { entry in
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
            wanted.append(try await resolvingCaller(in: subscription.subscription))
        }
        var entries: ArraySlice<ClientResponse.SubscriptionEntry> = []
        let user = AccountBinding.forCurrentTask(try session.connection())
        let isRefusedWhole = wanted.isEmpty && subscriptionIDsToDelete.isEmpty && !subscriptionsToSave.isEmpty
        for part in BatchLimits.parts(wanted, subscriptionIDsToDelete) where !isRefusedWhole {
            entries += try await user.perform { () throws(CKError) in
                try await client.modifySubscriptions(creating: part.first, deleting: part.second)
            }
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
}

extension CKDatabase {
    /// Throws unless this database has a change feed; the public database has none.
    package func requireChangeFeed() throws(CKError) {
        guard databaseScope != .public else {
            throw CKError(.badDatabase, "The public database has no change feed. Query it instead.")
        }
    }

    /// Throws unless zones can be created and deleted in this database; the public database has only the default zone.
    func requireZones() throws(CKError) {
        guard databaseScope != .public else {
            throw CKError(.badDatabase, "The public database has only the default zone. Use the private database.")
        }
    }

    /// Throws if a subscription watches zones in the public database, which has no change feed.
    func requireFeed(for subscriptions: [CKSubscription]) throws(CKError) {
        guard databaseScope == .public, let odd = subscriptions.first(where: { $0.subscriptionType != .query }) else {
            return
        }
        throw CKError(
            .badDatabase,
            "Subscription '\(odd.subscriptionID)' cannot watch the public database. Use a CKQuerySubscription there."
        )
    }
}
