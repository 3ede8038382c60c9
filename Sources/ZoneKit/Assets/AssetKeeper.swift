import Crypto
import Foundation
package import Records
import Synchronization
import Wire

/// The files of one connection: uploads them before their records, downloads them when they are asked for.
///
/// Downloads are kept in a folder of this process, named by content, so that no content comes twice; it goes with the
/// connection and its last asset. What was uploaded is remembered by its hash for as long as the relay takes its receipt,
/// so that a save that is tried again, or the same file in another record, is not sent again.
package final class AssetKeeper: Sendable {
    private struct State {
        var downloads: [String: Task<URL, any Error>] = [:]
        var uploads: [String: (asset: Asset, until: Date)] = [:]
    }

    /// Half of what the relay gives a receipt: a save that begins now must still end in time.
    private static let receiptLife: TimeInterval = 30 * 60
    /// CloudKit's limit, and the relay's unless it was told otherwise; beyond it not even reading is worth while.
    private static let largestUpload = 4 << 30

    private let connection: RelayConnection
    private let folder: URL
    private let state = Mutex(State())

    package init(_ connection: RelayConnection) {
        self.connection = connection
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("zonecast-assets-\(UUID().uuidString)", isDirectory: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    // MARK: Downloads

    /// The file of an asset; several who ask for one content wait for one download.
    package func download(_ asset: Asset, _ origin: AssetOrigin) async throws -> URL {
        let task = state.withLock { state in
            if let running = state.downloads[asset.fileChecksum] { return running }
            // Not on the common pool's threads: all of them may be waiting for this very file.
            let task = Task(executorPreference: DownloadThread.lane) { try await self.fetch(asset, origin) }
            state.downloads[asset.fileChecksum] = task
            return task
        }
        defer { state.withLock { $0.downloads[asset.fileChecksum] = nil } }
        return try await task.value
    }

    private func fetch(_ asset: Asset, _ origin: AssetOrigin) async throws(CKError) -> URL {
        let file = folder.appendingPathComponent(Self.fileName(asset.fileChecksum))
        if FileManager.default.fileExists(atPath: file.path) { return file }
        var bytes: [UInt8]?
        if let address = asset.downloadURL { bytes = try await load(address) }
        if bytes == nil, let address = try await currentAddress(of: asset, origin) { bytes = try await load(address) }
        guard let bytes, bytes.count == asset.size else {
            throw CKError(
                .assetNotAvailable,
                "The asset is not to be had: the record may have changed or gone. Fetch the record again."
            )
        }
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try Data(bytes).write(to: file, options: .atomic)
        } catch {
            throw CKError(.internalError, "The asset cannot be written to \(folder.path).", underlying: error)
        }
        return file
    }

    /// `nil` when the address is no longer good.
    private func load(_ address: String) async throws(CKError) -> [UInt8]? {
        guard let request = Self.request(.get, address.replacingOccurrences(of: "${f}", with: "asset")) else {
            return nil
        }
        let response = try await send(request)
        switch response.status {
        case 200: return response.body
        case 400..<500: return nil
        default: throw CKError(status: response.status, retryAfter: response.header("Retry-After"))
        }
    }

    /// Addresses end; the record gives a new one as long as it holds the same content.
    private func currentAddress(of asset: Asset, _ origin: AssetOrigin) async throws(CKError) -> String? {
        let body = ClientRequest.lookup(
            [origin.record.recordName],
            in: origin.record.zone,
            desiredKeys: [origin.field]
        )
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await connection.send(RelayCall(origin.scope, "records/lookup", body))
        } catch {
            throw error.error
        }
        var address: String?
        try reading { () throws(JSONError) in
            try ClientResponse.records(document.root, zone: nil) { entry in
                guard case .record(let record) = entry else { return }
                let found = record.fields[origin.field]?.assets.first { $0.fileChecksum == asset.fileChecksum }
                address = found?.downloadURL
            }
        }
        return address
    }

    // MARK: Uploads

    /// A file with the field that it is for.
    package struct Upload: Sendable {
        package var file: URL
        package var recordType: String
        package var recordName: String
        package var field: String

        package init(file: URL, recordType: String, recordName: String, field: String) {
            self.file = file
            self.recordType = recordType
            self.recordName = recordName
            self.field = field
        }
    }

    /// Makes sure that the relay has a file.
    ///
    /// Returns what a record's field is to say, receipt and all.
    package func upload(
        _ upload: Upload,
        to scope: DatabaseScope,
        in zone: ZoneID
    ) async throws(CKError) -> Asset {
        let bytes = try Self.read(upload.file)
        let digest = SHA256.hash(data: bytes).map { String(format: "%02x", $0) }.joined()
        let key = "\(scope.pathName) \(digest)"
        if let known = state.withLock({ $0.uploads[key] }), known.until > Date() { return known.asset }
        let address = try await uploadAddress(upload, scope, zone)
        guard var request = Self.request(.post, address) else {
            throw CKError(.internalError, "The relay's upload address is none. Look at its public address setting.")
        }
        request.headers = [(name: "Content-Type", value: "application/octet-stream")]
        request.body = [UInt8](bytes)
        let asset = try Self.asset(in: try await send(request))
        state.withLock { $0.uploads[key] = (asset, Date() + Self.receiptLife) }
        return asset
    }

    /// A fresh receipt for an asset that another record holds.
    func rereference(_ origin: AssetOrigin, _ checksum: String) async throws(CKError) -> Asset? {
        let body = ClientRequest.rereference(origin.record.recordName, origin.field, in: origin.record.zone)
        guard let document = try? await connection.send(RelayCall(origin.scope, "assets/rereference", body)) else {
            return nil
        }
        let asset = try reading { () throws(JSONError) in
            let entry = try document.root["assets"]?.elements().first
            return try entry.flatMap { json throws(JSONError) in
                json["fileChecksum"] == nil ? nil : try ClientResponse.uploadedAsset(json)
            }
        }
        return asset?.fileChecksum == checksum ? asset : nil
    }

    /// What was uploaded is no longer taken: forget it.
    package func forget(_ checksum: String) {
        state.withLock { state in state.uploads = state.uploads.filter { $0.value.asset.fileChecksum != checksum } }
    }

    private static func read(_ file: URL) throws(CKError) -> Data {
        func stamp() -> (Int, Date?)? {
            guard let facts = try? FileManager.default.attributesOfItem(atPath: file.path) else { return nil }
            return ((facts[.size] as? NSNumber)?.intValue ?? 0, facts[.modificationDate] as? Date)
        }
        guard let before = stamp(), before.0 <= largestUpload, let data = try? Data(contentsOf: file) else {
            throw CKError(.assetFileNotFound, "The asset's file \(file.lastPathComponent) cannot be read.")
        }
        guard let after = stamp(), after.0 == data.count, before.0 == after.0, before.1 == after.1 else {
            throw CKError(.assetFileModified, "The asset's file \(file.lastPathComponent) changed while it was read.")
        }
        return data
    }

    private func uploadAddress(
        _ upload: Upload,
        _ scope: DatabaseScope,
        _ zone: ZoneID
    ) async throws(CKError) -> String {
        let body = ClientRequest.uploads(
            [(upload.recordName, upload.recordType, upload.field)],
            in: zone
        )
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await connection.send(RelayCall(scope, "assets/upload", body, isWrite: true))
        } catch {
            throw error.error
        }
        let address = try reading { () throws(JSONError) in
            try document.root.required("tokens").elements().first?.required("url").string()
        }
        guard let address else { throw CKError(.internalError, "The relay gave no address for the upload.") }
        return address
    }

    private static func asset(in response: RelayResponse) throws(CKError) -> Asset {
        guard let document = try? JSONDocument(parsing: response.body, limits: .response) else {
            throw CKError(status: response.status, retryAfter: response.header("Retry-After"))
        }
        if let failure = try? ClientResponse.failure(document.root, zone: nil) {
            throw CKError(failure, at: .request)
        }
        return try reading { () throws(JSONError) in
            try ClientResponse.uploadedAsset(document.root.required("singleFile"))
        }
    }

    // MARK: Requests

    private func send(_ request: RelayRequest) async throws(CKError) -> RelayResponse {
        do {
            return try await connection.transport.send(request)
        } catch {
            throw CKError(error, isWrite: false)
        }
    }

    private static func request(_ method: RelayRequest.Method, _ address: String) -> RelayRequest? {
        guard let url = URL(string: address), !url.path.isEmpty else { return nil }
        let parts = URLComponents(url: url, resolvingAgainstBaseURL: false)
        var request = RelayRequest(
            method: method,
            path: parts?.percentEncodedPath ?? url.path,
            query: parts?.percentEncodedQuery ?? ""
        )
        request.address = url.scheme == nil ? nil : url
        return request
    }

    /// Checksums are base64; a file's name is not to hold its slashes.
    private static func fileName(_ checksum: String) -> String {
        checksum.map { $0.isLetter || $0.isNumber ? String($0) : "-\($0.asciiValue ?? 0)" }.joined()
    }
}
