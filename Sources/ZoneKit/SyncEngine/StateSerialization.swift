import Foundation
import Records
import SyncCore

extension CKSyncEngine.State {
    /// The state of an engine in a form that the app saves together with its data.
    ///
    /// The content is opaque. Later versions of this library can read it.
    public struct Serialization: Codable, Sendable {
        struct Zone: Codable, Sendable, Hashable {
            var name: String
            var owner: String
            var token: SyncToken?

            init(_ zone: ZoneID, token: SyncToken? = nil) {
                name = zone.zoneName
                owner = zone.owner.recordName
                self.token = token
            }

            var zone: ZoneID { ZoneID(name, owner: UserID(owner)) }
        }

        struct Change: Codable, Sendable {
            var operation: Outbox.Operation
            /// `nil` for a change of the zone itself.
            var record: String?
            var zone: Zone
        }

        struct Listing: Codable, Sendable {
            var zone: Zone
            var records: [String]
        }

        struct Saves: Codable, Sendable {
            var zone: Zone
            /// The types of the records, by record name.
            var records: [String: String]
        }

        var version = 1
        var databaseToken: SyncToken?
        var zones: [Zone] = []
        var unfetched: [Zone] = []
        var changes: [Change] = []
        var isUntracked = false
        var heldUntil: Date?
        var heldFor: TimeInterval?
        var user: String?
        /// Zones that are being listed from their beginning; `nil` if there are none, as for the following ones.
        var listings: [Listing]?
        /// The zones seen so far while the database is being listed.
        var databaseListing: [Zone]?
        /// Saved records that a listing may leave out.
        var unheard: [Saves]?
        /// Zones that did not exist, and whose absence has not been reported to the app.
        var vanished: [Zone]?
        /// Zones that were written to while the database is being listed.
        var written: [Zone]?
        /// Zones with values that could not be decrypted when they arrived.
        var unreadable: [Zone]?
    }
}

extension CKSyncEngine.State.Serialization {
    init(_ contents: CKSyncEngine.State.Contents) {
        databaseToken = contents.feed.databaseToken
        zones = contents.feed.zoneTokens.map { Zone($0.key, token: $0.value) }
        unfetched = contents.feed.unfetched.map { Zone($0) }
        // If a zone also has a pending change, that change comes later and therefore replaces this one.
        let zoneChanges = (contents.untold.zones + contents.zones.pending).map { pending in
            switch pending {
            case .saveZone(let zone): Change(operation: .save, zone: Zone(zone.zoneID.zone))
            case .deleteZone(let id): Change(operation: .delete, zone: Zone(id.zone))
            }
        }
        let pending = contents.outbox.pending.map { (id: $0.id, operation: $0.operation) }
        let records = contents.untold.records + pending
        let recordChanges = records.map { id, operation in
            Change(operation: operation, record: id.recordName, zone: Zone(id.zone))
        }
        changes = zoneChanges + recordChanges
        isUntracked = contents.isUntracked
        heldUntil = contents.heldUntil
        heldFor = contents.heldFor
        user = contents.user
        vanished = contents.feed.vanished.isEmpty ? nil : contents.feed.vanished.map { Zone($0) }
        written = contents.feed.written.isEmpty ? nil : contents.feed.written.map { Zone($0) }
        databaseListing = contents.feed.listing.map { $0.map { Zone($0) } }
        let unheard = contents.unheard.types.map { Saves(zone: Zone($0.key), records: $0.value) }
        self.unheard = unheard.isEmpty ? nil : unheard
        unreadable = contents.unreadable.isEmpty ? nil : contents.unreadable.map { Zone($0) }
        let listings = contents.listings.map { Listing(zone: Zone($0.key), records: $0.value.sorted()) }
        self.listings = listings.isEmpty ? nil : listings
    }

    var contents: CKSyncEngine.State.Contents {
        var contents = CKSyncEngine.State.Contents()
        let tokens = zones.compactMap { zone in zone.token.map { (zone.zone, $0) } }
        contents.feed = FeedState(
            databaseToken: databaseToken,
            zoneTokens: Dictionary(tokens, uniquingKeysWith: { $1 }),
            unfetched: unfetched.map(\.zone),
            listing: databaseListing.map { Set($0.map(\.zone)) },
            vanished: Set((vanished ?? []).map(\.zone)),
            written: Set((written ?? []).map(\.zone))
        )
        for change in changes {
            switch (change.record, change.operation) {
            case (let record?, let operation): contents.outbox.add(operation, RecordID(record, in: change.zone.zone))
            case (nil, .save): contents.zones.add(.saveZone(CKRecordZone(zoneID: CKRecordZone.ID(change.zone.zone))))
            case (nil, .delete): contents.zones.add(.deleteZone(CKRecordZone.ID(change.zone.zone)))
            }
        }
        contents.isUntracked = isUntracked
        contents.heldUntil = heldUntil
        contents.heldFor = heldFor
        contents.user = user
        contents.unheard = UnheardSaves(
            Dictionary((unheard ?? []).map { ($0.zone.zone, $0.records) }, uniquingKeysWith: { $1 })
        )
        contents.unreadable = Set((unreadable ?? []).map(\.zone))
        for listing in listings ?? [] {
            contents.listings[listing.zone.zone] = Set(listing.records)
            // The end of the listing has not been reported to the app yet.
            contents.feed.changed(listing.zone.zone)
        }
        return contents
    }
}
