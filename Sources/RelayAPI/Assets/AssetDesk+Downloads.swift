import HTTPTypes
import Records
import RelayCore
import Wire

/// Responses to download addresses.
extension AssetDesk {
    /// Responds to a download address with the file, if the field still contains the asset and the user may still read
    /// it.
    func download(_ request: APIRequest) async throws(RelayError) -> APIResponse {
        guard let (purpose, sealed) = Self.place(request.path), purpose == .download,
            let parts = seal.open(sealed, for: .download, count: Download.count, at: time.now()),
            let download = Download(parts), stands(download.holder), let asset = try asset(of: download)
        else { throw .assetAddressEnded }
        let keep = try keep(of: download.home)
        guard let file = keep.file(of: download.hash) else { throw .assetDamaged }
        if download.scope == .public {
            try transfers.check(download.home, stores.store(of: download.home), at: time.now())
        }
        let tag = "\"\(download.hash.hex)\""
        if request.holds(tag) { return .notModified(tag) }
        guard file.size == asset.size, try await keep.isSound(file, of: download.hash) else { throw .assetDamaged }
        return respond(to: request, with: file, tag: tag, from: download)
    }

    private func respond(
        to request: APIRequest,
        with file: AssetFile,
        tag: String,
        from download: Download
    ) -> APIResponse {
        var response = APIResponse(status: .ok)
        response.headers[.contentType] = "application/octet-stream"
        response.headers[.contentDisposition] = "attachment"
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.contentSecurityPolicy] = "default-src 'none'; sandbox"
        response.headers[.cacheControl] = APIResponse.assetCaching
        response.headers[.acceptRanges] = "bytes"
        response.headers[.eTag] = tag
        let isForThis = request.headers[.ifRange].map { $0 == tag } ?? true
        switch ByteRange(isForThis ? request.headers[.range] : nil, size: file.size) {
        case .whole: response.file = FileBody(path: file.path, offset: 0, length: file.size)
        case .part(let offset, let length):
            response.status = .partialContent
            response.headers[.contentRange] = "bytes \(offset)-\(offset + length - 1)/\(file.size)"
            response.file = FileBody(path: file.path, offset: offset, length: length)
        case .none:
            response.status = .rangeNotSatisfiable
            response.headers[.contentRange] = "bytes */\(file.size)"
        }
        if download.scope == .public, request.method != .head, let body = response.file {
            transfers.count(body.length, of: download.home)
        }
        return response
    }

    /// Returns whether the credential is still valid: addresses end with the session or key, but not while the
    /// directory is unreadable.
    func stands(_ holder: AddressHolder?) -> Bool {
        switch holder {
        case .session(let id): (try? authenticator.isStillGood(id)) ?? true
        case .serverKey(let id): (try? authenticator.isStillGood(.serverKey(id))) ?? true
        case nil: true
        }
    }

    /// Returns the asset in the field if it is still the same and the user may still read it.
    private func asset(of download: Download) throws(RelayError) -> Asset? {
        let store = try stores.store(of: download.home)
        let caller = Caller(download.user.map { .user($0) } ?? .anonymous, deviceID: "asset")
        let database = DatabaseAddress(scope: download.scope, caller: caller)
        return try store.read { reader throws(RelayError) in
            guard let zone = try? database.zone(download.zone), try reader.zone(zone, in: database) != nil else {
                return nil
            }
            var value: FieldValue?
            try LookupRecords([download.record], in: zone, of: database)
                .visit(from: reader) { _, found throws(RelayError) in
                    guard case .success(let record) = found else { return }
                    value = try Self.value(of: download.field, in: record)
                }
            return value?.assets.first { $0.fileChecksum == download.hash.checksum }
        }
    }

    private static func value(of field: String, in record: StoredRecord) throws(RelayError) -> FieldValue? {
        do throws(JSONError) {
            return try FieldsJSON.value(of: field, in: record.fields)
        } catch {
            throw RelayError(.internalError, "A stored record could not be read; the operator should check the store.")
        }
    }
}

extension RelayError {
    fileprivate static let assetDamaged = RelayError(
        .internalError,
        "The file of this asset is damaged or lost. Upload it again, or ask the operator to restore it from a backup (zonecast assets verify)."
    )
}
