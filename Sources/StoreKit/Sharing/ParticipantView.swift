package import Records
package import RelayCore
import Wire

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
            zones[place].lastChange = joined.lastChange(
                of: zones[place],
                whole: lastChanges[zones[place].number] ?? 0
            )
            zones[place].view = view
        }
    }
}

extension [ShareMembership] {
    /// Returns the last change in the view of a user who has these memberships in the zone.
    ///
    /// The zone's last change has to be the one that gave the user access; `whole` is that of the whole zone.
    package func lastChange(of zone: Zone, whole: UInt64) -> UInt64 {
        let isWhole = contains { $0.root == nil }
        return Swift.max(zone.lastChange, isWhole ? whole : map(\.lastChange).max() ?? 0)
    }
}

extension StoredRecord {
    /// Returns a tombstone for a record that has left a user's view.
    ///
    /// It has the type that the user saw last, whatever record has the name now.
    package static func lastSeen(
        as name: String,
        _ type: String,
        at position: UInt64,
        by user: UserID
    ) -> StoredRecord {
        // The user could not see who removed it from view, and when.
        let stamp = Stamp(at: Timestamp(milliseconds: 0), by: user, device: DeviceFingerprint(bits: 0))
        return StoredRecord(
            name: name,
            type: type,
            change: position,
            created: stamp,
            modified: stamp,
            fields: FieldsJSON.empty,
            isDeleted: true
        )
    }
}
