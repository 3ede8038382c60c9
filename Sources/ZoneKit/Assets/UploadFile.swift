import Crypto
import Foundation
import Records
import Wire

/// A program's file that is to be uploaded, by its content.
struct UploadFile {
    /// CloudKit's limit, and the relay's unless it was told otherwise; beyond it not even reading is worth while.
    private static let largest = 4 << 30
    /// Bytes read at a time.
    private static let pieceSize = 1 << 20

    private struct Stamp: Equatable {
        var size: Int
        var modified: Date?
    }

    private let file: URL
    private let stamp: Stamp
    /// What the relay will call it: 0x01 and the first 20 bytes of its SHA-256, wire reference 4.6.
    let asset: Asset

    /// Reads the file once, piece by piece.
    ///
    /// Throws `assetFileNotFound` where it cannot be read, and `assetFileModified` where it changes meanwhile.
    init(_ file: URL) throws(CKError) {
        self.file = file
        guard let stamp = Self.stamp(file), stamp.size <= Self.largest,
            let (digest, size) = Self.digest(file)
        else { throw CKError(.assetFileNotFound, "The asset's file \(file.lastPathComponent) cannot be read.") }
        self.stamp = stamp
        asset = Asset(fileChecksum: Base64.encode([1] + digest.prefix(20)), size: Int64(size))
        guard size == stamp.size else { throw Self.modified(file) }
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

    private static func digest(_ file: URL) -> (digest: [UInt8], size: Int)? {
        guard let handle = try? FileHandle(forReadingFrom: file) else { return nil }
        defer { try? handle.close() }
        var hash = SHA256()
        var size = 0
        do {
            while let piece = try handle.read(upToCount: pieceSize), !piece.isEmpty {
                hash.update(data: piece)
                size += piece.count
            }
        } catch {
            return nil
        }
        return (Array(hash.finalize()), size)
    }
}
