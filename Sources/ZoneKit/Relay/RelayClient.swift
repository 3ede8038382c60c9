package import Records
package import SyncCore
package import Wire

/// The requests to a relay about one database: values in, values out.
///
/// `HTTPRelayClient` sends them to a relay; the tests of the engines have a client that answers from memory. Each call
/// sends one request, throws if the request fails as a whole, and returns the failures of single items as entries.
package protocol RelayClient: Sendable {
    // MARK: Change feeds

    /// Returns a page of the zones that have changed since a token; of all zones without one.
    func databaseChanges(since token: SyncToken?, limit: Int?) async throws(CKError) -> ZoneListPage

    /// Returns a page of a zone's feed since a token; from the beginning without one.
    func zoneChanges(in zone: ZoneID, since token: SyncToken?, _ options: FeedOptions) async throws(CKError) -> FeedPage

    /// Returns the version of the schema; a different number means a different schema.
    func schemaVersion() async throws(CKError) -> Int64

    // MARK: Records

    /// Returns an entry for each name, in any order.
    func records(
        named names: [String],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        desiredKeys: [String]?
    ) async throws(CKError) -> [ClientResponse.RecordEntry]

    /// Returns a page of a query's results.
    func records(matching query: QueryRequest) async throws(CKError) -> QueryPage

    /// Writes records of one zone and returns an entry for each, in their order.
    ///
    /// An atomic write that fails returns its entries too.
    func modifyRecords(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        atomically isAtomic: Bool
    ) async throws(CKError) -> [ClientResponse.RecordEntry]

    /// Sends the body of a write that already has an idempotency key.
    func modifyRecords(
        _ body: [UInt8],
        in zone: ZoneID
    ) async throws(CKError) -> [ClientResponse.RecordEntry]

    /// Moves records between zones of the current user, all or none.
    ///
    /// With `deletesSource`, the source zone and its shares end in the same commit; the relay refuses if the zone has
    /// other records.
    func moveRecords(
        _ names: [String],
        from source: ZoneID,
        to target: ZoneID,
        deletesSource: Bool
    ) async throws(CKError)

    // MARK: Zones

    /// Returns an entry for each zone, in their order; all zones without IDs.
    func zones(_ ids: [ZoneID]?) async throws(CKError) -> [ClientResponse.ZoneEntry]

    /// Creates and deletes zones, and returns an entry for each, in their order.
    func modifyZones(
        creating: [ZoneID],
        deleting: [ZoneID],
        because reason: ZoneDeletionReason
    ) async throws(CKError) -> [ClientResponse.ZoneEntry]

    // MARK: Subscriptions

    /// Returns the subscriptions with these IDs; all without IDs.
    func subscriptions(_ ids: [String]?) async throws(CKError) -> [ClientResponse.SubscriptionEntry]

    /// Creates and deletes subscriptions, and returns an entry for each, in their order.
    func modifySubscriptions(
        creating: [Subscription],
        deleting: [String]
    ) async throws(CKError) -> [ClientResponse.SubscriptionEntry]

    // MARK: Users and shares

    /// Returns the current user's record name.
    func callerName() async throws(CKError) -> String

    /// Returns the limits for the current user in this database.
    func limits() async throws(CKError) -> RelayLimits

    /// Returns the users that the relay finds; all that the current user can discover without lookups.
    func users(_ lookups: [ClientIdentity.Lookup]?) async throws(CKError) -> [ClientIdentity]

    /// Looks shares up or accepts them, and returns an entry for each, in their order.
    func shares(_ call: ShareCall) async throws(CKError) -> [ClientResponse.ShareMetadataEntry]

    /// Asks the owners of shares for access, and returns the failure of each request, in their order.
    func requestAccess(toShares names: [String]) async throws(CKError) -> [ClientResponse.Failure?]

    /// Registers this device for pushes; `nil` ends the registration.
    func registerForPushes(_ target: RelayPushTarget?) async throws(CKError)

    // MARK: Assets

    /// Returns where to upload an asset, or the asset with a receipt if the relay has its content.
    func uploadTarget(for field: ClientRequest.UploadField, in zone: ZoneID) async throws(CKError) -> UploadTarget

    /// Returns an asset of a record with a receipt for another record; `nil` if the record no longer has it.
    func rereference(_ field: String, of record: RecordID) async throws(CKError) -> Asset?
}

extension RelayClient {
    /// Moves records between zones of the current user, all or none.
    package func moveRecords(_ names: [String], from source: ZoneID, to target: ZoneID) async throws(CKError) {
        try await moveRecords(names, from: source, to: target, deletesSource: false)
    }
}

/// The zone that a response's records are in.
package enum ZoneNaming: Sendable {
    /// The zone of the request, under the caller's ID of it.
    case asRequested
    /// The zone that the response names, with its owner's record name.
    case asInResponse
}

/// The options of a request for a page of a zone's feed.
package struct FeedOptions: Sendable {
    /// The fields to fetch; `nil` for all.
    package var desiredKeys: [String]?
    package var limit: Int?
    /// Whether to count the records that follow, for which the relay has to scan them.
    package var countsRemaining = false

    package init(countsRemaining: Bool = false) { self.countsRemaining = countsRemaining }
}

/// A page of a database's feed.
package struct ZoneListPage: Sendable {
    package var entries: [ClientResponse.ZoneEntry]
    package var token: SyncToken
    package var moreComing: Bool

    package init(entries: [ClientResponse.ZoneEntry], token: SyncToken, moreComing: Bool) {
        self.entries = entries
        self.token = token
        self.moreComing = moreComing
    }
}

/// A page of a zone's feed, whose records are decoded when they are visited.
///
/// So the next page can be requested before this one is decoded.
package struct FeedPage: Sendable {
    package var token: SyncToken
    package var moreComing: Bool
    /// The number of records that follow; `nil` if unknown.
    package var remaining: Int?
    /// The zone with its owner's record name, if the response names it.
    package var zone: ZoneID?
    /// The size of the page in bytes.
    package var byteCount = 0
    private let visitEntries: @Sendable ((ClientResponse.RecordEntry, JSONValue?) -> Void) throws(CKError) -> Void

    package init(
        token: SyncToken,
        moreComing: Bool,
        visit: @escaping @Sendable ((ClientResponse.RecordEntry, JSONValue?) -> Void) throws(CKError) -> Void
    ) {
        self.token = token
        self.moreComing = moreComing
        visitEntries = visit
    }

    /// Calls `body` with each entry, in the feed's order, and with its JSON if the page came as JSON.
    package func visit(_ body: (ClientResponse.RecordEntry, JSONValue?) -> Void) throws(CKError) {
        try visitEntries(body)
    }
}

/// A request for a page of a query's results.
package struct QueryRequest: Sendable {
    /// The query as `ClientRequest.encode` encodes it.
    package var query: [UInt8]
    /// The zone to search; `nil` for all zones.
    package var zone: ZoneID?
    package var naming = ZoneNaming.asInResponse
    /// The fields to fetch; `nil` for all.
    package var desiredKeys: [String]?
    package var limit: Int?
    /// The position after the previous page.
    package var marker: String?

    package init(_ query: [UInt8], in zone: ZoneID?, desiredKeys: [String]? = nil, marker: String? = nil) {
        self.query = query
        self.zone = zone
        self.desiredKeys = desiredKeys
        self.marker = marker
    }
}

/// A page of a query's results.
package struct QueryPage: Sendable {
    package var entries: [ClientResponse.RecordEntry]
    /// The position of the next page; `nil` after the last one.
    package var marker: String?

    package init(entries: [ClientResponse.RecordEntry], marker: String? = nil) {
        self.entries = entries
        self.marker = marker
    }
}

/// A call about shares, which have short names in their links.
package enum ShareCall: Sendable {
    /// Returns the shares' metadata, with their root records and these fields of them if `fetchingRoots`.
    case resolve([String], fetchingRoots: Bool, rootKeys: [String]?)
    /// Makes the current user a participant.
    case accept([String])
}

/// The relay's answer to an upload request.
package enum UploadTarget: Sendable {
    case alreadyStored(Asset)
    /// The URL to upload the file to.
    case address(String)
}
