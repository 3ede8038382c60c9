package import Records

/// One zone that a commit has changed; passed to the notice hub after the commit.
package struct ZoneChange: Hashable, Sendable {
    package var store: ContainerEnvironment
    /// With the owner's own record name, never the placeholder for the caller.
    package var zone: ZoneID
    /// How the audience sees the zone: private for its owner, shared for participants.
    package var scope: DatabaseScope
    /// The zone's token after the change.
    package var syncToken: String?
    /// The device that made the change and gets no notice; `nil` if there is none.
    package var deviceID: String?
    /// The users to notify, if their subscriptions cover the zone.
    package var audience: [UserID]
    /// Whether the notice names the zone; otherwise it reports a change of the whole database.
    package var namesZone: Bool

    /// Creates a change in a private database; only the owner is notified unless `audience` is set.
    package init(
        store: ContainerEnvironment,
        zone: ZoneID,
        scope: DatabaseScope = .private,
        syncToken: String?,
        deviceID: String?,
        audience: [UserID]? = nil,
        namesZone: Bool = true
    ) {
        self.namesZone = namesZone
        self.store = store
        self.zone = zone
        self.scope = scope
        self.syncToken = syncToken
        self.deviceID = deviceID
        self.audience = audience ?? [zone.owner]
    }
}

/// What a notice is about: a database or a zone as one user sees it.
package struct NoticeSubject: Hashable, Sendable {
    package var scope: DatabaseScope
    /// `nil` for the database as a whole.
    package var zone: ZoneID?
    /// The record of a query notice, so that a later notice about another record does not replace it.
    package var match: QueryMatchSubject?

    package init(scope: DatabaseScope, zone: ZoneID?, match: QueryMatchSubject? = nil) {
        self.scope = scope
        self.zone = zone
        self.match = match
    }
}

/// A record that matches a query subscription; `recordName` is `nil` if there are several.
package struct QueryMatchSubject: Hashable, Sendable {
    package var subscriptionID: String
    package var recordName: String?

    package init(subscriptionID: String, recordName: String?) {
        self.subscriptionID = subscriptionID
        self.recordName = recordName
    }
}

/// A user in one container and environment: the recipient of notices.
package struct NoticeAddress: Hashable, Sendable {
    package var store: ContainerEnvironment
    package var user: UserID

    package init(store: ContainerEnvironment, user: UserID) {
        self.store = store
        self.user = user
    }

    /// Hashes only the user, whose name hardly ever occurs in two stores, to make lookups cheaper.
    package func hash(into hasher: inout Hasher) { hasher.combine(user) }
}
