package import Records

/// The storage that a user's or container's data uses, in bytes, as quotas count it.
///
/// A record counts as its name, its fields and `recordOverhead`. A tombstone counts as nothing, so that a deletion
/// frees all of the record's bytes. An asset counts once per zone, however many of the zone's records use it.
package struct StorageUse: Hashable, Sendable {
    package var records: Int64
    package var assets: Int64

    package init(records: Int64 = 0, assets: Int64 = 0) {
        self.records = records
        self.assets = assets
    }

    /// The bytes of one record without its assets; 0 for a tombstone and for `nil`.
    package init(of record: StoredRecord?) {
        assets = 0
        records = 0
        guard let record, !record.isDeleted else { return }
        records = Self.recordOverhead + Int64(record.name.utf8.count + record.fields.count)
    }

    /// Approximate bytes of a record's system values and index entries.
    package static let recordOverhead: Int64 = 100

    package var total: Int64 { records + assets }

    package static func + (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records + b.records, assets: a.assets + b.assets)
    }

    package static func - (a: StorageUse, b: StorageUse) -> StorageUse {
        StorageUse(records: a.records - b.records, assets: a.assets - b.assets)
    }
}

/// The remaining storage of a quota.
///
/// A write that does not increase the use is always allowed, even if the use exceeds the limit: limits can be lowered,
/// and users must still be able to delete and repair data.
package struct RemainingQuota: Hashable, Sendable {
    /// The quota's owner, relative to the caller.
    package enum Owner: Hashable, Sendable {
        case caller, zoneOwner, container
    }

    package private(set) var use: StorageUse
    private let records: Int64?
    private let assets: Int64?
    private let total: Int64?
    private let owner: Owner

    /// - Parameters:
    ///   - use: The storage in use now.
    ///   - records: The limit for records in bytes; `nil` means unlimited.
    ///   - assets: The limit for assets in bytes; `nil` means unlimited.
    ///   - total: The limit for records and assets together in bytes; `nil` means unlimited.
    ///   - owner: The quota's owner, for the text of errors.
    package init(
        use: StorageUse,
        records: Int64? = nil,
        assets: Int64? = nil,
        total: Int64? = nil,
        owner: Owner
    ) {
        self.use = use
        self.records = records
        self.assets = assets
        self.total = total
        self.owner = owner
    }

    /// Adds what a write needs, or throws `quotaExceeded`.
    package mutating func take(_ growth: StorageUse) throws(RelayError) {
        if let limit = exceeded(by: growth) { throw refusal(limit, growth) }
        use = use + growth
    }

    package func allows(_ growth: StorageUse) -> Bool { exceeded(by: growth) == nil }

    /// Subtracts what a write frees.
    package mutating func release(_ freed: StorageUse) { use = use - freed }

    /// The maximum size of a new asset in bytes; `nil` means unlimited.
    package var assetBytesLeft: Int64? {
        let own = assets.map { $0 - use.assets }
        let shared = total.map { $0 - use.total }
        return [own, shared].compactMap(\.self).min().map { max($0, 0) }
    }

    /// The error for an asset that is too large to upload.
    package var assetRefusal: RelayError {
        refusal(assets.map { (.assets, $0) } ?? (.everything, total ?? 0), StorageUse())
    }

    private enum Part {
        case records, assets, everything
    }

    private func exceeded(by growth: StorageUse) -> (Part, Int64)? {
        if let records, growth.records > 0, use.records + growth.records > records { return (.records, records) }
        if let assets, growth.assets > 0, use.assets + growth.assets > assets { return (.assets, assets) }
        if let total, growth.total > 0, use.total + growth.total > total { return (.everything, total) }
        return nil
    }

    private func refusal(_ exceeded: (part: Part, limit: Int64), _ growth: StorageUse) -> RelayError {
        let limit = ByteText.of(exceeded.limit)
        let reason =
            switch (owner, exceeded.part) {
            case (.caller, _):
                "Your private database here may hold \(limit), and this does not fit. Delete records or assets first."
            case (.zoneOwner, _):
                "The owner of this zone has no room left for this. They must delete something of theirs first."
            case (.container, .assets):
                "The public database of this container may hold \(limit) of assets, and this does not fit. "
                    + "Delete some, or ask the operator to raise quota.public-assets."
            case (.container, _):
                "The public database of this container may hold \(limit) of records, and this does not fit. "
                    + "Delete some, or ask the operator to raise quota.public-records."
            }
        return RelayError(.quotaExceeded, reason)
    }
}

/// Formats a number of bytes for people, in powers of ten: `5 GB`, `1.5 MB`.
package enum ByteText {
    package static func of(_ bytes: Int64) -> String {
        var (value, unit) = (Double(bytes), "bytes")
        for larger in ["kB", "MB", "GB", "TB", "PB"] where value >= 1000 { (value, unit) = (value / 1000, larger) }
        let tenths = (value * 10).rounded(.down) / 10
        return tenths == tenths.rounded() ? "\(Int64(tenths)) \(unit)" : "\(tenths) \(unit)"
    }
}
