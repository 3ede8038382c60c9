public import Foundation
package import Records
import Synchronization

/// A file in a record's field.
///
/// An asset that the app creates is uploaded before its record is saved, once per content. An asset that was fetched is
/// downloaded on demand: `fileURL` blocks until the file is available, and `download()` does not. The file exists at
/// least as long as the asset object. Copy it to keep it.
public final class CKAsset: NSObject, NSSecureCoding, @unchecked Sendable {
    // Unchecked because `NSObject` is the superclass; all state is in `state`, a mutex.

    /// The contents of an asset.
    private struct State {
        /// The app's file, or the downloaded file.
        var file: URL?
        /// Keeps the downloaded file in the cache.
        var downloaded: DownloadFolder.File?
        /// The asset on the relay.
        var stored: Asset?
        /// The record and field from which the asset was read.
        var origin: AssetOrigin?
        var assetClient: AssetClient?
    }

    private let state: Mutex<State>

    /// Creates an asset for a file.
    ///
    /// The file must not be changed or deleted until the record has been saved.
    ///
    /// - Parameter fileURL: The URL of the file, on this machine.
    public init(fileURL: URL) { state = Mutex(State(file: fileURL)) }

    package init(_ asset: Asset, origin: AssetOrigin, assetClient: AssetClient?) {
        state = Mutex(State(stored: asset, origin: origin, assetClient: assetClient))
    }

    /// The URL of the file; `nil` if it is not available.
    ///
    /// The first access of a fetched asset downloads the file and blocks the thread. Call `download()` first if
    /// blocking is not acceptable, or to learn why a download failed.
    public var fileURL: URL? {
        if let known = availableFile { return known }
        return try? BlockingThreads.wait { try await self.download() }
    }

    /// Downloads the file if necessary.
    ///
    /// - Returns: The URL of the file.
    /// - Throws: `assetNotAvailable` if the record no longer contains the asset or cannot be read, and the errors of
    ///   any request.
    @discardableResult
    public func download() async throws -> URL {
        if let known = availableFile { return known }
        let (stored, origin, assetClient) = state.withLock { ($0.stored, $0.origin, $0.assetClient) }
        guard let stored, let origin, let assetClient else {
            throw CKError(.assetFileNotFound, "The asset's file does not exist. Set a new asset in the record.")
        }
        let file = try await assetClient.download(stored, origin)
        state.withLock { ($0.file, $0.downloaded) = (file.url, file) }
        return file.url
    }

    private var availableFile: URL? {
        let (file, isLocal) = state.withLock { ($0.file, $0.origin == nil) }
        guard let file else { return nil }
        // The app may have moved a downloaded file; its own files are its responsibility.
        return isLocal || FileManager.default.fileExists(atPath: file.path) ? file : nil
    }

    /// The app's own file, if the asset was created with one.
    var ownFile: URL? { state.withLock { $0.origin == nil ? $0.file : nil } }

    /// The size of the file in bytes; `nil` if unknown.
    public var size: Int64? {
        let (stored, file) = state.withLock { ($0.stored, $0.file) }
        if let stored { return stored.size }
        let attributes = file.flatMap { try? FileManager.default.attributesOfItem(atPath: $0.path) }
        return (attributes?[.size] as? NSNumber)?.int64Value
    }

    /// Creates an asset from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        // Apple's framework encodes a URL.
        let known = coder.object(NSURL.self, "AssetFileURL") as URL?
        guard let file = coder.text("Path").map({ URL(fileURLWithPath: $0) }) ?? known else { return nil }
        state = Mutex(State(file: file))
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the path of the file.
    public func encode(with coder: NSCoder) {
        if let file = fileURL { coder.encode(file.path as NSString, forKey: "Path") }
    }

    // MARK: For records

    /// The value of the record's field; before the first upload, a placeholder that no relay accepts.
    var wire: Asset { state.withLock { $0.stored } ?? Asset(fileChecksum: "", size: 0) }

    /// The file to upload; `nil` if the relay has it.
    var fileToUpload: URL? { state.withLock { $0.origin == nil ? $0.file : nil } }

    /// The source of a fetched asset.
    var origin: AssetOrigin? { state.withLock { $0.origin } }
    /// The client that downloads the file.
    var assetClient: AssetClient? { state.withLock { $0.assetClient } }

    /// Stores the relay's description after an upload.
    func uploaded(as asset: Asset) { state.withLock { $0.stored = asset } }
}

/// The record and field from which an asset was read.
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
