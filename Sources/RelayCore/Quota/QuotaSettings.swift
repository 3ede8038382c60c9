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
    package var userPrivateBytes: [UserID: Int64] = [:]
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
    ) throws(RelayError) -> RemainingQuota? {
        guard zone.owner == Zone.publicOwner else {
            let own = userPrivateBytes.isEmpty ? nil : userPrivateBytes[zone.owner]
            guard let privateBytes = own ?? privateBytes, privateBytes < .max else { return nil }
            let use = try reader.storageUse(of: zone.owner)
            return RemainingQuota(use: use, total: privateBytes, owner: scope == .shared ? .zoneOwner : .caller)
        }
        guard publicRecords != nil || publicAssets != nil else { return nil }
        let users = try reader.userCount
        return RemainingQuota(
            use: try reader.storageUse(of: zone.owner),
            records: publicRecords?.bytes(forUsers: users),
            assets: publicAssets?.bytes(forUsers: users),
            owner: .container
        )
    }
}

/// The storage and transfer limits of one environment of a container, where they differ from the configuration.
///
/// `nil` means the configured limit, `Int64.max` no limit. These limits do not grow with the number of users.
package struct ContainerQuota: Hashable, Sendable {
    /// The limit of each private database in the container; a user's own limit takes precedence.
    package var privateBytes: Int64?
    package var publicRecords: Int64?
    package var publicAssets: Int64?
    /// Per calendar month.
    package var publicTransfer: Int64?

    package init(
        privateBytes: Int64? = nil,
        publicRecords: Int64? = nil,
        publicAssets: Int64? = nil,
        publicTransfer: Int64? = nil
    ) {
        self.privateBytes = privateBytes
        self.publicRecords = publicRecords
        self.publicAssets = publicAssets
        self.publicTransfer = publicTransfer
    }

    package var isEmpty: Bool { self == ContainerQuota() }
}

/// All limits that operators have set for individual users and containers.
package struct QuotaOverrides: Hashable, Sendable {
    /// Limits of private databases, by the user IDs in each container.
    package var users: [ContainerEnvironment: [UserID: Int64]]
    package var containers: [ContainerEnvironment: ContainerQuota]

    package init(
        users: [ContainerEnvironment: [UserID: Int64]] = [:],
        containers: [ContainerEnvironment: ContainerQuota] = [:]
    ) {
        self.users = users
        self.containers = containers
    }

    package var isEmpty: Bool { users.isEmpty && containers.isEmpty }
}

extension QuotaSettings {
    /// Returns these settings with a container's own limits applied.
    package func replaced(by own: ContainerQuota?) -> QuotaSettings {
        guard let own else { return self }
        var settings = self
        if let bytes = own.privateBytes { settings.privateBytes = bytes == .max ? nil : bytes }
        settings.publicRecords = Self.growing(publicRecords, own.publicRecords)
        settings.publicAssets = Self.growing(publicAssets, own.publicAssets)
        settings.publicTransfer = Self.growing(publicTransfer, own.publicTransfer)
        return settings
    }

    private static func growing(_ configured: Growing?, _ own: Int64?) -> Growing? {
        guard let own else { return configured }
        return own == .max ? nil : Growing(base: own, perUser: 0)
    }
}

extension ContainerQuota {
    /// A description for logs and people, such as `private 1 GB, public assets no limit`.
    package var words: String {
        let parts = [
            ("private", privateBytes), ("public records", publicRecords), ("public assets", publicAssets),
            ("public transfer", publicTransfer),
        ]
        let set = parts.compactMap { name, bytes in
            bytes.map { "\(name) \($0 == .max ? "no limit" : ByteText.of($0))" }
        }
        return set.isEmpty ? "as configured" : set.joined(separator: ", ")
    }
}

/// A calendar month (UTC), the period over which transfers are counted.
package struct CalendarMonth: Hashable, Sendable {
    /// Years times twelve plus months; January 1970 is 23,640.
    package var number: Int

    package init(number: Int) { self.number = number }

    package init(of timestamp: Timestamp) {
        // Days in eras of 400 years, each year beginning in March so that the leap day comes last: Hinnant's civil_from_days.
        let days = Int(timestamp.milliseconds.floorDivided(by: 86_400_000)) + 719_468
        let era = days.floorDivided(by: 146_097)
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        number = (yearOfEra + era * 400) * 12 + monthFromMarch + 2
    }

    package var next: CalendarMonth { CalendarMonth(number: number + 1) }

    /// The month's first millisecond.
    package var start: Timestamp {
        let fromMarch = number - 2
        let (year, month) = (fromMarch.floorDivided(by: 12), fromMarch - fromMarch.floorDivided(by: 12) * 12)
        let era = year.floorDivided(by: 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * month + 2) / 5
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return Timestamp(milliseconds: Int64(era * 146_097 + dayOfEra - 719_468) * 86_400_000)
    }
}

extension BinaryInteger {
    fileprivate func floorDivided(by divisor: Self) -> Self {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
