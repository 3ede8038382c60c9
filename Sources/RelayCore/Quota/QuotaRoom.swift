package import Records

/// What somebody may still store, record after record.
///
/// A write that does not grow always goes through, also of somebody who has too much already: limits come down, and
/// people must be able to put things right.
package struct QuotaRoom: Hashable, Sendable {
    /// Whose quota it is, seen from the caller.
    package enum Whose: Hashable, Sendable {
        case caller, zoneOwner, container
    }

    package private(set) var use: StorageUse
    private let records: Int64?
    private let assets: Int64?
    private let total: Int64?
    private let whose: Whose

    /// - Parameters:
    ///   - use: What is stored now.
    ///   - records: Bytes that records may take; `nil`: any number.
    ///   - assets: Likewise.
    ///   - total: Bytes of both together.
    ///   - whose: For the words of a refusal.
    package init(
        use: StorageUse,
        records: Int64? = nil,
        assets: Int64? = nil,
        total: Int64? = nil,
        whose: Whose
    ) {
        self.use = use
        self.records = records
        self.assets = assets
        self.total = total
        self.whose = whose
    }

    /// Counts what a write adds, or throws `quotaExceeded`.
    package mutating func take(_ growth: StorageUse) throws(RelayError) {
        if let limit = exceeded(by: growth) { throw refusal(limit, growth) }
        use = use + growth
    }

    package func allows(_ growth: StorageUse) -> Bool { exceeded(by: growth) == nil }

    /// Counts what a write gives back.
    package mutating func give(_ freed: StorageUse) { use = use - freed }

    /// Bytes that a new asset may have; `nil`: any number.
    package var assetBytesLeft: Int64? {
        let own = assets.map { $0 - use.assets }
        let shared = total.map { $0 - use.total }
        return [own, shared].compactMap(\.self).min().map { max($0, 0) }
    }

    /// An asset does not even fit as an upload.
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
            switch (whose, exceeded.part) {
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

/// Bytes as a person reads them: `5 GB`, `1.5 MB`; powers of ten, as disks are sold.
package enum ByteText {
    package static func of(_ bytes: Int64) -> String {
        var (value, unit) = (Double(bytes), "bytes")
        for larger in ["kB", "MB", "GB", "TB", "PB"] where value >= 1000 { (value, unit) = (value / 1000, larger) }
        let tenths = (value * 10).rounded(.down) / 10
        return tenths == tenths.rounded() ? "\(Int64(tenths)) \(unit)" : "\(tenths) \(unit)"
    }
}
