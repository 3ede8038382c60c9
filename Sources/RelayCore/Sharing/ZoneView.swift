package import Records

/// What one participant sees of a zone, and may do there.
///
/// A zone in a view has another identity than for its owner, drawn whenever what the participant sees changes as a whole,
/// so that tokens of before are refused: nobody goes on from a token with a right that has ended.
package struct ZoneView: Hashable, Sendable {
    /// One share that reaches into the view.
    package struct Access: Hashable, Sendable {
        /// The store's own number.
        package var share: Int64
        /// `nil`: the whole zone.
        package var root: String?
        package var permission: Share.Permission

        package init(share: Int64, root: String?, permission: Share.Permission) {
            self.share = share
            self.root = root
            self.permission = permission
        }
    }

    /// Whose view it is.
    package var user: UserID
    package var shares: [Access]
    /// The change by which it was given: what was gone by then was never seen in it.
    package var since: UInt64 = 0
    /// Under which other names it shows records.
    package var aliases = RecordAliases()

    package init(user: UserID, shares: [Access]) {
        self.user = user
        self.shares = shares
    }

    /// Whether there is more in the zone than is shown.
    package var isPartial: Bool { !shares.contains { $0.root == nil } }

    /// What may be done with records that this share covers; in a view of the whole zone there is but one.
    package func permission(in share: Int64?) -> Share.Permission {
        guard isPartial else { return shares.first?.permission.granted ?? .none }
        return shares.first { $0.share == share }?.permission.granted ?? .none
    }
}

extension StoreReader {
    /// The zone as this database shows it; `id` is full, as `DatabaseAddress.zone` gives it.
    package func zone(_ id: ZoneID, in database: DatabaseAddress) throws(RelayError) -> Zone? {
        guard database.scope == .shared else { return try zone(id) }
        guard let user = database.caller.user else { return nil }
        if let zone = try zone(id, sharedWith: user) { return zone }
        return try unseenZone(id)
    }

    /// The database's zones, in the order of their latest changes.
    package func livingZones(in database: DatabaseAddress) throws(RelayError) -> [Zone] {
        if database.scope == .shared { return try allShared(in: database).filter { !$0.isDeleted } }
        return try database.owner.map(livingZones(of:)) ?? []
    }

    /// The same with those that have ended after a change, and the latest change of all, those ended before included.
    ///
    /// Without a change there is nobody who could know of any that has ended.
    func zones(
        in database: DatabaseAddress,
        endedAfter change: UInt64?
    ) throws(RelayError) -> (zones: [Zone], latest: UInt64) {
        if database.scope == .shared {
            let all = try allShared(in: database)
            let zones = all.filter { !$0.isDeleted || $0.lastChange > change ?? .max }
            return (zones, all.last?.lastChange ?? 0)
        }
        guard let owner = database.owner else { return ([], 0) }
        let living = try livingZones(of: owner)
        let latest = try max(living.last?.lastChange ?? 0, lastEnd(ofZonesOf: owner))
        guard let change, change < latest else { return (living, latest) }
        let ended = try endedZones(of: owner, after: change)
        return ((living + ended).sorted { $0.lastChange < $1.lastChange }, latest)
    }

    private func allShared(in database: DatabaseAddress) throws(RelayError) -> [Zone] {
        guard let user = database.caller.user else { return [] }
        return try zones(sharedWith: user)
    }
}
