import Foundation
import Records

/// A program's file that is to be uploaded, by its content.
struct UploadFile {
    /// CloudKit's limit, and the relay's unless it was told otherwise; beyond it not even reading is worth while.
    private static let largest = 4 << 30

    private struct Stamp: Equatable {
        var size: Int
        var modified: Date?
    }

    private let file: URL
    private let stamp: Stamp
    /// What the relay will call it.
    let asset: Asset

    /// Reads the file once, piece by piece.
    ///
    /// Throws `assetFileNotFound` where it cannot be read, and `assetFileModified` where it changes meanwhile.
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
