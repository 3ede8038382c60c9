package import Records

/// Under which rules records are held against the schema.
///
/// A class, since a write goes through many hands with its rules, which never change.
package final class SchemaRules: Sendable {
    /// Do unknown types and fields become known by being saved? Only in development, and not for a server key.
    package let mayGrow: Bool
    /// What to do where it may not.
    static let whyNotGrown =
        "saving makes it only in development and for users, not for a server key: 'zonecast schema' imports and promotes."
    /// Encrypted fields do not exist in the public database.
    package let scope: DatabaseScope
    package let limits: Limits
    package let assets: any AssetJudge

    package init(
        mayGrow: Bool,
        scope: DatabaseScope,
        limits: Limits,
        assets: any AssetJudge = NoReceipts()
    ) {
        self.mayGrow = mayGrow
        self.scope = scope
        self.limits = limits
        self.assets = assets
    }
}

/// Tells what the receipts of assets prove.
package protocol AssetJudge: Sendable {
    func verdict(_ asset: Asset) -> AssetVerdict
}

/// For where no receipt proves anything.
package struct NoReceipts: AssetJudge {
    package init() {}

    package func verdict(_ asset: Asset) -> AssetVerdict { asset.receipt == nil ? .unproven : .refused }
}
