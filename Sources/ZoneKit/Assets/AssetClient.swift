import Foundation
package import Records
import Synchronization
import Wire

/// The asset files of one connection: uploads them before their records, and downloads them on demand.
///
/// Downloads are cached in a folder of this connection. Uploads are remembered by their checksum for as long as the
/// relay accepts their receipts, so that a repeated save, or the same file in another record, is not uploaded again.
package final class AssetClient: Sendable {
    private struct State {
        var uploads: [String: (asset: Asset, until: Date)] = [:]
        /// The URLs of interrupted uploads.
        var addresses: [String: (address: String, until: Date)] = [:]
    }

    /// Half of the lifetime of an upload URL, in CloudKit and here.
    private static let addressLife: TimeInterval = 7 * 60
    /// The number of consecutive failures without progress after which an upload fails; the relay keeps the bytes so
    /// far.
    private static let maxFailures = 3

    /// Half of the lifetime of a receipt, so that a save that starts now can finish in time.
    private static let receiptLife: TimeInterval = 30 * 60
    let connection: RelayConnection
    let folder = DownloadFolder()
    private let downloads = SharedDownloads()
    private let state = Mutex(State())

    package init(_ connection: RelayConnection) { self.connection = connection }

    // MARK: Downloads

    /// Returns the file of an asset.
    ///
    /// Concurrent calls for the same content share one download; each can be cancelled separately.
    package func download(_ asset: Asset, _ origin: AssetOrigin) async throws -> DownloadFolder.File {
        try await downloads.file(asset.fileChecksum) { try await self.fetch(asset, origin) }
    }

    // MARK: Uploads

    /// A file and the field that it belongs to.
    package struct Upload: Sendable {
        package var file: URL
        package var recordType: String
        package var recordName: String
        package var field: String
        /// The settings of the call that the upload belongs to.
        package var settings: RequestSettings

        package init(
            file: URL,
            recordType: String,
            recordName: String,
            field: String,
            settings: RequestSettings = RequestSettings()
        ) {
            self.file = file
            self.recordType = recordType
            self.recordName = recordName
            self.field = field
            self.settings = settings
        }
    }

    /// Uploads a file unless the relay already has its content.
    ///
    /// Returns the asset to save in the record's field, including the receipt. The file is read in chunks, once for its
    /// checksum and once for the upload.
    package func upload(
        _ upload: Upload,
        to scope: DatabaseScope,
        in zone: ZoneID
    ) async throws(CKError) -> Asset {
        let file = try UploadFile(upload.file)
        // A receipt is valid only for the user who got it.
        let user = connection.credentials.current.generation
        let key = "\(user) \(scope.pathName) \(file.asset.fileChecksum)"
        if let known = state.withLock({ $0.uploads[key] }), known.until > Date() { return known.asset }
        let asset: Asset
        if let ended = try await resume(with: upload, key) {
            asset = ended
        } else {
            asset = try await begin(upload, file, key, scope, zone)
        }
        try file.checkIsUnchanged()
        guard AssetContent.isSameContent(asset, file.asset) else {
            state.withLock { $0.addresses[key] = nil }
            throw CKError(
                .serverResponseLost,
                "The upload does not match the file \(upload.file.lastPathComponent). Save the record again."
            )
        }
        state.withLock { state in
            let now = Date()
            state.uploads = state.uploads.filter { $0.value.until > now }
            state.addresses = state.addresses.filter { $0.key != key && $0.value.until > now }
            state.uploads[key] = (asset, now + Self.receiptLife)
        }
        return asset
    }

    private func begin(
        _ upload: Upload,
        _ file: UploadFile,
        _ key: String,
        _ scope: DatabaseScope,
        _ zone: ZoneID
    ) async throws(CKError) -> Asset {
        var failures = 0
        while true {
            // Ask again after a failure: the relay may have the whole file, and only the response was lost.
            switch try await uploadTarget(for: file.asset, upload, scope, zone) {
            case .alreadyStored(let known): return known
            case .address(let address):
                state.withLock { $0.addresses[key] = (address, Date() + Self.addressLife) }
                do throws(CKError) {
                    return try await send(upload, from: 0, to: address)
                } catch  where error.code == .networkFailure && failures < Self.maxFailures {
                    failures += 1
                }
            }
        }
    }

    /// Continues an interrupted upload of the same content, if the relay still has a part of it.
    private func resume(with upload: Upload, _ key: String) async throws(CKError) -> Asset? {
        guard let known = state.withLock({ $0.addresses[key] }), known.until > Date(),
            let offset = await progress(at: known.address, upload.settings), offset > 0
        else { return nil }
        return try await send(upload, from: offset, to: known.address)
    }

    /// Sends a file.
    ///
    /// After a connection failure, continues where the relay's part ends, as long as there is progress.
    private func send(_ upload: Upload, from start: Int64, to address: String) async throws(CKError) -> Asset {
        guard var request = Self.request(.post, address) else {
            throw CKError(
                .internalError,
                "The relay's upload URL is not valid. Check the relay's public address setting."
            )
        }
        request.file = upload.file
        request.fileOffset = start
        while true {
            request.headers = [(name: "Content-Type", value: "application/octet-stream")]
            let offset = request.fileOffset
            if offset > 0 { request.headers.append((name: "Upload-Offset", value: "\(offset)")) }
            do throws(CKError) {
                return try Self.asset(in: try await send(request, upload.settings))
            } catch  where error.code == .networkFailure {
                guard let reached = await progress(at: address, upload.settings), reached > offset else { throw error }
                request.fileOffset = reached
            }
        }
    }

    /// Returns the number of bytes of an upload that the relay has; `nil` if the request fails or the upload is
    /// unknown.
    private func progress(at address: String, _ settings: RequestSettings) async -> Int64? {
        guard let request = Self.request(.get, address), let response = try? await send(request, settings) else {
            return nil
        }
        return (200..<300).contains(response.status) ? response.header("Upload-Offset").flatMap { Int64($0) } : nil
    }

    /// Returns a new receipt for an asset that another record contains.
    func rereference(
        _ origin: AssetOrigin,
        _ checksum: String,
        _ settings: RequestSettings
    ) async throws(CKError) -> Asset? {
        let asset = try? await client(of: origin.scope, settings).rereference(origin.field, of: origin.record)
        return asset?.fileChecksum == checksum ? asset : nil
    }

    /// Forgets an upload whose receipt the relay no longer accepts.
    package func forget(_ checksum: String) {
        state.withLock { state in state.uploads = state.uploads.filter { $0.value.asset.fileChecksum != checksum } }
    }

    func client(of scope: DatabaseScope, _ settings: RequestSettings = RequestSettings()) -> HTTPRelayClient {
        HTTPRelayClient(scope, settings) { [connection] () throws(CKError) in connection }
    }

    private func uploadTarget(
        for asset: Asset,
        _ upload: Upload,
        _ scope: DatabaseScope,
        _ zone: ZoneID
    ) async throws(CKError) -> UploadTarget {
        let field = ClientRequest.UploadField(
            recordName: upload.recordName,
            recordType: upload.recordType,
            fieldName: upload.field,
            asset: asset
        )
        return try await client(of: scope, upload.settings).uploadTarget(for: field, in: zone)
    }

    private static func asset(in response: RelayResponse) throws(CKError) -> Asset {
        guard let document = try? JSONDocument(parsing: response.body, limits: .response),
            (try? ClientResponse.failure(document.root, zone: nil)) == nil
        else { throw failure(response) }
        return try reading { () throws(JSONError) in
            try ClientResponse.uploadedAsset(document.root.required("singleFile"))
        }
    }

    /// Returns the error in a response, or an error for the status code if the response does not come from the relay.
    static func failure(_ response: RelayResponse) -> CKError {
        guard let document = try? JSONDocument(parsing: response.body, limits: .response),
            let failure = try? ClientResponse.failure(document.root, zone: nil)
        else { return CKError(foreign: response) }
        return CKError(failure, at: .request)
    }

    // MARK: Requests

    func send(
        _ request: RelayRequest,
        _ settings: RequestSettings = RequestSettings()
    ) async throws(CKError) -> RelayResponse {
        var request = request
        request.timeout = settings.timeout
        request.headers += settings.headers
        do {
            return try await connection.transport.send(request, until: settings.deadline)
        } catch {
            throw CKError(error, isWrite: false)
        }
    }

    static func request(_ method: RelayRequest.Method, _ address: String) -> RelayRequest? {
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

    /// Returns the file name for a checksum, which is base64 and may contain slashes.
    static func fileName(_ checksum: String) -> String {
        checksum.map { $0.isLetter || $0.isNumber ? String($0) : "-\($0.asciiValue ?? 0)" }.joined()
    }
}
