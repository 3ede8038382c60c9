import Crypto
import Dispatch
import HTTPTypes
import Records
import RelayCore
import Synchronization
import Wire

/// Uploads and downloads of assets: addresses, receipts, and the requests to the addresses.
///
/// See Wire.md, "Asset operations".
final class AssetService: Sendable {
    let settings: AssetSettings
    let seal: AssetSeal
    let pending = PendingUploads()
    private let interrupted = InterruptedUploads()
    let transfers: TransferMeter
    private let rates: PublicRates
    let stores: any StoreCatalog
    let authenticator: Authenticator
    let time: TimeSource
    private let queue = DispatchQueue(label: "zonecast uploads", attributes: .concurrent)
    /// The record types with asset fields of one container, for one version of its schema.
    private struct AssetTypes {
        var home: ContainerEnvironment
        var version: Int
        var names: Set<String>
    }

    private struct AssetTypeCache {
        var all: [ContainerEnvironment: AssetTypes] = [:]
        /// The latest lookup, which the next one usually repeats.
        var latest: AssetTypes?
    }

    /// Used for every response with records.
    private let types = Mutex(AssetTypeCache())

    init(
        settings: AssetSettings,
        stores: any StoreCatalog,
        authenticator: Authenticator,
        rates: PublicRates,
        transfers: TransferMeter,
        time: TimeSource,
        random: RandomSource
    ) {
        self.settings = settings
        self.rates = rates
        self.transfers = transfers
        self.stores = stores
        self.authenticator = authenticator
        self.time = time
        seal = AssetSeal(relayKey: authenticator.relayKey, random: random)
    }

    /// The upload and download addresses, which need no credentials and may be used by pages of any origin.
    var entries: [RouteEntry] {
        let origins = RouteEntry.Origins.any(
            sending: "Content-Type, If-None-Match, Range, Upload-Offset",
            reading: "ETag, Upload-Offset, X-Apple-Request-UUID"
        )
        let upload = RoutePath.ending("asset/1/upload/**")
        return [
            .page(Self.uploadName, upload, [.post, .put], origins: origins) { request, match in
                let answer = try await self.finish(request, at: match.parameters[0])
                var response = APIResponse(status: .ok, text: answer.body)
                response.headers[.contentType] = "application/json; charset=UTF-8"
                return response
            },
            .page(Self.uploadName, upload, .reading, origins: origins) { _, match in
                try self.progress(at: match.parameters[0])
            },
            .page("asset/download", .ending("asset/1/download/**"), .reading, origins: origins) { request, match in
                try await self.download(request, at: match.parameters[0])
            },
        ]
    }

    private static let uploadName = "asset/upload"

    // MARK: Addresses and receipts

    func uploadAddress(_ upload: Upload, base: String) -> String {
        "\(base)/asset/1/upload/"
            + seal.seal(upload.parts, for: .upload, until: time.now() + settings.uploadLifetime)
    }

    func downloadAddress(_ download: Download, base: String) -> String {
        "\(base)/asset/1/download/"
            + seal.seal(download.parts, for: .download, until: time.now() + settings.downloadLifetime)
    }

    func receipt(_ hash: AssetHash, size: Int64, of user: UserID, in home: ContainerEnvironment) -> String {
        seal.seal(
            [home.description, user.recordName, hash.hex, String(size)],
            for: .receipt,
            until: time.now() + settings.receiptLifetime
        )
    }

    /// Returns a receipt for an asset that the relay already stores, and extends its lifetime accordingly.
    func receipt(forKept hash: AssetHash, size: Int64, of user: UserID, in home: ContainerEnvironment) -> String {
        (try? stores.assets(of: home))?.renew(hash)
        return receipt(hash, size: size, of: user, in: home)
    }

    /// Returns what the asset's receipt proves for this user in this container.
    func receiptStatus(_ asset: Asset, for user: UserID?, in home: ContainerEnvironment) -> ReceiptStatus {
        guard let receipt = asset.receipt else { return .unproven }
        guard let user, let parts = seal.open(receipt, for: .receipt, count: 4, at: time.now()),
            parts[0] == home.description, parts[1] == user.recordName,
            let hash = AssetHash(checksum: asset.fileChecksum), parts[2] == hash.hex, let size = Int64(parts[3])
        else { return .refused }
        return .fresh(hash, size: size)
    }

    /// Returns whether an asset that was uploaded for zones of `user` waits to be saved.
    func isPending(
        _ hash: AssetHash,
        of user: UserID,
        in home: ContainerEnvironment
    ) throws(RelayError) -> Bool {
        if let shared = try stores.assets(of: home).uploads { return try shared.holds(hash, of: user, at: time.now()) }
        return pending.holds(hash, of: user, in: home, at: time.uptime())
    }

    /// Stops counting uploads that records now use, and that are counted with these.
    func wereSaved(_ hashes: [AssetHash], of owner: UserID, in home: ContainerEnvironment) {
        guard !hashes.isEmpty else { return }
        if let shared = try? stores.assets(of: home).uploads {
            // If the database does not answer, they are counted twice until their receipts expire.
            try? shared.remove(hashes, of: owner)
        } else {
            pending.remove(hashes, of: owner, in: home)
        }
    }

    /// Returns the asset store of a container.
    func assetStore(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore { try stores.assets(of: home) }

    /// Drops what is known of a store that may be replaced.
    func drop(_ home: ContainerEnvironment) {
        types.withLock { types in
            types.all[home] = nil
            types.latest = nil
        }
    }

    /// Returns the record types with asset fields.
    func types(of home: ContainerEnvironment, in schema: Schema) -> Set<String> {
        types.withLock { types in
            if let latest = types.latest, latest.version == schema.version, latest.home == home { return latest.names }
            var known = types.all[home] ?? AssetTypes(home: home, version: -1, names: [])
            if known.version != schema.version {
                known.version = schema.version
                known.names = schema.assetTypes
                types.all[home] = known
            }
            types.latest = known
            return known.names
        }
    }

    // MARK: Uploads

    /// Creates the intake for a request to an upload address; returns `nil` for other requests and invalid addresses.
    ///
    /// Reads neither the directory nor a store. See Wire.md, "Asset operations".
    func intake(_ request: APIRequest, at match: RouteMatch) -> UploadIntake? {
        guard match.entry.name == Self.uploadName, match.isAllowed, request.method != .head, request.method != .get
        else { return nil }
        return intake(request, at: match.parameters[0])
    }

    private func intake(_ request: APIRequest, at address: String) -> UploadIntake? {
        guard let upload = upload(at: address) else { return nil }
        let type = request.headers[.contentType] ?? ""
        let offset = request.headers[.uploadOffset].map { Int64($0) ?? -1 } ?? 0
        var refusal = refusal(of: upload, from: request.remoteAddress)
        // The received part is kept if the upload is refused, which may be temporary.
        let part = refusal == nil ? interrupted.take(address, at: offset) : nil
        if refusal == nil, offset < 0 { refusal = .uploadOffset(offset) }
        let (stores, interrupted, time, life) = (stores, interrupted, time, settings.uploadLifetime)
        return UploadIntake(
            upload,
            begin: { () throws(RelayError) in
                let assetStore = try stores.assets(of: upload.home)
                if let room = upload.room, let uploads = assetStore.uploads {
                    let waiting = try uploads.bytes(of: upload.owner, at: time.now())
                    guard room > waiting else { throw upload.quotaExceeded }
                }
                guard offset > 0 else { return try assetStore.begin() }
                // Another relay may have received the part before.
                guard let resumed = try assetStore.resume(Self.key(of: address), at: offset) else {
                    throw .uploadOffset(offset)
                }
                return resumed
            },
            multipart: MultipartBody(contentType: type),
            limit: settings.largest,
            refusal: refusal,
            resuming: offset == 0 ? nil : part,
            at: max(offset, 0),
            queue: queue,
            onInterrupted: { part in
                let now = time.uptime()
                interrupted.add(part, of: .init(upload), at: address, until: now + life, at: now)
            }
        )
    }

    /// The key of an interrupted upload for other relays; who reads it in the store does not learn the address.
    static func key(of address: String) -> String { Hex.encode(SHA256.hash(data: Array(address.utf8))) }

    /// Deletes interrupted uploads that can no longer be resumed.
    func removeExpiredUploads() { interrupted.removeExpired(at: time.uptime()) }

    /// Returns the number of bytes received of an interrupted upload.
    private func progress(at address: String) throws(RelayError) -> APIResponse {
        guard let upload = upload(at: address) else { throw .assetAddressEnded }
        // Another relay may have continued the upload.
        let elsewhere = try assetStore(of: upload.home).receivedSize(of: Self.key(of: address))
        let size = max(interrupted.size(of: address), elsewhere)
        var response = APIResponse(status: .noContent)
        response.headers[.uploadOffset] = "\(size)"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    /// Charges an upload to the rates of its user and of its public database, and checks the quota.
    private func refusal(of upload: Upload, from address: String) -> RelayError? {
        do throws(RelayError) {
            let uptime = time.uptime()
            try authenticator.charge(upload.user, from: address, at: uptime)
            if upload.isPublic { try rates.charge(upload.home.container, upload.user, at: uptime) }
            guard try room(for: upload).map({ $0 > 0 }) ?? true else { throw upload.quotaExceeded }
            return nil
        } catch {
            return error
        }
    }

    /// Returns the number of bytes that this upload may have as far as this relay knows; `nil` without a quota.
    ///
    /// Several relays on one store count together when the first bytes are written, since that may block.
    private func room(for upload: Upload) throws(RelayError) -> Int64? {
        upload.room.map { $0 - pending.bytes(of: upload.owner, in: upload.home, at: time.uptime()) }
    }

    /// Returns whether the user may still write to the zone of another user.
    ///
    /// Called after the body has arrived, because the permission may end in the meantime.
    private func mayStillWrite(_ upload: Upload) throws(RelayError) -> Bool {
        guard upload.isForSharedZone else { return true }
        return try stores.store(of: upload.home).read { reader throws(RelayError) in
            let view = try reader.zone(upload.zone, sharedWith: upload.user)?.view
            return view?.shares.contains { $0.permission == .readWrite } ?? false
        }
    }

    private func upload(at address: String) -> Upload? {
        seal.open(address, for: .upload, count: Upload.count, at: time.now()).flatMap { Upload($0) }
    }

    /// Completes an upload whose body has arrived.
    private func finish(_ request: APIRequest, at address: String) async throws(RelayError) -> EndpointAnswer {
        // Without streaming, the body is complete in the request.
        let intake =
            (request.intake as? UploadIntake)
            ?? self.intake(request, at: address).map { intake in
                _ = intake.take(request.body) {}
                return intake
            }
        guard let intake else { throw .assetAddressEnded }
        let upload = intake.upload
        let reservation = UploadReservation(
            in: pending,
            or: try stores.assets(of: upload.home).uploads,
            of: upload.owner,
            upload.home,
            time
        )
        let (hash, size) = try await intake.finish { [self] size throws(RelayError) in
            guard isValid(upload.issuedTo), try mayStillWrite(upload) else { throw .assetAddressEnded }
            guard try reservation.take(size, of: upload.room) else { throw upload.quotaExceeded }
        }
        try reservation.become(hash, for: settings.receiptLifetime)
        return EndpointAnswer { writer in
            writer.key("singleFile")
            writer.object {
                $0.member("fileChecksum", hash.checksum)
                $0.member("size", size)
                $0.member("receipt", receipt(hash, size: size, of: upload.user, in: upload.home))
            }
        }
    }
}

extension HTTPField.Name {
    /// The number of bytes of an upload that the relay has received.
    static let uploadOffset: Self = {
        guard let name = HTTPField.Name("Upload-Offset") else { preconditionFailure("a valid field name") }
        return name
    }()
}

extension RelayError {
    /// The client and the relay disagree about the number of received bytes.
    fileprivate static func uploadOffset(_ offset: Int64) -> RelayError {
        RelayError(
            .badRequest,
            "The relay has another number of bytes than \(offset). GET this address to learn how many.",
            status: 409
        )
    }

    /// The same error for addresses that have expired, that are invalid, and whose asset is deleted.
    static let assetAddressEnded = RelayError(
        .notFound,
        "This address is invalid or has expired. Request a new one with assets/upload, or fetch the record again."
    )
}

/// Responses to download addresses.
extension AssetService {
    /// Responds to a download address with the file, if the field still contains the asset and the user may still read
    /// it.
    fileprivate func download(_ request: APIRequest, at address: String) async throws(RelayError) -> APIResponse {
        guard let parts = seal.open(address, for: .download, count: Download.count, at: time.now()),
            let download = Download(parts), isValid(download.issuedTo), let asset = try asset(of: download)
        else { throw .assetAddressEnded }
        let assetStore = try assetStore(of: download.home)
        if download.scope == .public {
            try transfers.check(download.home, stores.store(of: download.home), at: time.now())
        }
        let tag = "\"\(download.hash.hex)\""
        // Before the content, which a store may have to fetch.
        if request.holds(tag), try assetStore.size(of: download.hash) != nil { return .notModified(tag) }
        switch try assetStore.content(of: download.hash) {
        case .file(let file):
            guard file.size == asset.size, try await assetStore.isSound(file, of: download.hash) else {
                throw .assetDamaged
            }
            return respond(to: request, size: file.size, tag: tag, from: download) { response, offset, length in
                response.file = FileBody(path: file.path, offset: offset, length: length)
            }
        case .arriving(let content):
            guard content.size == asset.size else { throw .assetDamaged }
            return respond(to: request, size: content.size, tag: tag, from: download) { response, offset, length in
                response.parts = ArrivingParts(content, offset: offset, length: length)
            }
        case nil: throw .assetDamaged
        }
    }

    /// Returns the response with the whole content or the requested part, which `addBody` adds.
    private func respond(
        to request: APIRequest,
        size: Int64,
        tag: String,
        from download: Download,
        addBody: (inout APIResponse, _ offset: Int64, _ length: Int64) -> Void
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
        var sent: Int64 = 0
        switch ByteRange(isForThis ? request.headers[.range] : nil, size: size) {
        case .whole:
            addBody(&response, 0, size)
            sent = size
        case .part(let offset, let length):
            response.status = .partialContent
            response.headers[.contentRange] = "bytes \(offset)-\(offset + length - 1)/\(size)"
            addBody(&response, offset, length)
            sent = length
        case .none:
            response.status = .rangeNotSatisfiable
            response.headers[.contentRange] = "bytes */\(size)"
        }
        if download.scope == .public, request.method != .head { transfers.count(sent, of: download.home) }
        return response
    }

    /// Returns whether the credential is still valid: addresses end with the session or key, but not while the
    /// directory is unreadable.
    func isValid(_ issuedTo: AssetAddressCredential?) -> Bool {
        switch issuedTo {
        case .session(let id): (try? authenticator.isStillValid(id)) ?? true
        case .serverKey(let id): (try? authenticator.isStillValid(.serverKey(id))) ?? true
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
        "The file of this asset is damaged or lost. Upload it again, or ask the operator to restore it from a backup."
    )
}

/// Conditional requests: a file that the client already has is not sent again.
extension APIRequest {
    /// Returns whether `If-None-Match` contains this entity tag, strong or weak, or `*`.
    ///
    /// See RFC 9110, 13.1.2.
    func holds(_ tag: String) -> Bool {
        guard let list = headers[.ifNoneMatch] else { return false }
        return list.split(separator: ",").contains { item in
            var item = item.drop { $0 == " " || $0 == "\t" }
            while item.last == " " || item.last == "\t" { item.removeLast() }
            return item == "*" || item == tag || item == "W/\(tag)"
        }
    }
}

extension APIResponse {
    /// The caching of assets: one hour, only in private caches.
    static let assetCaching = "private, max-age=3600"

    /// Returns the response that the client's copy with this tag is current.
    ///
    /// See RFC 9110, 15.4.5.
    static func notModified(_ tag: String) -> APIResponse {
        var response = APIResponse(status: .notModified)
        response.headers[.eTag] = tag
        response.headers[.cacheControl] = assetCaching
        return response
    }
}

/// The size limit and lifetimes of assets.
///
/// See Wire.md, "Asset operations", and Reliability.md, "Paths and asset addresses".
package struct AssetSettings: Sendable {
    /// The maximum size of an asset in bytes.
    ///
    /// Apple's documentation says 15 MB and 50 MB.
    package var largest: Int64 = 50 * 1024 * 1024
    /// The validity of an upload address.
    package var uploadLifetime = Duration.seconds(15 * 60)
    /// How long after its upload an asset can be saved in a record.
    package var receiptLifetime = Duration.seconds(60 * 60)
    /// The validity of a download address.
    package var downloadLifetime = Duration.seconds(60 * 60)

    package init() {}

    /// The age at which an unused asset is deleted: no address and no receipt can refer to it any more.
    package var unusedLifetime: Duration { uploadLifetime + receiptLifetime + .seconds(60 * 60) }
}

/// The body of a download whose content is still being fetched.
private final class ArrivingParts: BodyParts {
    private static let piece = 512 * 1024

    let length: Int64
    private let content: any ArrivingAsset
    private let end: Int64
    private let position: Mutex<Int64>

    init(_ content: any ArrivingAsset, offset: Int64, length: Int64) {
        self.content = content
        self.length = length
        end = offset + length
        position = Mutex(offset)
    }

    func next() throws -> BodyPart? {
        try position.withLock { position in
            guard position < end else { return nil }
            let bytes = try content.bytes(at: position, most: min(Self.piece, Int(end - position)))
            position += Int64(bytes.count)
            return bytes.isEmpty ? .later : .bytes(bytes)
        }
    }

    func whenReady(_ body: @escaping @Sendable () -> Void) {
        content.whenArrived(at: position.withLock { $0 }, body)
    }
}
