package import Records

/// An asset's content by its hash: the first 20 bytes of its SHA-256.
///
/// A client's `fileChecksum` is 21 bytes, `0x01` in front. See Wire.md, "Assets".
package struct AssetHash: Hashable, Sendable {
    package static let byteCount = 20

    package let bytes: [UInt8]

    /// - Parameter bytes: The first `byteCount` of them count; `nil` if there are fewer.
    package init?(_ bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes.prefix(Self.byteCount))
        guard self.bytes.count == Self.byteCount else { return nil }
    }

    package init?(checksum: String) {
        guard let bytes = Base64.decode(checksum), bytes.count == Self.byteCount + 1, bytes[0] == 1 else { return nil }
        self.bytes = Array(bytes.dropFirst())
    }

    package var checksum: String { Base64.encode([1] + bytes) }

    /// Names the file: no text of a client ever does.
    package var hex: String { Hex.encode(bytes) }
}

/// A kept asset as a file that may be read while it is wanted, even if it is removed meanwhile.
package struct AssetFile: Hashable, Sendable {
    package var path: String
    package var size: Int64

    package init(path: String, size: Int64) {
        self.path = path
        self.size = size
    }
}

/// Where a container keeps its assets in one environment.
///
/// Blocking, for microseconds but where it says otherwise; safe from any thread.
package protocol AssetKeep: Sendable {
    /// Begins to take in one asset.
    func begin() throws(RelayError) -> any AssetIntake
    /// `nil` if it is not there.
    func file(of hash: AssetHash) -> AssetFile?
    /// Whether a file holds what its name says. Reads it whole the first time, without blocking the caller's thread.
    ///
    /// Throws `tryAgainLater` where it cannot be read.
    func isSound(_ file: AssetFile, of hash: AssetHash) async throws(RelayError) -> Bool
    /// Makes it as new, so that it stays while a receipt that is given now may be used.
    func renew(_ hash: AssetHash)
}

/// One asset on its way in; used by one thread at a time.
///
/// Dropped unfinished it leaves nothing behind.
package protocol AssetIntake: AnyObject {
    /// Gives back what it holds of the process until the next piece comes, which may be long.
    func rest()
    /// Writes some of its content, in its order.
    func take(_ piece: [UInt8]) throws(RelayError)
    /// Keeps it under its hash; returns when it is on the disk, which may take long.
    func finish() throws(RelayError) -> (hash: AssetHash, size: Int64)
}

/// What may be said of an asset value that a client wants to save.
package enum AssetVerdict: Hashable, Sendable {
    /// It has a receipt of ours: this content, of this size.
    case fresh(AssetHash, size: Int64)
    /// It has none, so it must be what the field holds already.
    case unproven
    /// Its receipt is not ours, or has ended.
    case refused
}

extension Schema {
    /// The record types whose records may hold assets: those that have a field for them, and shares, whose own fields stand
    /// in no schema.
    package var assetTypes: Set<String> {
        Set(types.filter { $0.value.fields.values.contains { $0.type.isAsset } }.keys).union([Share.recordType])
    }
}
