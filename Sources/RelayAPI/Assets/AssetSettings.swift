/// Limits and lives of assets.
///
/// See Wire.md, "Asset operations", and Reliability.md, "Paths and asset addresses".
package struct AssetSettings: Sendable {
    /// Bytes of one asset.
    ///
    /// CloudKit's pages say 15 MB and 50 MB.
    package var largest: Int64 = 50 * 1024 * 1024
    /// How long an upload address is good.
    package var uploadLifetime = Duration.seconds(15 * 60)
    /// How long after its upload an asset can be saved in a record.
    package var receiptLifetime = Duration.seconds(60 * 60)
    /// How long a download address is good.
    package var downloadLifetime = Duration.seconds(60 * 60)

    package init() {}

    /// What nobody uses goes when no address and no receipt can lead to it any more.
    package var unusedLifetime: Duration { uploadLifetime + receiptLifetime + .seconds(60 * 60) }
}
