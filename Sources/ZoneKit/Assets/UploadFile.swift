import Crypto
import Foundation
import Records

/// An app's file to upload, with its checksum.
struct UploadFile {
    /// CloudKit's maximum file size and the relay's default.
    ///
    /// Larger files are not even read.
    private static let maxSize = 4 << 30

    private struct Stamp: Equatable {
        var size: Int
        var modified: Date?
    }

    private let file: URL
    private let stamp: Stamp
    /// The checksum and size of the file.
    let asset: Asset

    /// Reads the file once, in chunks.
    ///
    /// Throws `assetFileNotFound` if it cannot be read, and `assetFileModified` if it changes during the read.
    init(_ file: URL) throws(CKError) {
        self.file = file
        guard let stamp = Self.stamp(file), stamp.size <= Self.maxSize,
            let asset = AssetContent.asset(of: file)
        else { throw CKError(.assetFileNotFound, "The asset's file \(file.lastPathComponent) cannot be read.") }
        self.stamp = stamp
        self.asset = asset
        guard asset.size == stamp.size else { throw Self.modified(file) }
        try checkIsUnchanged()
    }

    func checkIsUnchanged() throws(CKError) {
        guard Self.stamp(file) == stamp else { throw Self.modified(file) }
    }

    private static func modified(_ file: URL) -> CKError {
        CKError(.assetFileModified, "The asset's file \(file.lastPathComponent) changed while it was read.")
    }

    private static func stamp(_ file: URL) -> Stamp? {
        guard let facts = try? FileManager.default.attributesOfItem(atPath: file.path) else { return nil }
        return Stamp(
            size: (facts[.size] as? NSNumber)?.intValue ?? 0,
            modified: facts[.modificationDate] as? Date
        )
    }
}

/// The checksum of a file's content: 0x01 and the first 20 bytes of its SHA-256 hash.
///
/// See Wire.md, "Assets".
enum AssetContent {
    /// The number of bytes to read at a time.
    private static let chunkSize = 1 << 20

    /// Returns the checksum and size of a file; `nil` if the file cannot be read.
    static func asset(of file: URL) -> Asset? {
        guard let handle = try? FileHandle(forReadingFrom: file) else { return nil }
        defer { try? handle.close() }
        var hash = SHA256()
        var size: Int64 = 0
        do {
            while let chunk = try handle.read(upToCount: chunkSize), !chunk.isEmpty {
                hash.update(data: chunk)
                size += Int64(chunk.count)
            }
        } catch {
            return nil
        }
        return Asset(fileChecksum: Base64.encode([1] + hash.finalize().prefix(20)), size: size)
    }

    /// Returns whether a file has the content of an asset.
    ///
    /// Returns `true` for checksums of another kind.
    static func file(_ file: URL, holds asset: Asset) -> Bool {
        guard isContentChecksum(asset.fileChecksum) else { return true }
        return self.asset(of: file)?.fileChecksum == asset.fileChecksum
    }

    /// Returns whether two assets have the same content, as far as their checksums allow a comparison.
    static func isSameContent(_ first: Asset, _ second: Asset) -> Bool {
        first.fileChecksum == second.fileChecksum || !isContentChecksum(first.fileChecksum)
            || !isContentChecksum(second.fileChecksum)
    }

    private static func isContentChecksum(_ checksum: String) -> Bool {
        guard let bytes = Base64.decode(checksum) else { return false }
        return bytes.count == 21 && bytes.first == 1
    }
}
