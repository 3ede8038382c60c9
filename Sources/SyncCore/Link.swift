package import Records

/// What a sync engine asks of a database, whatever lies behind: a relay over HTTP, or a model of one in a test.
///
/// A call that cannot be answered as a whole throws; what concerns one item comes back as that item's result.
package protocol Link<Row, Zone>: Sendable {
    /// A record as this side knows it.
    associatedtype Row: Sendable
    /// A zone as this side knows it.
    associatedtype Zone: Sendable

    /// The zones that changed after `token`; all zones after `nil`.
    func databaseChanges(since token: SyncToken?) async throws -> DatabasePage

    /// The next page of a zone's feed after `token`; from its beginning after `nil`.
    func zoneChanges(in zone: ZoneID, since token: SyncToken?) async throws -> ZonePage<Row>

    func modifyZones(saving: [Zone], deleting: [ZoneID]) async throws -> ZonesAnswer<Zone>

    /// Ends a zone of which nobody can read any more what is encrypted in it, and tells the user's other devices so.
    func reset(_ zone: ZoneID) async throws

    /// Writes records; with `atomically` all of a zone's records or none of them.
    func modifyRecords(saving: [Row], deleting: [RecordID], atomically: Bool) async throws -> RecordsAnswer<Row>
}

/// One page of a database's feed of zones.
package struct DatabasePage: Sendable {
    /// Why a zone is gone.
    ///
    /// See Sync.md, "Ends of zones".
    package typealias Loss = ZoneLoss

    package var changed: [ZoneID]
    package var deleted: [(zone: ZoneID, loss: Loss)]
    package var token: SyncToken
    package var moreComing: Bool

    package init(changed: [ZoneID], deleted: [(zone: ZoneID, loss: Loss)], token: SyncToken, moreComing: Bool) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// One page of a zone's feed, to be applied in this order.
package struct ZonePage<Row: Sendable>: Sendable {
    package var changed: [Row]
    /// The record type where the relay still knows it.
    package var deleted: [(id: RecordID, type: String)]
    package var token: SyncToken
    package var moreComing: Bool
    /// Records that have changed, and that the relay could not give.
    package var failures: [(id: RecordID, error: any Error)] = []
    /// Whether the values in the zone that devices have sealed can be read here; `nil`: nobody knows.
    package var isReadable: Bool?

    package init(changed: [Row], deleted: [(id: RecordID, type: String)], token: SyncToken, moreComing: Bool) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// What became of each zone of a request.
package struct ZonesAnswer<Zone: Sendable>: Sendable {
    package var saved: [ZoneID: Result<Zone, any Error>]
    package var deleted: [ZoneID: Result<Void, any Error>]

    package init(saved: [ZoneID: Result<Zone, any Error>], deleted: [ZoneID: Result<Void, any Error>]) {
        self.saved = saved
        self.deleted = deleted
    }
}

/// What became of each record of a request.
package struct RecordsAnswer<Row: Sendable>: Sendable {
    package var saved: [RecordID: Result<Row, any Error>]
    package var deleted: [RecordID: Result<Void, any Error>]

    package init(saved: [RecordID: Result<Row, any Error>], deleted: [RecordID: Result<Void, any Error>]) {
        self.saved = saved
        self.deleted = deleted
    }
}
