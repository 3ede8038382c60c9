import Foundation
import Records

/// An app's file to upload, with its checksum.
struct UploadFile {
    /// CloudKit's maximum file size and the relay's default.
    ///
    /// Larger files are not even read.
    private static let largest = 4 << 30

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
        guard let stamp = Self.stamp(file), stamp.size <= Self.largest,
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
