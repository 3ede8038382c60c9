package import Records

/// How many bytes users and containers may have; `nil`: any number.
///
/// The public ones are CloudKit's published defaults: so much to begin with, and more with each user the container has.
/// Each environment of a container counts for itself.
package struct QuotaSettings: Hashable, Sendable {
    /// A bound that grows with the users of a container.
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

    /// One user's private database, records and assets together.
    package var privateBytes: Int64? = 5_000_000_000
    /// The same for users whose bound is another one; `Int64.max`: any number.
    package var ownPrivateBytes: [UserID: Int64] = [:]
    /// The records of a container's public database.
    package var publicRecords: Growing? = Growing(base: 100_000_000, perUser: 3_000_000)
    /// The assets of a container's public database.
    package var publicAssets: Growing? = Growing(base: 10_000_000_000, perUser: 250_000_000)
    /// What a container's public database may send in a calendar month (UTC): answers to reads, and assets.
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

    /// What is left for the owner of `zone`; `nil` where nothing is limited, and then nothing is looked up.
    ///
    /// `scope` is how the caller came to the zone: a participant is told less.
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
