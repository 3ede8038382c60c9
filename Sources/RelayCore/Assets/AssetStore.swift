package import Records

/// The hash that identifies an asset's content: the first 20 bytes of its SHA-256.
///
/// A client's `fileChecksum` has 21 bytes: `0x01` and the hash. See Wire.md, "Assets".
package struct AssetHash: Hashable, Sendable {
    package static let byteCount = 20

    package let bytes: [UInt8]

    /// - Parameter bytes: The first `byteCount` bytes are used; the result is `nil` if there are fewer.
    package init?(_ bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes.prefix(Self.byteCount))
        guard self.bytes.count == Self.byteCount else { return nil }
    }

    package init?(checksum: String) {
        guard let bytes = Base64.decode(checksum), bytes.count == Self.byteCount + 1, bytes[0] == 1 else { return nil }
        self.bytes = Array(bytes.dropFirst())
    }

    package var checksum: String { Base64.encode([1] + bytes) }

    /// The file name of the asset; text from clients is never used as a file name.
    package var hex: String { Hex.encode(bytes) }
}

/// A stored asset's file, which can be read even if the asset is removed in the meantime.
package struct AssetFile: Hashable, Sendable {
    package var path: String
    package var size: Int64

    package init(path: String, size: Int64) {
        self.path = path
        self.size = size
    }
}

/// The assets of one container in one environment.
///
/// Calls block their thread, for microseconds unless stated otherwise or unless the store is on another machine. Safe to
/// call from any thread.
package protocol AssetStore: Sendable {
    /// Starts the upload of an asset.
    func begin() throws(RelayError) -> any AssetUpload
    /// Continues an upload that another relay over the same store has kept under this key; takes it from that relay.
    ///
    /// Returns `nil` if there is none with so many bytes.
    func resume(_ key: String, at size: Int64) throws(RelayError) -> (any AssetUpload)?
    /// Returns the number of bytes of an upload that was kept under this key; 0 if there is none.
    func receivedSize(of key: String) throws(RelayError) -> Int64
    /// Returns the size of an asset; `nil` if it is not stored.
    func size(of hash: AssetHash) throws(RelayError) -> Int64?
    /// Returns the asset's file; `nil` if it is not stored.
    ///
    /// A store on another machine fetches the content first, which may take long.
    func file(of hash: AssetHash) throws(RelayError) -> AssetFile?
    /// Returns the asset's file, or its content while that is being fetched; `nil` if it is not stored.
    ///
    /// Returns before a large asset has been fetched.
    func content(of hash: AssetHash) throws(RelayError) -> AssetContent?
    /// Returns whether a file's content matches its hash.
    ///
    /// Reads the whole file the first time, without blocking the caller's thread. Throws `tryAgainLater` if the file
    /// cannot be read.
    func isSound(_ file: AssetFile, of hash: AssetHash) async throws(RelayError) -> Bool
    /// Resets the asset's age, so that it is kept for as long as a receipt issued now is valid.
    func renew(_ hash: AssetHash)
    /// Counts uploads together with the other relays over this store; `nil` if this is the only one.
    var uploads: (any SharedUploads)? { get }
}

/// The content of an asset.
package enum AssetContent: Sendable {
    case file(AssetFile)
    case arriving(any ArrivingAsset)
}

/// The content of an asset that is being fetched from another machine.
///
/// The last byte is available only when the whole content matches the asset's hash, so that no client accepts content that
/// is not the asset's. Safe to call from any thread.
package protocol ArrivingAsset: AnyObject, Sendable {
    var size: Int64 { get }
    /// Returns bytes that have arrived, at most `most` of them; empty if there are none at this offset. Must not block.
    ///
    /// - Throws: If the rest cannot be fetched, or is not the asset's.
    func bytes(at offset: Int64, most: Int) throws(RelayError) -> [UInt8]
    /// Calls `body` once when there is more at this offset, or nothing more will come; at once if that is so already.
    func whenArrived(at offset: Int64, _ body: @escaping @Sendable () -> Void)
}

/// Uploads that no record uses yet, counted by all relays over one store towards the quota of the user who will own them.
///
/// Calls block their thread for a round trip to the database unless stated otherwise. An entry lasts until `end`.
package protocol SharedUploads: Sendable {
    /// Returns the number of bytes that wait to be saved in zones of `owner` or are being stored.
    func bytes(of owner: UserID, at now: Timestamp) throws(RelayError) -> Int64
    /// Returns whether an asset that was uploaded for zones of `owner` waits to be saved.
    func holds(_ hash: AssetHash, of owner: UserID, at now: Timestamp) throws(RelayError) -> Bool
    /// Reserves bytes for an asset that is being stored, if they fit into the rest of `room`.
    ///
    /// - Returns: The number of the reservation; `nil` if less than `size` is left.
    func reserve(
        _ size: Int64,
        of room: Int64?,
        for owner: UserID,
        until end: Timestamp,
        at now: Timestamp
    ) throws(RelayError) -> Int64?
    /// Gives up a reservation. Does not block.
    func release(_ reservation: Int64)
    /// Converts a reservation into the entry of a stored asset, in place of an earlier one of the same content.
    func keep(
        _ reservation: Int64,
        as hash: AssetHash,
        of owner: UserID,
        until end: Timestamp,
        at now: Timestamp
    ) throws(RelayError)
    /// Removes entries whose assets were saved in records and are counted there.
    func remove(_ hashes: [AssetHash], of owner: UserID) throws(RelayError)
}

// For a store whose assets are files of this machine, and which no other relay uses.
extension AssetStore {
    package func resume(_ key: String, at size: Int64) throws(RelayError) -> (any AssetUpload)? { nil }
    package func receivedSize(of key: String) throws(RelayError) -> Int64 { 0 }
    package func size(of hash: AssetHash) throws(RelayError) -> Int64? { try file(of: hash)?.size }
    package func content(of hash: AssetHash) throws(RelayError) -> AssetContent? {
        try file(of: hash).map { .file($0) }
    }
    package var uploads: (any SharedUploads)? { nil }
}

/// An asset upload in progress; used by one thread at a time.
///
/// Leaves nothing behind if it is released before `finish`.
package protocol AssetUpload: AnyObject {
    /// Releases file descriptors and buffers until the next piece arrives, which may take long.
    func rest()
    /// Does the same for an upload that was interrupted, and lets another relay over the same store continue it by this
    /// key.
    func rest(keepingAs key: String)
    /// Appends a piece of the content.
    func take(_ piece: [UInt8]) throws(RelayError)
    /// Stores the asset under its hash; returns when it is durable, which may take long.
    func finish() throws(RelayError) -> (hash: AssetHash, size: Int64)
}

extension AssetUpload {
    package func rest(keepingAs key: String) { rest() }
}

/// The result of checking an asset value that a client wants to save.
package enum ReceiptStatus: Hashable, Sendable {
    /// It has a valid receipt for this content and size.
    case fresh(AssetHash, size: Int64)
    /// It has no receipt, so it is valid only if the field already contains it.
    case unproven
    /// Its receipt is invalid or has expired.
    case refused
}

extension Schema {
    /// The record types whose records can contain assets: those with an asset field, and shares, whose own fields are
    /// in no schema.
    package var assetTypes: Set<String> {
        Set(types.filter { $0.value.fields.values.contains { $0.type.isAsset } }.keys).union([Share.recordType])
    }
}
