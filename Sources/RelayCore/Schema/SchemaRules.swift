package import Records

/// The rules for checking records against the schema.
///
/// A class because it is passed with a write through many functions unchanged.
package final class SchemaRules: Sendable {
    /// Whether saving adds unknown types and fields to the schema; only in development, and not for a server key.
    package let mayGrow: Bool
    /// The end of the error text if the schema may not grow.
    static let growthRefusal =
        "saving adds it only in development and for users, not for a server key. Import or promote it with 'zonecast schema'."
    /// The database; encrypted fields are not supported in the public database.
    package let scope: DatabaseScope
    package let limits: Limits
    package let assets: any ReceiptVerifier
    /// Explains missing types, if the other environment's schema is available.
    let types: (any TypePromotionCheck)?

    package init(
        mayGrow: Bool,
        scope: DatabaseScope,
        limits: Limits,
        assets: any ReceiptVerifier = RejectingReceiptVerifier(),
        types: (any TypePromotionCheck)? = nil
    ) {
        self.types = types
        self.mayGrow = mayGrow
        self.scope = scope
        self.limits = limits
        self.assets = assets
    }
}

/// Access to the other environment's schema; used only if a type is missing.
package protocol TypePromotionCheck: Sendable {
    /// Returns whether the request is for production and only development has this type, so that it was not promoted.
    func isOnlyInDevelopment(_ type: String) -> Bool
}

extension RelayError {
    /// The error for a type that the schema does not have; `advice` is used unless development has the type.
    ///
    /// See CONTRIBUTING.md, "Commands and error texts".
    package static func unknownType(
        _ name: String,
        _ promotionCheck: (any TypePromotionCheck)?,
        else advice: String = "It does not exist in this environment."
    ) -> RelayError {
        let promotion =
            "Record type \"\(name.prefix(64))\" exists in development but not in production. "
            + "zonecast schema promote --dry-run shows what would change."
        return RelayError(.notFound, promotionCheck?.isOnlyInDevelopment(name) == true ? promotion : advice)
    }
}

/// Verifies the receipts of assets.
package protocol ReceiptVerifier: Sendable {
    func receiptStatus(_ asset: Asset) -> ReceiptStatus
}

/// An `ReceiptVerifier` that accepts no receipts.
package struct RejectingReceiptVerifier: ReceiptVerifier {
    package init() {}

    package func receiptStatus(_ asset: Asset) -> ReceiptStatus { asset.receipt == nil ? .unproven : .refused }
}
