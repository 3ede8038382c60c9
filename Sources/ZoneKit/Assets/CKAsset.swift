public import Foundation
package import Records
import Synchronization

/// A file that belongs to a record's field.
///
/// One made by a program is sent when the record is saved, before the record, and not twice for the same content. One that
/// was fetched costs nothing until somebody asks for it: `fileURL` then gets the file, and waits for it; `download()` does
/// so without holding up a thread. The file is there as long as the asset is, and mostly for a good while longer; whoever
/// wants to keep it copies it.
public final class CKAsset: NSObject, NSSecureCoding, @unchecked Sendable {
    // Unchecked because NSObject is inherited: all state is behind `state`, a Mutex.

    /// What an asset stands for.
    private struct State {
        /// A program's file, or one that has been downloaded.
        var file: URL?
        /// Keeps the latter where it is.
        var downloaded: DownloadFolder.File?
        /// What the relay has of it.
        var stored: Asset?
        /// From which field of which record it was read.
        var origin: AssetOrigin?
        var keeper: AssetKeeper?
    }

    private let state: Mutex<State>

    /// An asset of a file, to be put into a record.
    ///
    /// The file must stay there, unchanged, until the record has been saved.
    ///
    /// - Parameter fileURL: The file, on this machine.
    public init(fileURL: URL) { state = Mutex(State(file: fileURL)) }

    package init(_ asset: Asset, origin: AssetOrigin, keeper: AssetKeeper?) {
        state = Mutex(State(stored: asset, origin: origin, keeper: keeper))
    }

    /// Where the file is; `nil` if it could not be had.
    ///
    /// The first call on a fetched asset downloads it and waits until it is there. Call `download()` before, where waiting
    /// is out of place or the reason of a failure matters.
    public var fileURL: URL? {
        if let known = fileAtHand { return known }
        return try? OwnThreads.wait { try await self.download() }
    }

    /// The file, downloaded if it is not here yet.
    ///
    /// - Returns: Where it is.
    /// - Throws: `assetNotAvailable` when the record does not hold the asset any longer or cannot be read, and what any
    ///   call throws.
    @discardableResult
    public func download() async throws -> URL {
        if let known = fileAtHand { return known }
        let (stored, origin, keeper) = state.withLock { ($0.stored, $0.origin, $0.keeper) }
        guard let stored, let origin, let keeper else {
            throw CKError(.assetFileNotFound, "The asset's file is not there. Give the record a new asset of the file.")
        }
        let file = try await keeper.download(stored, origin)
        state.withLock { ($0.file, $0.downloaded) = (file.url, file) }
        return file.url
    }

    private var fileAtHand: URL? {
        let (file, isLocal) = state.withLock { ($0.file, $0.origin == nil) }
        guard let file else { return nil }
        // A program may have moved a downloaded file away; its own it must look after itself.
        return isLocal || FileManager.default.fileExists(atPath: file.path) ? file : nil
    }

    /// The program's own file, where it stands for one.
    var ownFile: URL? { state.withLock { $0.origin == nil ? $0.file : nil } }

    /// How large the file is, in bytes; `nil` where it is not known.
    public var size: Int64? {
        let (stored, file) = state.withLock { ($0.stored, $0.file) }
        if let stored { return stored.size }
        let attributes = file.flatMap { try? FileManager.default.attributesOfItem(atPath: $0.path) }
        return (attributes?[.size] as? NSNumber)?.int64Value
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        // Apple's framework writes a URL.
        let known = coder.object(NSURL.self, "AssetFileURL") as URL?
        guard let file = coder.text("Path").map({ URL(fileURLWithPath: $0) }) ?? known else { return nil }
        state = Mutex(State(file: file))
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes where the file is.
    public func encode(with coder: NSCoder) {
        if let file = fileURL { coder.encode(file.path as NSString, forKey: "Path") }
    }

    // MARK: For records

    /// What stands in a record's field for it; before the first upload a placeholder that no relay takes.
    var wire: Asset { state.withLock { $0.stored } ?? Asset(fileChecksum: "", size: 0) }

    /// The file to be uploaded; `nil` for what a relay has already.
    var fileToUpload: URL? { state.withLock { $0.origin == nil ? $0.file : nil } }

    /// Where a fetched asset comes from.
    var origin: AssetOrigin? { state.withLock { $0.origin } }
    /// By whom it is fetched.
    var keeper: AssetKeeper? { state.withLock { $0.keeper } }

    /// The relay has the file now, under this description.
    func uploaded(as asset: Asset) { state.withLock { $0.stored = asset } }
}

/// From which field of which record an asset was read.
package struct AssetOrigin: Hashable, Sendable {
    package var scope: DatabaseScope
    package var record: RecordID
    package var field: String

    package init(scope: DatabaseScope, record: RecordID, field: String) {
        self.scope = scope
        self.record = record
        self.field = field
    }
}
