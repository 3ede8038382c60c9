/// The size limit and lifetimes of assets.
///
/// See Wire.md, "Asset operations", and Reliability.md, "Paths and asset addresses".
package struct AssetSettings: Sendable {
    /// The maximum size of an asset in bytes.
    ///
    /// Apple's documentation says 15 MB and 50 MB.
    package var largest: Int64 = 50 * 1024 * 1024
    /// The validity of an upload address.
    package var uploadLifetime = Duration.seconds(15 * 60)
    /// How long after its upload an asset can be saved in a record.
    package var receiptLifetime = Duration.seconds(60 * 60)
    /// The validity of a download address.
    package var downloadLifetime = Duration.seconds(60 * 60)

    package init() {}

    /// The age at which an unused asset is deleted: no address and no receipt can refer to it any more.
    package var unusedLifetime: Duration { uploadLifetime + receiptLifetime + .seconds(60 * 60) }
}
