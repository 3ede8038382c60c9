package import Records
package import RelayCore

extension SharingReads {
    /// Adds to zones what this user sees of each: shares, aliases, and the last change in the view.
    ///
    /// The last change of each zone has to be the one that gave the user access; `lastChanges` has that of each whole zone.
    /// `zone` is the number of the only zone, `nil` if there may be several.
    package func addViews(
        of user: UserID,
        to zones: inout [Zone],
        lastChanges: [Int64: UInt64],
        in zone: Int64? = nil
    ) throws {
        let memberships = Dictionary(grouping: try memberships(of: [user], in: zone), by: \.zone)
        for place in zones.indices where !zones[place].isDeleted {
            let joined = memberships[zones[place].number] ?? []
            var view = ZoneView(
                user: user,
                shares: joined.map { .init(share: $0.share, root: $0.root, permission: $0.permission) }
            )
            view.since = zones[place].lastChange
            if joined.contains(where: \.hasAliases) {
                let shares = joined.map(\.share)
                view.aliases = RecordAliases(
                    of: try aliases(of: shares, in: zones[place].number),
                    joined: Set(shares)
                )
            }
            let last = view.isPartial ? joined.map(\.lastChange).max() : lastChanges[zones[place].number]
            zones[place].lastChange = max(zones[place].lastChange, last ?? 0)
            zones[place].view = view
        }
    }
}
