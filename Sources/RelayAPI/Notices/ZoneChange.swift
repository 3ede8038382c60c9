package import Records

/// One zone that a commit has changed: what the notice hub is told after the commit, never before.
package struct ZoneChange: Hashable, Sendable {
    package var store: ContainerEnvironment
    /// With its owner's own record name, never the placeholder for "the caller".
    package var zone: ZoneID
    /// How the audience sees the zone: private for its owner, shared for participants.
    package var scope: DatabaseScope
    /// The zone's token after the change.
    package var syncToken: String?
    /// The device that made it, which gets no notice.
    ///
    /// `nil`: nobody's.
    package var deviceID: String?
    /// Whose devices are told, as far as their subscriptions cover the zone.
    package var audience: [UserID]
    /// Whether the notice says which zone it is; else it speaks of the database as a whole.
    package var namesZone: Bool

    /// A change in a private database: only the owner is told, unless `audience` says more.
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

/// A zone as one user sees it.
package struct NoticeSubject: Hashable, Sendable {
    package var scope: DatabaseScope
    /// `nil`: the database as a whole.
    package var zone: ZoneID?
    /// Of a query subscription's notice: its record, so that a later notice about another does not take its place.
    package var match: QueryMatchSubject?

    package init(scope: DatabaseScope, zone: ZoneID?, match: QueryMatchSubject? = nil) {
        self.scope = scope
        self.zone = zone
        self.match = match
    }
}

/// A record that a query subscription speaks of; `nil`: several.
package struct QueryMatchSubject: Hashable, Sendable {
    package var subscriptionID: String
    package var recordName: String?

    package init(subscriptionID: String, recordName: String?) {
        self.subscriptionID = subscriptionID
        self.recordName = recordName
    }
}

/// A user of one container and environment: what notices are addressed to.
package struct NoticeAddress: Hashable, Sendable {
    package var store: ContainerEnvironment
    package var user: UserID

    package init(store: ContainerEnvironment, user: UserID) {
        self.store = store
        self.user = user
    }

    /// By the user alone, whose name hardly ever comes in two stores: a look-up need not read all of the address.
    package func hash(into hasher: inout Hasher) { hasher.combine(user) }
}
