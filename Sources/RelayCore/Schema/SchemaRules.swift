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
    /// Tells more of types that are not there, where anybody can.
    let types: (any TypeWitness)?

    package init(
        mayGrow: Bool,
        scope: DatabaseScope,
        limits: Limits,
        assets: any AssetJudge = NoReceipts(),
        types: (any TypeWitness)? = nil
    ) {
        self.types = types
        self.mayGrow = mayGrow
        self.scope = scope
        self.limits = limits
        self.assets = assets
    }
}

/// Knows the container's other schema; asked only where a type is missing.
package protocol TypeWitness: Sendable {
    /// Whether the request is for production and only development has a type of this name: its author forgot to promote it.
    func isOnlyInDevelopment(_ type: String) -> Bool
}

extension RelayError {
    /// Of a type that the schema does not have; `else` is what there is to say where no other schema has it either.
    ///
    /// See CONTRIBUTING.md, "Commands and error texts".
    package static func unknownType(
        _ name: String,
        _ witness: (any TypeWitness)?,
        else advice: String = "It does not exist in this environment."
    ) -> RelayError {
        let promotion =
            "Record type \"\(name.prefix(64))\" exists in development but not in production. "
            + "zonecast schema promote --dry-run shows what would change."
        return RelayError(.notFound, witness?.isOnlyInDevelopment(name) == true ? promotion : advice)
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
