package import Records

/// The effects of one commit, as input for change notices.
package struct Commit: Sendable {
    package var zones: [CommittedChange]
    /// The changed records of the types that query subscriptions watch; changes to other types are left out.
    package var records: [CommittedRecord]
    package var subscriptions: [CommittedSubscription]
    /// The store's `subscriptionsVersion` after the commit, if it has changed subscriptions.
    package var subscriptionsVersion: UInt64
    /// The schema after the commit.
    package var schema: Schema

    package init(
        zones: [CommittedChange] = [],
        records: [CommittedRecord] = [],
        subscriptions: [CommittedSubscription] = [],
        subscriptionsVersion: UInt64 = 0,
        schema: Schema
    ) {
        self.zones = zones
        self.records = records
        self.subscriptions = subscriptions
        self.subscriptionsVersion = subscriptionsVersion
        self.schema = schema
    }

    package var isEmpty: Bool { zones.isEmpty && records.isEmpty && subscriptions.isEmpty }
}

/// A commit's effect on one zone.
package struct CommittedChange: Hashable, Sendable {
    package var zone: ZoneID
    /// The zone's change token right after the commit; `nil` for a deleted zone and for a zone without a change feed.
    package var token: ChangeToken?
    /// The device that made the changes; `nil` if several devices did.
    package var device: String?
    /// The user of `device`; `nil` means the zone's owner.
    package var author: UserID?
    /// The participants with whom the changed data is, or was, shared.
    package var audience: [Participant]

    /// A user other than the owner who is affected by a change.
    package struct Participant: Hashable, Sendable {
        package var user: UserID
        /// The change token of the zone as this user sees it; `nil` if they no longer, or do not yet, see it.
        package var token: ChangeToken?
        /// Whether the notice may name the zone.
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
    /// The record before the commit; `nil` or a tombstone if it did not exist.
    package var before: StoredRecord?
    /// The record after the commit; a tombstone if it was deleted.
    package var after: StoredRecord
    /// The device that made the change.
    package var device: String
    /// The users other than the owner who see the record, or saw it before the commit.
    package var viewers: [Viewer] = []
    /// Whether only the set of viewers changed, so that the owner needs no notification.
    package var isOnlyMoved = false

    /// A user with whom the record is, or was, shared.
    package struct Viewer: Hashable, Sendable {
        package var user: UserID
        package var couldSee: Bool
        package var canSee: Bool
        /// The names under which this user knows the zone's records.
        package var aliases: RecordAliases

        package init(user: UserID, couldSee: Bool, canSee: Bool, aliases: RecordAliases = RecordAliases()) {
            self.user = user
            self.couldSee = couldSee
            self.canSee = canSee
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

/// A user's subscription that was created, replaced or deleted.
package struct CommittedSubscription: Hashable, Sendable {
    package var user: UserID
    package var scope: DatabaseScope
    package var id: String
    /// `nil` if it was deleted.
    package var subscription: Subscription?

    package init(user: UserID, scope: DatabaseScope, id: String, subscription: Subscription?) {
        self.user = user
        self.scope = scope
        self.id = id
        self.subscription = subscription
    }
}
