package import Records

/// The zones of one owner as a user sees them: the user's own zones, or those that the owner shares with the user.
package struct OwnerView: Hashable, Sendable {
    package var user: UserID
    package var owner: UserID

    package init(of owner: UserID, seenBy user: UserID) {
        self.user = user
        self.owner = owner
    }

    /// The database in which the user has these zones.
    package var scope: DatabaseScope { user == owner ? .private : .shared }
}

// For a store without a faster way.
extension StoreReader {
    package func lastChanges(seenBy users: [UserID]) throws(RelayError) -> [OwnerView: UInt64] {
        var found: [OwnerView: UInt64] = [:]
        for user in users {
            let live = try liveZones(of: user).last?.lastChange ?? 0
            found[OwnerView(of: user, seenBy: user)] = max(live, try lastDeletion(ofZonesOf: user))
            for zone in try zones(sharedWith: user) {
                found[OwnerView(of: zone.id.owner, seenBy: user), default: 0].formMaximum(zone.lastChange)
            }
        }
        return found
    }

    package func zones(in view: OwnerView, after change: UInt64) throws(RelayError) -> [Zone] {
        guard view.scope == .private else {
            return try zones(sharedWith: view.user).filter { $0.id.owner == view.owner && $0.lastChange > change }
        }
        let live = try liveZones(of: view.owner).filter { $0.lastChange > change }
        return live + (try endedZones(of: view.owner, after: change))
    }
}

extension UInt64 {
    fileprivate mutating func formMaximum(_ other: UInt64) { self = Swift.max(self, other) }
}
