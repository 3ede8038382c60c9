import RelayCore

extension ConfigurationKeys {
    private static let mostBytes = 1_000_000_000_000_000

    /// Storage and transfer quotas, each per container and environment.
    static let quotas: [ConfigurationKey] = [
        .whole(
            "quota.private",
            \.privateQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for one user's records and assets in a container; 0: no limit (the default of all quotas with --dev)."
        ),
        .whole(
            "quota.public-records",
            \.publicRecordQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for records in a container's public database; 0: no limit."
        ),
        .whole(
            "quota.public-records-per-user",
            \.publicRecordQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
        .whole(
            "quota.public-assets",
            \.publicAssetQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum for assets in a container's public database; 0: no limit."
        ),
        .whole(
            "quota.public-assets-per-user",
            \.publicAssetQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
        .whole(
            "quota.public-transfer",
            \.publicTransferQuota,
            0...mostBytes,
            unit: "bytes",
            "Maximum that a container's public database sends per month, records and assets; 0: no limit."
        ),
        .whole(
            "quota.public-transfer-per-user",
            \.publicTransferQuotaPerUser,
            0...mostBytes,
            unit: "bytes",
            "Added to that maximum for each user of the container."
        ),
    ]
}

/// Quotas as the file expresses them: a base and an amount per user, with 0 for no limit.
extension ServeSettings {
    var privateQuota: Int {
        get { Int(limits.quota.privateBytes ?? 0) }
        set { limits.quota.privateBytes = newValue == 0 ? nil : Int64(newValue) }
    }

    var publicRecordQuota: Int {
        get { Self.base(limits.quota.publicRecords) }
        set { limits.quota.publicRecords = Self.growing(newValue, QuotaSettings().publicRecords) }
    }

    var publicRecordQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicRecords) }
        set { limits.quota.publicRecords?.perUser = Int64(newValue) }
    }

    var publicAssetQuota: Int {
        get { Self.base(limits.quota.publicAssets) }
        set { limits.quota.publicAssets = Self.growing(newValue, QuotaSettings().publicAssets) }
    }

    var publicAssetQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicAssets) }
        set { limits.quota.publicAssets?.perUser = Int64(newValue) }
    }

    var publicTransferQuota: Int {
        get { Self.base(limits.quota.publicTransfer) }
        set { limits.quota.publicTransfer = Self.growing(newValue, QuotaSettings().publicTransfer) }
    }

    var publicTransferQuotaPerUser: Int {
        get { Self.perUser(limits.quota.publicTransfer) }
        set { limits.quota.publicTransfer?.perUser = Int64(newValue) }
    }

    private static func base(_ quota: QuotaSettings.Growing?) -> Int { Int(quota?.base ?? 0) }
    private static func perUser(_ quota: QuotaSettings.Growing?) -> Int { Int(quota?.perUser ?? 0) }

    /// The amount per user keeps its default until it is set too.
    private static func growing(_ base: Int, _ standard: QuotaSettings.Growing?) -> QuotaSettings.Growing? {
        base == 0 ? nil : QuotaSettings.Growing(base: Int64(base), perUser: standard?.perUser ?? 0)
    }
}
