package import Records

/// The part of a zone that a participant sees, and the participant's permissions in it.
///
/// A zone in a view has a different identity than for its owner. A new identity is drawn whenever the view changes as a
/// whole, so that older tokens are rejected: a client cannot continue with a token from before its permission changed.
package struct ZoneView: Hashable, Sendable {
    /// A share that gives access to part of the zone.
    package struct Access: Hashable, Sendable {
        /// The store's internal number of the share.
        package var share: Int64
        /// The root of the shared hierarchy; `nil` for the whole zone.
        package var root: String?
        package var permission: Share.Permission

        package init(share: Int64, root: String?, permission: Share.Permission) {
            self.share = share
            self.root = root
            self.permission = permission
        }
    }

    /// The participant.
    package var user: UserID
    package var shares: [Access]
    /// The number of the change that gave access; records deleted before were never visible in the view.
    package var since: UInt64 = 0
    /// The different names under which the view shows records.
    package var aliases = RecordAliases()

    package init(user: UserID, shares: [Access]) {
        self.user = user
        self.shares = shares
    }

    /// Whether the view shows only part of the zone.
    package var isPartial: Bool { !shares.contains { $0.root == nil } }

    /// Returns the permission for records that this share covers; a view of the whole zone has only one share.
    package func permission(in share: Int64?) -> Share.Permission {
        guard isPartial else { return shares.first?.permission.granted ?? .none }
        return shares.first { $0.share == share }?.permission.granted ?? .none
    }
}

extension StoreReader {
    /// Returns the zone as this database shows it; `id` has its owner filled in, as by `DatabaseAddress.zone`.
    package func zone(_ id: ZoneID, in database: DatabaseAddress) throws(RelayError) -> Zone? {
        guard database.scope == .shared else { return try zone(id) }
        guard let user = database.caller.user else { return nil }
        if let zone = try zone(id, sharedWith: user) { return zone }
        return try unseenZone(id)
    }

    /// Returns the database's live zones, those of each owner in the order of their latest changes.
    ///
    /// Throws `tryAgainLater` if some are missing: a client would take them for ended.
    package func liveZones(in database: DatabaseAddress) throws(RelayError) -> [Zone] {
        if database.scope == .shared {
            guard let user = database.caller.user else { return [] }
            let zones = try zones(sharedWith: user).filter { !$0.isDeleted }
            guard !lacksOwners else { throw .ownersAreMissing }
            return zones
        }
        return try database.owner.map(liveZones(of:)) ?? []
    }

    /// Returns the owner's live zones and those deleted after a change, in the order of their latest changes.
    ///
    /// `latest` is the latest change of all zones, earlier deletions included. Without a change, no deleted zones are
    /// returned: the client knows none of them.
    func zones(
        of owner: UserID,
        endedAfter change: UInt64?
    ) throws(RelayError) -> (zones: [Zone], latest: UInt64) {
        let living = try liveZones(of: owner)
        let latest = try max(living.last?.lastChange ?? 0, lastDeletion(ofZonesOf: owner))
        guard let change, change < latest else { return (living, latest) }
        let ended = try endedZones(of: owner, after: change)
        return ((living + ended).sorted { $0.lastChange < $1.lastChange }, latest)
    }
}
