package import Records

/// What one commit did, for whoever sends notices.
package struct Commit: Sendable {
    package var zones: [CommittedChange]
    /// The changed records of those types that query subscriptions watch; of others nothing is kept.
    package var records: [CommittedRecord]
    package var subscriptions: [CommittedSubscription]
    /// The schema after the commit.
    package var schema: Schema

    package init(
        zones: [CommittedChange] = [],
        records: [CommittedRecord] = [],
        subscriptions: [CommittedSubscription] = [],
        schema: Schema
    ) {
        self.zones = zones
        self.records = records
        self.subscriptions = subscriptions
        self.schema = schema
    }

    package var isEmpty: Bool { zones.isEmpty && records.isEmpty && subscriptions.isEmpty }
}

/// A commit's effect on one zone.
package struct CommittedChange: Hashable, Sendable {
    package var zone: ZoneID
    /// The zone's token right after; `nil` for a deleted zone and where none are kept.
    package var token: ChangeToken?
    /// The device that made it; `nil` when several did.
    package var device: String?
    /// Whose device that is; `nil`: the zone's owner's.
    package var author: UserID?
    /// Those whom what has changed is, or was, shared with.
    package var audience: [Participant]

    /// Somebody besides the owner whom a change concerns.
    package struct Participant: Hashable, Sendable {
        package var user: UserID
        /// Of the zone in their view; `nil` where they see it no more, or not yet.
        package var token: ChangeToken?
        /// Whether they may be told which zone it is.
        package var knowsZone: Bool

        package init(user: UserID, token: ChangeToken?, knowsZone: Bool = true) {
            self.user = user
            self.token = token
            self.knowsZone = knowsZone
        }
    }

    package init(
        zone: ZoneID,
        token: ChangeToken?,
        device: String?,
        author: UserID? = nil,
        audience: [Participant] = []
    ) {
        self.zone = zone
        self.token = token
        self.device = device
        self.author = author
        self.audience = audience
    }
}

/// A commit's effect on one record.
package struct CommittedRecord: Hashable, Sendable {
    package var zone: ZoneID
    /// What it was before; `nil` or a tombstone where it was not there.
    package var before: StoredRecord?
    /// What it is now; a tombstone when it was deleted.
    package var after: StoredRecord
    /// The device that made the change.
    package var device: String
    /// Those besides the owner who see it, or saw it.
    package var viewers: [Viewer] = []
    /// Whether nothing has changed but who sees it: the owner has no news of it then.
    package var isOnlyMoved = false

    /// Somebody with whom the record is shared, or was.
    package struct Viewer: Hashable, Sendable {
        package var user: UserID
        package var sawIt: Bool
        package var seesIt: Bool
        /// Under which names they know the zone's records.
        package var aliases: RecordAliases

        package init(user: UserID, sawIt: Bool, seesIt: Bool, aliases: RecordAliases = RecordAliases()) {
            self.user = user
            self.sawIt = sawIt
            self.seesIt = seesIt
            self.aliases = aliases
        }
    }

    package init(zone: ZoneID, before: StoredRecord?, after: StoredRecord, device: String) {
        self.zone = zone
        self.before = before
        self.after = after
        self.device = device
    }
}

/// A subscription of some user that was made, replaced or ended.
package struct CommittedSubscription: Hashable, Sendable {
    package var user: UserID
    package var scope: DatabaseScope
    package var id: String
    /// `nil`: it is gone.
    package var subscription: Subscription?

    package init(user: UserID, scope: DatabaseScope, id: String, subscription: Subscription?) {
        self.user = user
        self.scope = scope
        self.id = id
        self.subscription = subscription
    }
}
