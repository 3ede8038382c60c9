package import Records

/// The storage and transfer limits of users and containers in bytes; `nil` means unlimited.
///
/// The defaults of the public limits are those that CloudKit has published: a base, plus an amount for each user of the
/// container. Each environment of a container is counted separately.
package struct QuotaSettings: Hashable, Sendable {
    /// A limit that grows with the number of a container's users.
    package struct Growing: Hashable, Sendable {
        package var base: Int64
        package var perUser: Int64

        package init(base: Int64, perUser: Int64) {
            self.base = base
            self.perUser = perUser
        }

        package func bytes(forUsers count: Int) -> Int64 {
            let (more, isTooMuch) = perUser.multipliedReportingOverflow(by: Int64(count))
            return isTooMuch ? .max : base.addingReportingOverflow(more).overflow ? .max : base + more
        }
    }

    /// The limit of one user's private database, records and assets together.
    package var privateBytes: Int64? = 5_000_000_000
    /// The limits of users who have one of their own; `Int64.max` means unlimited.
    package var ownPrivateBytes: [UserID: Int64] = [:]
    /// The limit for records in a container's public database.
    package var publicRecords: Growing? = Growing(base: 100_000_000, perUser: 3_000_000)
    /// The limit for assets in a container's public database.
    package var publicAssets: Growing? = Growing(base: 10_000_000_000, perUser: 250_000_000)
    /// The limit for the bytes that a container's public database sends in a calendar month (UTC): responses to reads,
    /// and assets.
    package var publicTransfer: Growing? = Growing(base: 2_000_000_000, perUser: 50_000_000)

    package init() {}

    package static let unlimited: QuotaSettings = {
        var settings = QuotaSettings()
        settings.privateBytes = nil
        settings.publicRecords = nil
        settings.publicAssets = nil
        settings.publicTransfer = nil
        return settings
    }()

    /// Returns the remaining quota of the owner of `zone`; `nil`, without reading anything, if nothing is limited.
    ///
    /// `scope` is the database through which the caller reaches the zone: errors for a participant contain fewer
    /// details.
    package func room(
        in zone: ZoneID,
        by scope: DatabaseScope,
        from reader: any StoreReader
    ) throws(RelayError) -> QuotaRoom? {
        guard zone.owner == Zone.publicOwner else {
            let own = ownPrivateBytes.isEmpty ? nil : ownPrivateBytes[zone.owner]
            guard let privateBytes = own ?? privateBytes, privateBytes < .max else { return nil }
            let use = try reader.storageUse(of: zone.owner)
            return QuotaRoom(use: use, total: privateBytes, whose: scope == .shared ? .zoneOwner : .caller)
        }
        guard publicRecords != nil || publicAssets != nil else { return nil }
        let users = try reader.userCount
        return QuotaRoom(
            use: try reader.storageUse(of: zone.owner),
            records: publicRecords?.bytes(forUsers: users),
            assets: publicAssets?.bytes(forUsers: users),
            whose: .container
        )
    }
}
