import Foundation
import Records
import Wire

/// Downloads, in chunks, so that a large file needs little memory and an interrupted download can continue.
extension AssetClient {
    /// The number of bytes per request.
    private static let chunkSize: Int64 = 1 << 20
    /// The number of consecutive failures after which a download fails; the bytes so far are kept for the next attempt.
    private static let maxFailures = 3

    func fetch(_ asset: Asset, _ origin: AssetOrigin) async throws(CKError) -> DownloadFolder.File {
        let file = folder.file(named: Self.fileName(asset.fileChecksum))
        if FileManager.default.fileExists(atPath: file.url.path) { return file }
        defer { folder.changed(file) }
        let part = try PartialFile(file.part, in: folder)
        // A corrupt byte may come from an earlier attempt, so the whole file is downloaded once more.
        for _ in 0..<2 {
            guard try await load(asset, origin, into: part) else {
                throw CKError(
                    .assetNotAvailable,
                    "The asset is not available: the record may have been changed or deleted. Fetch the record again."
                )
            }
            if part.holds(asset) {
                try part.moveTo(file.url)
                return file
            }
            try part.empty()
        }
        throw CKError(
            .assetNotAvailable,
            "The relay's file does not match its checksum; the disk may be damaged. Run `zonecast doctor` there."
        )
    }

    private func load(_ asset: Asset, _ origin: AssetOrigin, into part: PartialFile) async throws(CKError) -> Bool {
        if let address = asset.downloadURL, try await load(asset, from: address, into: part) { return true }
        guard let address = try await currentAddress(of: asset, origin) else { return false }
        return try await load(asset, from: address, into: part)
    }

    /// Downloads from a URL.
    ///
    /// Returns `false` if the URL has expired or its content is another file.
    private func load(_ asset: Asset, from address: String, into part: PartialFile) async throws(CKError) -> Bool {
        var failures = 0
        while true {
            var have = try part.size
            if have == asset.size { return true }
            if have > asset.size {
                try part.empty()
                have = 0
            }
            do throws(CKError) {
                let chunk = try await self.chunk(asset, at: have, of: address)
                switch chunk {
                case .none: return false
                // A response with more bytes than expected is another file; accepting it would lead to endless retries.
                case .more(let bytes) where Int64(bytes.count) > asset.size - have: return false
                case .more(let bytes): try part.append(bytes)
                case .whole(let bytes):
                    try part.empty()
                    try part.append(bytes)
                    return try part.size == asset.size
                }
                failures = 0
            } catch  where error.code == .networkFailure && failures + 1 < Self.maxFailures {
                failures += 1
            }
        }
    }

    private enum Chunk {
        case none
        case more([UInt8])
        case whole([UInt8])
    }

    private func chunk(_ asset: Asset, at offset: Int64, of address: String) async throws(CKError) -> Chunk {
        let place = address.replacingOccurrences(of: "${f}", with: "asset")
        guard var request = Self.request(.get, place) else { return .none }
        if offset > 0 || asset.size > Self.chunkSize {
            let last = min(offset + Self.chunkSize, asset.size) - 1
            request.headers = [(name: "Range", value: "bytes=\(offset)-\(last)")]
        }
        let response = try await send(request)
        switch response.status {
        case 200: return .whole(response.body)
        case 206: return response.body.isEmpty ? .none : .more(response.body)
        // These status codes say nothing about the file.
        case 401, 407, 408, 421, 425, 429: throw Self.failure(response)
        case 400..<500: return .none
        default:
            let error = Self.failure(response)
            guard error.requestUUID != nil, error.code == .internalError else { throw error }
            // The relay reports that its file is damaged, so a retry cannot help.
            throw CKError(.assetNotAvailable, userInfo: error.userInfo)
        }
    }

    /// Returns a current download URL from the record, if the record still has the same content.
    ///
    /// URLs expire.
    private func currentAddress(of asset: Asset, _ origin: AssetOrigin) async throws(CKError) -> String? {
        let entries = try await client(of: origin.scope).records(
            named: [origin.record.recordName],
            in: origin.record.zone,
            .asRequested,
            desiredKeys: [origin.field]
        )
        guard case .record(let record)? = entries.first else { return nil }
        return record.fields[origin.field]?.assets.first { $0.fileChecksum == asset.fileChecksum }?.downloadURL
    }
}

/// The part of a file that has been downloaded so far.
private struct PartialFile {
    private let file: URL

    init(_ file: URL, in folder: DownloadFolder) throws(CKError) {
        self.file = file
        try Self.mappingErrors(file) {
            try folder.prepare()
            if !FileManager.default.fileExists(atPath: file.path) { try Data().write(to: file) }
        }
    }

    var size: Int64 {
        get throws(CKError) {
            try Self.mappingErrors(file) {
                let facts = try FileManager.default.attributesOfItem(atPath: file.path)
                return (facts[.size] as? NSNumber)?.int64Value ?? 0
            }
        }
    }

    func append(_ bytes: [UInt8]) throws(CKError) {
        try Self.mappingErrors(file) {
            let handle = try FileHandle(forWritingTo: file)
            defer { try? handle.close() }
            try handle.seekToEnd()
            try handle.write(contentsOf: bytes)
        }
    }

    func holds(_ asset: Asset) -> Bool { AssetContent.file(file, holds: asset) }

    func empty() throws(CKError) { try Self.mappingErrors(file) { try Data().write(to: file) } }

    func moveTo(_ whole: URL) throws(CKError) {
        try Self.mappingErrors(file) { try FileManager.default.moveItem(at: file, to: whole) }
    }

    private static func mappingErrors<Value>(_ file: URL, _ body: () throws -> Value) throws(CKError) -> Value {
        do {
            return try body()
        } catch {
            let folder = file.deletingLastPathComponent().path
            throw CKError(.internalError, "The asset cannot be written to \(folder).", underlying: error)
        }
    }
}
