package import Records
package import SyncCore
package import Wire

/// Speaks to a container's relay about one database, through the container's connection.
package struct HTTPRelayClient: RelayClient {
    private let connection: @Sendable () throws(CKError) -> RelayConnection
    private let scope: DatabaseScope
    private let settings: RequestSettings
    /// Returns the sign-in to which the requests belong; `nil` leaves that to the calling task.
    private let owner: (@Sendable () -> AccountBinding?)?

    package init(
        _ scope: DatabaseScope,
        _ settings: RequestSettings,
        owner: (@Sendable () -> AccountBinding?)? = nil,
        connection: @escaping @Sendable () throws(CKError) -> RelayConnection
    ) {
        self.connection = connection
        self.scope = scope
        self.settings = settings
        self.owner = owner
    }

    // MARK: Sending

    private func send(
        _ operation: String,
        _ body: [UInt8]? = nil,
        isWrite: Bool = false
    ) async throws(CKError) -> JSONDocument {
        try await performing { connection throws(CallFailure) in
            try await connection.send(RelayCall(scope, operation, body, isWrite: isWrite, settings: settings))
        }
    }

    /// Makes a request in the name of the owner, or not at all.
    private func performing(
        _ work: (RelayConnection) async throws(CallFailure) -> JSONDocument
    ) async throws(CKError) -> JSONDocument {
        do throws(CallFailure) {
            return try await trying(work)
        } catch {
            throw error.error
        }
    }

    private func trying(
        _ work: (RelayConnection) async throws(CallFailure) -> JSONDocument
    ) async throws(CallFailure) -> JSONDocument {
        let connection: RelayConnection
        do throws(CKError) {
            connection = try self.connection()
        } catch {
            throw CallFailure(error: error)
        }
        guard let owner else { return try await work(connection) }
        do {
            return try await AccountBinding.$current.withValue(owner()) { try await work(connection) }
        } catch let error as CallFailure {
            throw error
        } catch {
            throw CallFailure(error: CKError(from: error))
        }
    }

    private var retention: IdempotencyCache.Retention { settings.isRepeated ? .untilAnswered : .minutes }

    // MARK: Change feeds

    package func databaseChanges(since token: SyncToken?, limit: Int?) async throws(CKError) -> ZoneListPage {
        let body = ClientRequest.databaseChanges(since: token?.text, limit: limit)
        let document = try await send("changes/database", body)
        return try reading { () throws(JSONError) in
            let end = try ClientResponse.pageEnd(document.root)
            return ZoneListPage(
                entries: try ClientResponse.zones(document.root),
                token: SyncToken(end.syncToken),
                moreComing: end.moreComing
            )
        }
    }

    package func zoneChanges(
        in zone: ZoneID,
        since token: SyncToken?,
        _ options: FeedOptions
    ) async throws(CKError) -> FeedPage {
        let body = ClientRequest.zoneChanges(
            in: zone,
            since: token?.text,
            desiredKeys: options.desiredKeys,
            limit: options.limit,
            countsRemaining: options.countsRemaining
        )
        let document = try await send("changes/zone", body)
        let page: Result<FeedPage, CKError> = try reading { () throws(JSONError) in
            guard let entry = try document.root.required("zones").elements().first else {
                return .failure(CKError(.internalError, "The relay's response does not contain the zone."))
            }
            if let failure = try ClientResponse.failure(entry, zone: zone) {
                return .failure(CKError(failure, at: .item))
            }
            let end = try ClientResponse.pageEnd(entry)
            var page = FeedPage(token: SyncToken(end.syncToken), moreComing: end.moreComing) { body throws(CKError) in
                try reading { () throws(JSONError) in
                    try ClientResponse.visitRecords(entry, zone: zone) { body($0, $1) }
                }
            }
            page.remaining = end.remaining
            page.zone = try ClientResponse.zone(of: entry)
            page.byteCount = entry.rawBytes.count
            return .success(page)
        }
        return try page.get()
    }

    package func schemaVersion() async throws(CKError) -> Int64 {
        var writer = JSONWriter(reserving: 64)
        writer.object { body in
            body.member("schemaVersion", true)
            body.member("resultsLimit", 1)
        }
        let document = try await send("changes/database", writer.bytes)
        return try reading { () throws(JSONError) in try document.root.required("schemaVersion").int64() }
    }

    // MARK: Records

    package func records(
        named names: [String],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        desiredKeys: [String]?
    ) async throws(CKError) -> [ClientResponse.RecordEntry] {
        let body = ClientRequest.lookup(names, in: zone, desiredKeys: desiredKeys)
        return try Self.entries(try await send("records/lookup", body), zone, naming)
    }

    package func records(matching query: QueryRequest) async throws(CKError) -> QueryPage {
        let body = ClientRequest.query(
            query.query,
            in: query.zone,
            desiredKeys: query.desiredKeys,
            limit: query.limit,
            marker: query.marker
        )
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await trying { connection throws(CallFailure) in
                try await connection.send(RelayCall(scope, "records/query", body, settings: settings))
            }
        } catch {
            // If a query fails as a whole because of a missing record type, the error is about an item, not about the
            // container.
            throw error.failure.map { CKError($0, at: .item) } ?? error.error
        }
        let entries = try Self.entries(document, query.zone, query.naming)
        let marker = try reading { () throws(JSONError) in try document.root["continuationMarker"]?.string() }
        return QueryPage(entries: entries, marker: marker)
    }

    package func modifyRecords(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        atomically isAtomic: Bool
    ) async throws(CKError) -> [ClientResponse.RecordEntry] {
        try await modifyEntries(zone, naming) { connection throws(CallFailure) in
            try await connection.modify(
                writes,
                in: zone,
                of: scope,
                atomically: isAtomic,
                settings: settings,
                retention: retention
            )
        }
    }

    package func modifyRecords(
        _ body: [UInt8],
        in zone: ZoneID
    ) async throws(CKError) -> [ClientResponse.RecordEntry] {
        try await modifyEntries(zone, .asRequested) { connection throws(CallFailure) in
            try await connection.send(RelayCall(scope, "records/modify", body, isWrite: true, settings: settings))
        }
    }

    private func modifyEntries(
        _ zone: ZoneID,
        _ naming: ZoneNaming,
        _ work: (RelayConnection) async throws(CallFailure) -> JSONDocument
    ) async throws(CKError) -> [ClientResponse.RecordEntry] {
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await trying(work)
        } catch {
            // The response to a failed atomic write is an error that lists all items.
            guard error.failure?.error.code == .atomicError, let listed = error.document, listed.root["records"] != nil
            else { throw error.error }
            document = listed
        }
        return try Self.entries(document, zone, naming)
    }

    package func moveRecords(
        _ names: [String],
        from source: ZoneID,
        to target: ZoneID,
        deletesSource: Bool
    ) async throws(CKError) {
        let content = [source.description, target.description, "\(deletesSource)"] + names
        _ = try await performing { connection throws(CallFailure) in
            try await connection.write(content, to: source, of: scope, "records/move", settings: settings) { key in
                ClientRequest.move(names, from: source, to: target, deletesSource: deletesSource, operationID: key)
            }
        }
    }

    private static func entries(
        _ document: JSONDocument,
        _ zone: ZoneID?,
        _ naming: ZoneNaming
    ) throws(CKError) -> [ClientResponse.RecordEntry] {
        var entries: [ClientResponse.RecordEntry] = []
        try reading { () throws(JSONError) in
            try ClientResponse.records(document.root, zone: naming == .asRequested ? zone : nil) { entries.append($0) }
        }
        return entries
    }

    // MARK: Zones

    package func zones(_ ids: [ZoneID]?) async throws(CKError) -> [ClientResponse.ZoneEntry] {
        let document =
            if let ids {
                try await send("zones/lookup", ClientRequest.lookup(zones: ids))
            } else {
                try await send("zones/list")
            }
        return try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
    }

    package func modifyZones(
        creating: [ZoneID],
        deleting: [ZoneID],
        because reason: ZoneDeletionReason
    ) async throws(CKError) -> [ClientResponse.ZoneEntry] {
        let document = try await performing { connection throws(CallFailure) in
            try await connection.modify(
                creating: creating,
                deleting: deleting,
                because: reason,
                of: scope,
                settings: settings,
                retention: retention
            )
        }
        return try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
    }

    // MARK: Subscriptions

    package func subscriptions(_ ids: [String]?) async throws(CKError) -> [ClientResponse.SubscriptionEntry] {
        let document =
            if let ids {
                try await send("subscriptions/lookup", ClientRequest.lookup(subscriptions: ids))
            } else {
                try await send("subscriptions/list")
            }
        return try reading { () throws(JSONError) in try ClientResponse.subscriptions(document.root) }
    }

    package func modifySubscriptions(
        creating: [Subscription],
        deleting: [String]
    ) async throws(CKError) -> [ClientResponse.SubscriptionEntry] {
        let body = ClientRequest.modify(creating: creating, deleting: deleting)
        let document = try await send("subscriptions/modify", body, isWrite: true)
        return try reading { () throws(JSONError) in try ClientResponse.subscriptions(document.root) }
    }

    // MARK: Users and shares

    package func callerName() async throws(CKError) -> String { try await connection().fetchCallerName() }

    package func limits() async throws(CKError) -> RelayLimits {
        let document = try await send("limits", Array("{}".utf8))
        return try reading { () throws(JSONError) in try RelayLimits(document.root) }
    }

    package func users(_ lookups: [ClientIdentity.Lookup]?) async throws(CKError) -> [ClientIdentity] {
        let document = try await send("users/discover", lookups.map { ClientRequest.discover($0) })
        return try reading { () throws(JSONError) in try ClientResponse.users(document.root) }
    }

    package func shares(_ call: ShareCall) async throws(CKError) -> [ClientResponse.ShareMetadataEntry] {
        let document =
            switch call {
            case .resolve(let names, let fetchingRoots, let rootKeys):
                try await send(
                    "records/resolve",
                    ClientRequest.shares(names, fetchingRoots: fetchingRoots, rootKeys: rootKeys)
                )
            case .accept(let names): try await send("records/accept", ClientRequest.shares(names), isWrite: true)
            }
        return try reading { () throws(JSONError) in try ClientResponse.shareMetadataEntries(document.root) }
    }

    package func requestAccess(toShares names: [String]) async throws(CKError) -> [ClientResponse.Failure?] {
        let document = try await send("records/requestaccess", ClientRequest.shares(names), isWrite: true)
        return try reading { () throws(JSONError) in try ClientResponse.requestFailures(document.root) }
    }

    package func registerForPushes(_ target: RelayPushTarget?) async throws(CKError) {
        _ = try await send(target == nil ? "push/unregister" : "push/register", target?.body ?? Array("{}".utf8))
    }

    // MARK: Assets

    package func uploadTarget(
        for field: ClientRequest.UploadField,
        in zone: ZoneID
    ) async throws(CKError) -> UploadTarget {
        let document = try await send("assets/upload", ClientRequest.uploads([field], in: zone), isWrite: true)
        let target = try reading { () throws(JSONError) -> UploadTarget? in
            guard let token = try document.root.required("tokens").elements().first else { return nil }
            if token["receipt"] != nil { return .alreadyStored(try ClientResponse.uploadedAsset(token)) }
            return .address(try token.required("url").string())
        }
        guard let target else { throw CKError(.internalError, "The relay returned no upload URL.") }
        return target
    }

    package func rereference(_ field: String, of record: RecordID) async throws(CKError) -> Asset? {
        let body = ClientRequest.rereference(record.recordName, field, in: record.zone)
        let document = try await send("assets/rereference", body)
        return try reading { () throws(JSONError) in
            let entry = try document.root["assets"]?.elements().first
            return try entry.flatMap { json throws(JSONError) in
                json["fileChecksum"] == nil ? nil : try ClientResponse.uploadedAsset(json)
            }
        }
    }
}
