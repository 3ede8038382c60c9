package import Records

/// The database operations that a sync engine needs, implemented by a relay over HTTP or by a model in tests.
///
/// A call that fails as a whole throws; failures of single items are part of the result.
package protocol CloudDatabase<Row, Zone>: Sendable {
    /// The representation of a record.
    associatedtype Row: Sendable
    /// The representation of a zone.
    associatedtype Zone: Sendable

    /// Returns a page of the zones that changed after `token`; of all zones if `nil`.
    func databaseChanges(since token: SyncToken?) async throws -> DatabasePage

    /// Returns the next page of a zone's feed after `token`; from the beginning if `nil`.
    func zoneChanges(in zone: ZoneID, since token: SyncToken?) async throws -> ZonePage<Row>

    func modifyZones(saving: [Zone], deleting: [ZoneID]) async throws -> ZonesAnswer<Zone>

    /// Deletes a zone whose encrypted data can no longer be read, so that the user's other devices upload their data
    /// again.
    func reset(_ zone: ZoneID) async throws

    /// Writes records; if `atomically`, all of a zone's records or none.
    func modifyRecords(saving: [Row], deleting: [RecordID], atomically: Bool) async throws -> RecordsAnswer<Row>
}

/// One page of a database's change feed.
package struct DatabasePage: Sendable {
    package var changed: [ZoneID]
    /// The reasons are explained in Sync.md, "Ends of zones".
    package var deleted: [(zone: ZoneID, reason: ZoneDeletionReason)]
    package var token: SyncToken
    package var moreComing: Bool

    package init(
        changed: [ZoneID],
        deleted: [(zone: ZoneID, reason: ZoneDeletionReason)],
        token: SyncToken,
        moreComing: Bool
    ) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// One page of a zone's change feed, to be applied in this order.
package struct ZonePage<Row: Sendable>: Sendable {
    package var changed: [Row]
    /// With the record type if the relay still knows it.
    package var deleted: [(id: RecordID, type: String)]
    package var token: SyncToken
    package var moreComing: Bool
    /// Records that changed but could not be returned.
    package var failures: [(id: RecordID, error: any Error)] = []
    /// Whether this device can decrypt the zone's encrypted values; `nil` if unknown.
    package var isReadable: Bool?

    package init(changed: [Row], deleted: [(id: RecordID, type: String)], token: SyncToken, moreComing: Bool) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// The results of a request that modifies zones.
package struct ZonesAnswer<Zone: Sendable>: Sendable {
    package var saved: [ZoneID: Result<Zone, any Error>]
    package var deleted: [ZoneID: Result<Void, any Error>]

    package init(saved: [ZoneID: Result<Zone, any Error>], deleted: [ZoneID: Result<Void, any Error>]) {
        self.saved = saved
        self.deleted = deleted
    }
}

/// The results of a request that modifies records.
package struct RecordsAnswer<Row: Sendable>: Sendable {
    package var saved: [RecordID: Result<Row, any Error>]
    package var deleted: [RecordID: Result<Void, any Error>]

    package init(saved: [RecordID: Result<Row, any Error>], deleted: [RecordID: Result<Void, any Error>]) {
        self.saved = saved
        self.deleted = deleted
    }
}

/// A change token as a client sees it: opaque text to store, send back and compare for equality only.
package struct SyncToken: Hashable, Sendable, Codable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
