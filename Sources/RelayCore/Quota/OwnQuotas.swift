package import Records

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
package struct OwnQuotas: Hashable, Sendable {
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
