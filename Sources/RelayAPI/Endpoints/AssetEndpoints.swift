import Records
import RelayCore
import Wire

extension RouteEntry {
    static let assets: [RouteEntry] = [
        .reading(.database("assets/upload"), by: .operators, requestUploads),
        .reading(.database("assets/rereference"), by: .operators, rereferenceAssets),
    ]
}

/// `assets/upload`: returns upload addresses in the order of the request.
///
/// See Wire.md, "Asset operations". Zonecast extension: a token may contain the `fileChecksum` and `size` of the
/// content. If the caller can already read that content in the zone, or has uploaded it and not saved it yet, the
/// response contains a receipt next to the address, and nothing has to be uploaded.
private func requestUploads(_ context: RequestContext) throws -> EndpointAnswer {
    guard let user = context.database.caller.user else { throw context.authentication.signInRequired }
    let zone = try context.zone(of: context.body)
    let requested = try context.items("tokens", of: context.body).map { token in
        let type = try token.required("recordType").string()
        let field = try token.required("fieldName").string()
        guard NameRules.isIdentifier(type), NameRules.isIdentifier(field) else {
            throw token.mismatch("a recordType and a fieldName of letters, digits and underscores")
        }
        let name = try token["recordName"]?.string()
        if let name, !NameRules.isRecordName(name) { throw token.mismatch("a recordName of 1 to 255 ASCII characters") }
        return (name: name ?? context.newRecordName(), type: type, field: field, known: try KnownAsset(token))
    }
    let (quota, database) = (context.limits.quota, context.database)
    let (room, readableAssets) = try context.store.read { reader throws(RelayError) in
        guard let found = try reader.zone(zone, in: database) else { throw .zoneNotFound }
        // Unsaved uploads count towards the owner's quota, so only users who may save records may upload.
        if let view = found.view, !view.shares.contains(where: { $0.permission == .readWrite }) { throw .accessDenied }
        for token in requested { try context.checkUpload(ofType: token.type, named: token.name, in: found, reader) }
        let room = try quota.room(in: zone, by: database.scope, from: reader)
        return (room, try context.readableAssets(requested.compactMap(\.known), in: found, by: user, reader))
    }
    if let room, room.assetBytesLeft == 0 { throw room.assetRefusal }
    let upload = Upload(
        home: context.home,
        user: user,
        zone: zone,
        issuedTo: AssetAddressCredential(context.authentication.credential),
        room: room?.assetBytesLeft
    )
    let base = context.authentication.signIn.base
    return EndpointAnswer { writer in
        writer.key("tokens")
        writer.array(requested) { writer, token in
            writer.object {
                $0.member("recordName", token.name)
                $0.member("fieldName", token.field)
                $0.member("url", context.assets.uploadAddress(upload, base: base))
                guard let known = token.known, readableAssets.contains(known) else { return }
                $0.member("fileChecksum", known.hash.checksum)
                $0.member("size", known.size)
                let receipt = context.assets.receipt(forKept: known.hash, size: known.size, of: user, in: context.home)
                $0.member("receipt", receipt)
            }
        }
    }
}

/// `assets/rereference`: returns assets of existing records with receipts to save them in other records.
///
/// See Wire.md, "Asset operations".
private func rereferenceAssets(_ context: RequestContext) throws -> EndpointAnswer {
    guard let user = context.database.caller.user else { throw context.authentication.signInRequired }
    let requested = try context.items("assets", of: context.body).map { item in
        (name: try item.required("recordName").string(), field: try item.required("fieldName").string())
    }
    let zone = try context.zone(of: context.body)
    let lookup = LookupRecords(requested.map(\.name), in: zone, of: context.database)
    var found: [Result<Asset, RelayError>] = []
    try context.store.read { reader throws(RelayError) in
        try lookup.visit(from: reader) { place, record in
            found.append(record.flatMap { context.assets(in: $0, field: requested[place].field) })
        }
    }
    return EndpointAnswer { writer in
        writer.key("assets")
        writer.array(zip(requested, found)) { writer, item in
            let (requested, asset) = item
            writer.object { object in
                object.member("recordName", requested.name)
                object.member("fieldName", requested.field)
                switch asset {
                case .success(let asset):
                    object.member("fileChecksum", asset.fileChecksum)
                    object.member("size", asset.size)
                    guard let hash = AssetHash(checksum: asset.fileChecksum) else { return }
                    let receipt = context.assets.receipt(forKept: hash, size: asset.size, of: user, in: context.home)
                    object.member("receipt", receipt)
                case .failure(let error): object.members(of: error)
                }
            }
        }
    }
}

/// Content that the client already has, to check whether the relay has it too.
private struct KnownAsset: Hashable {
    var hash: AssetHash
    var size: Int64

    init?(_ token: JSONValue) throws {
        guard let checksum = try token["fileChecksum"]?.string(), let hash = AssetHash(checksum: checksum) else {
            return nil
        }
        self.hash = hash
        size = try token.required("size").int64()
    }
}

extension RequestContext {
    /// Returns the assets that the caller can already read here or has uploaded.
    ///
    /// Says nothing about others: otherwise the knowledge of a checksum would give access to the content.
    fileprivate func readableAssets(
        _ known: [KnownAsset],
        in zone: Zone,
        by user: UserID,
        _ reader: any StoreReader
    ) throws(RelayError) -> Set<KnownAsset> {
        guard !known.isEmpty, database.scope != .public, zone.view?.isPartial != true,
            let assetStore = try? assets.assetStore(of: home)
        else { return [] }
        var readableAssets: Set<KnownAsset> = []
        for asset in known where try assetStore.size(of: asset.hash) == asset.size {
            let isOwn = user == zone.id.owner ? try assets.isPending(asset.hash, of: user, in: home) : false
            let uses = isOwn ? 1 : try reader.assetUses(of: [asset.hash], in: zone)[asset.hash] ?? 0
            if uses > 0 { readableAssets.insert(asset) }
        }
        return readableAssets
    }

    /// Checks that the caller may save the upload in the public database: in a new record of the type, or in the named
    /// record.
    fileprivate func checkUpload(
        ofType type: String,
        named name: String,
        in zone: Zone,
        _ reader: any StoreReader
    ) throws(RelayError) {
        guard database.scope == .public else { return }
        let schema = try reader.schema
        let rights = database.rights(toType: schema.types[type] ?? RecordType(), in: schema)
        if !rights.isDisjoint(with: [.create, .write]) { return }
        guard let record = try reader.records(named: [name], in: zone)[name], !record.isDeleted,
            database.rights(to: record, in: schema).contains(.write)
        else { throw .accessDenied }
    }

    fileprivate func assets(in record: StoredRecord, field: String) -> Result<Asset, RelayError> {
        let values = try? FieldsJSON.values(of: [field], in: record.fields)
        guard let asset = values?[field]?.assets.first else {
            return .failure(RelayError(.notFound, "The field contains no asset."))
        }
        return .success(asset)
    }

    /// Creates the download addresses of responses.
    var assetLinks: AssetLinks? { assetLinks(for: assetTypes) }

    var assetTypes: Set<String> { assets.types(of: home, in: store.currentSchema) }

    /// Creates the download addresses of responses, for known record types with assets; `nil` if there are none.
    func assetLinks(for types: Set<String>, in scope: DatabaseScope? = nil) -> AssetLinks? {
        guard !types.isEmpty else { return nil }
        return AssetLinks(
            types: types,
            service: assets,
            home: home,
            issuedTo: authentication.isVisit ? nil : AssetAddressCredential(authentication.credential),
            user: database.caller.user,
            scope: scope ?? database.scope,
            base: authentication.signIn.base
        )
    }
}

/// Creates the download addresses of the assets in one response.
final class AssetLinks: Sendable {
    let types: Set<String>
    let service: AssetService
    let home: ContainerEnvironment
    let issuedTo: AssetAddressCredential?
    let user: UserID?
    let scope: DatabaseScope
    let base: String

    init(
        types: Set<String>,
        service: AssetService,
        home: ContainerEnvironment,
        issuedTo: AssetAddressCredential?,
        user: UserID?,
        scope: DatabaseScope,
        base: String
    ) {
        self.types = types
        self.service = service
        self.home = home
        self.issuedTo = issuedTo
        self.user = user
        self.scope = scope
        self.base = base
    }

    func address(_ asset: Asset, field: String, record: StoredRecord, zone: ZoneID) -> String? {
        guard let hash = AssetHash(checksum: asset.fileChecksum) else { return nil }
        let download = Download(
            home: home,
            issuedTo: issuedTo,
            user: user,
            scope: scope,
            zone: zone,
            record: record.name,
            field: field,
            hash: hash
        )
        return service.downloadAddress(download, base: base)
    }
}
