import Foundation
import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// One page of a zone's feed, with what its share records say about participants.
struct MirrorPage: Sendable {
    var records: ZonePage<Record>
    var shares: [(name: String, details: ClientShare)] = []
    /// Whether the page contains key records, so that locked values may be readable now.
    var hasKeys = false
    /// The zones to which deleted records have moved, by record name.
    var moveTargets: [String: String] = [:]
    /// The records of another user's zone that were removed from this user's view but still exist.
    var invisible: Set<String> = []
    /// The number of records that follow; `nil` if unknown.
    var remaining: Int?
    /// The prepared form of each changed record; empty if nothing was prepared.
    var prepared: [PreparedRecord?] = []
    /// The size of the response in bytes.
    var bytes = 0
    /// Whether this is the first part of a page that is imported in parts.
    var isFirstPart = true
    /// Whether this is the last part of a page that is imported in parts.
    var isLastPart = true
}

/// A mirror's connection to its database; each call makes one request.
///
/// In the private database, every zone belongs to the current user, whatever name the relay gives the owner.
struct MirrorLink: Sendable {
    let database: CKDatabase
    private let cache = LinkCache()
    /// The user in whose name requests are made; `nil` means the one that was last found to own the store.
    private var fixed: AccountBinding?

    init(database: CKDatabase) { self.database = database }

    /// Returns a link that stays with the current user, even if another one is found later, since the changes to send
    /// were read as that user's.
    func boundToCurrentAccount() -> MirrorLink {
        var link = self
        link.fixed = cache.binding.withLock { $0 }
        return link
    }

    /// Stores that the sign-in of this generation belongs to the user who owns the store.
    func bind(to generation: Int) throws(CKError) {
        let binding = AccountBinding(try connection(), generation: generation)
        cache.binding.withLock { $0 = binding }
    }

    /// Sends requests in the name of the user who owns the store, or not at all.
    ///
    /// A write whose response is lost is repeated until there is a response.
    var client: any RelayClient {
        var settings = RequestSettings()
        settings.isRepeated = true
        return database.session.client(of: database.scope, settings) { fixed ?? cache.binding.withLock { $0 } }
    }

    var isPrivate: Bool { database.databaseScope == .private }

    func connection() throws(CKError) -> RelayConnection { try database.session.connection() }

    /// The asset files of this link; those of the connection may be in use by the program.
    func files() throws(CKError) -> AssetClient? {
        let caller = try connection().caller
        return cache.files.withLock { files in
            if let files, files.caller === caller { return files.assetClient }
            guard let assetClient = caller.makeAssetClient() else { return nil }
            files = (caller, assetClient)
            return assetClient
        }
    }

    func databaseChanges(since token: SyncToken?) async throws(CKError) -> DatabasePage {
        let answer = try await client.databaseChanges(since: token, limit: nil)
        var page = DatabasePage(changed: [], deleted: [], token: answer.token, moreComing: answer.moreComing)
        for entry in answer.entries {
            switch entry {
            case .zone(let zone): page.changed.append(withoutCallerAsOwner(zone.id))
            case .deleted(let zone, let reason): page.deleted.append((withoutCallerAsOwner(zone), reason))
            // If a zone cannot be read now, its own feed reports the error again.
            case .failed(let zone?, _): page.changed.append(withoutCallerAsOwner(zone))
            case .failed(nil, let failure): throw CKError(failure, at: .item)
            }
        }
        return page
    }

    private func withoutCallerAsOwner(_ zone: ZoneID) -> ZoneID { isPrivate ? ZoneID(zone.zoneName) : zone }

    /// Fetches one page of a zone's feed.
    ///
    /// With `countsRemaining`, the response contains the number of records that follow, for which the relay has to scan
    /// them.
    func zoneChanges(
        in zone: ZoneID,
        since token: SyncToken?,
        countsRemaining: Bool = false
    ) async throws(CKError) -> MirrorPage {
        let options = FeedOptions(countsRemaining: countsRemaining)
        return try page(of: try await client.zoneChanges(in: zone, since: token, options), in: zone)
    }

    /// Decodes a page's records and, with a mapping, prepares them for the import.
    ///
    /// - Throws: An error if the relay could not return one of them. The token would mark the record as fetched, and a
    ///   full fetch without it would remove it.
    func page(of answer: FeedPage, in zone: ZoneID, prepared mapping: RecordMapping? = nil) throws(CKError)
        -> MirrorPage
    {
        var page = MirrorPage(
            records: ZonePage<Record>(changed: [], deleted: [], token: answer.token, moreComing: answer.moreComing)
        )
        page.remaining = answer.remaining
        page.bytes = answer.byteCount
        var missing: ClientResponse.Failure?
        try answer.visit { item, entry in
            switch item {
            case .record(let record) where record.type == ZoneSeal.keyRecordType: page.hasKeys = true
            case .record(let record):
                page.records.changed.append(record)
                if let mapping { page.prepared.append(entry.flatMap { PreparedRecord(record, $0, mapping) }) }
            case .share(let record, let details):
                page.records.changed.append(record)
                page.shares.append((record.id.recordName, details))
                if mapping != nil { page.prepared.append(nil) }
            case .deleted(_, ZoneSeal.keyRecordType, _): break
            case .deleted(let name, let type, _):
                page.records.deleted.append((RecordID(name, in: zone), type ?? ""))
                if isPrivate {
                    page.moveTargets[name] = try? entry?["movedTo"]?.string()
                } else if (try? entry?["outOfSight"]?.bool()) == true {
                    page.invisible.insert(name)
                }
            case .failed(_, let failure): missing = missing ?? failure
            }
        }
        if let missing { throw CKError(missing, at: .item) }
        return page
    }

    /// Fetches records of a zone by name; those that do not exist are left out.
    func lookup(_ names: [String], in zone: ZoneID) async throws(CKError) -> [Record] {
        try records(try await client.records(named: names, in: zone, .asRequested, desiredKeys: nil))
    }

    /// Returns the records without those that do not exist; throws if the relay could not return one that does.
    private func records(_ entries: [ClientResponse.RecordEntry]) throws(CKError) -> [Record] {
        var records: [Record] = []
        for entry in entries {
            switch entry {
            case .record(let record), .share(let record, _): records.append(record)
            case .deleted: break
            case .failed(_, let failure):
                let error = CKError(failure, at: .item)
                if error.code != .unknownItem { throw error }
            }
        }
        return records
    }

    /// Creates zones; existing ones stay unchanged.
    func make(_ zones: [ZoneID]) async throws(CKError) {
        let entries = try await client.modifyZones(creating: zones, deleting: [], because: .deleted)
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .serverRecordChanged { throw error }
        }
    }

    /// Deletes a zone; `reason` is the reason that other devices receive.
    func delete(_ zone: ZoneID, because reason: ZoneDeletionReason = .deleted) async throws(CKError) {
        for case .failed(_, let failure) in try await client.modifyZones(
            creating: [],
            deleting: [zone],
            because: reason
        ) {
            let error = CKError(failure, at: .item)
            if error.code != .zoneNotFound { throw error }
        }
        forgetKey(of: zone)
    }

    /// The result for one item.
    enum Answer: Sendable {
        case saved(Record)
        case deleted
        /// With the relay's record if it differs from the local one.
        case failed(CKError, Record?)
    }

    /// Writes records of one zone and returns one result for each, in their order.
    func modify(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        atomically: Bool
    ) async throws(CKError) -> [Answer] {
        let entries = try await client.modifyRecords(writes, in: zone, .asRequested, atomically: atomically)
        return answers(entries, for: writes.count)
    }

    /// Sends the body of a `records/modify` request that has an idempotency key; returns one result for each
    /// operation, in their order.
    func modify(_ body: [UInt8], count: Int, in zone: ZoneID) async throws(CKError) -> [Answer] {
        answers(try await client.modifyRecords(body, in: zone), for: count)
    }

    private func answers(_ entries: [ClientResponse.RecordEntry], for count: Int) -> [Answer] {
        let missing = CKError(.internalError, "The relay's response does not contain this item.")
        let answers = entries.prefix(count).map { entry -> Answer in
            switch entry {
            case .record(let record), .share(let record, _): .saved(record)
            case .deleted: .deleted
            case .failed(_, let failure): .failed(CKError(failure, at: .item), failure.serverRecord)
            }
        }
        return answers + Array(repeating: .failed(missing, nil), count: count - answers.count)
    }

    /// Fetches one page of the records of a type that were modified since a given time, oldest first.
    func query(
        _ type: String,
        since: Timestamp?,
        marker: String?,
        extent: WireExtent? = nil,
        namesOnly: Bool = false
    ) async throws(CKError) -> (records: [Record], marker: String?) {
        var query = Query(recordType: type)
        if extent?.isEmpty == true { return ([], nil) }
        query.filters = extent?.filters ?? []
        if let since { query.filters += [.init(.modified, .greaterThanOrEquals, [.timestamp(since)])] }
        query.sorts = [.init(.modified)]
        var request = QueryRequest(
            ClientRequest.encode(query),
            in: ZoneID(ZoneID.defaultName),
            desiredKeys: namesOnly ? [] : extent?.fields,
            marker: marker
        )
        request.naming = .asRequested
        // Any user may read a public database.
        let page = try await database.client.records(matching: request)
        return (try records(page.entries), page.marker)
    }
}

/// State that a link keeps between calls.
private final class LinkCache: Sendable {
    /// The user for whom the link reads and writes, whichever user signs in; `nil` until the sign-in was checked.
    let binding = Mutex<AccountBinding?>(nil)
    /// Created when first needed, and again after the container was configured again.
    let files = Mutex<(caller: CallerInfo, assetClient: AssetClient)?>(nil)
}

/// Encrypted values: encrypted when they are sent, decrypted when they are received.
///
/// The store's file holds the plain values; the file belongs to the user.
extension MirrorLink {
    private func zoneID(_ zone: ZoneID) -> CKRecordZone.ID { CKRecordZone.ID(zone) }

    /// Decrypts the encrypted values of received records as far as possible; the rest stays encrypted.
    ///
    /// `former` is the zone whose key was used, if it is another one than the records' zone.
    ///
    /// - Throws: An error if the key could not be requested. Records stored as locked are tried again only with the
    ///   next key.
    func open(_ records: inout [Record], in zone: ZoneID, by former: ZoneID? = nil) async throws(CKError) {
        // Values that no device has encrypted are marked as encrypted but are readable.
        guard records.contains(where: \.isLocked) else { return }
        let seal = try await database.seal(of: zoneID(former ?? zone), creating: false)
        for index in records.indices where records[index].isLocked {
            records[index] = Self.opened(records[index], by: seal)
        }
    }

    private static func opened(_ record: Record, by seal: ZoneSeal?) -> Record {
        var opened = record
        for name in record.encryptedFields where record.isLocked(name) {
            guard let value = record.fields[name] else { continue }
            let plain = seal?.open(value, type: record.type, record: record.id.recordName, field: name)
            if let plain { opened.fields[name] = plain }
        }
        return opened
    }

    /// Tries again to decrypt records whose values were locked when they arrived.
    func reopen(_ records: [Record], in zone: ZoneID) async throws(CKError) -> [Record] {
        guard let seal = try await database.seal(of: zoneID(zone), creating: false) else { return [] }
        return records.map { Self.opened($0, by: seal) }
    }

    /// Encrypts the values of a write that must be sent encrypted.
    ///
    /// Without a key provider, they are sent in clear text and marked as encrypted, as in layer 1.
    func sealed(_ write: ClientRequest.Write, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        let names = write.encrypted.filter { (write.fields[$0] ?? nil) != nil }
        guard !names.isEmpty, let seal = try await database.seal(of: zoneID(zone), creating: true) else { return write }
        var sealed = write
        for name in names {
            guard let value = write.fields[name] ?? nil, !ZoneSeal.isSealed(value) else { continue }
            let type = write.recordType ?? ""
            sealed.fields[name] = try seal.seal(value, type: type, record: write.recordName, field: name)
        }
        return sealed
    }

    /// Returns the write to send: encrypted values are sealed, and large values are uploaded as assets.
    func prepared(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        if let refusal = item.refusal { throw refusal }
        if item.operation == .delete || (item.large.isEmpty && item.write.encrypted.isEmpty) { return item.write }
        return try await sealed(try await uploadingAssets(item, in: zone), in: zone)
    }

    func keysChanged(in zone: ZoneID) async { await database.keysChanged(in: zoneID(zone)) }
    func forgetKey(of zone: ZoneID) { database.forgetKey(of: zoneID(zone)) }
}

/// Values too large for a record, which are stored in an asset in the field's companion field.
///
/// See Sync.md, "Records of a mirror".
extension MirrorLink {
    /// Returns the content of a record's asset, or `nil` if it is no longer available.
    func content(of asset: Asset, record: RecordID, field: String) async throws(CKError) -> [UInt8]? {
        guard let assetClient = try files() else { return nil }
        let origin = AssetOrigin(scope: database.scope, record: record, field: field)
        do {
            // Another reader of the same content may have deleted the cached file a moment before.
            for isLast in [false, false, true] {
                let binding = fixed ?? cache.binding.withLock { $0 }
                let file = try await AccountBinding.$current.withValue(binding) {
                    try await assetClient.download(asset, origin)
                }
                let data = try isLast ? Data(contentsOf: file.url) : (try? Data(contentsOf: file.url))
                guard let data else { continue }
                // The store now has the content, and only this link reads its own folder.
                try? FileManager.default.removeItem(at: file.url)
                return [UInt8](data)
            }
            return nil
        } catch {
            let error = CKError(from: error)
            if error.code == .assetNotAvailable || error.code == .unknownItem { return nil }
            throw error
        }
    }

    /// Uploads large values and returns a write that refers to their assets.
    func uploadingAssets(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        guard !item.large.isEmpty, let assetClient = try files() else { return item.write }
        var write = item.write
        for (field, companion) in item.large {
            guard let value = item.write.fields[field] ?? nil, let bytes = value.content else { continue }
            let asset = try await upload(bytes, item.write, companion, assetClient, zone)
            // A new record has no such field to clear.
            write.fields.removeValue(forKey: field)
            if write.type != .create { write.fields.updateValue(nil, forKey: field) }
            write.fields[companion] = .asset(asset)
        }
        return write
    }

    /// Makes the next attempt upload assets again that the relay did not find.
    func forgetUploads(of write: ClientRequest.Write) {
        guard let assetClient = try? files() else { return }
        for case .asset(let asset)? in write.fields.values { assetClient.forget(asset.fileChecksum) }
    }

    private func upload(
        _ bytes: [UInt8],
        _ write: ClientRequest.Write,
        _ field: String,
        _ assetClient: AssetClient,
        _ zone: ZoneID
    ) async throws(CKError) -> Asset {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        do {
            try Data(bytes).write(to: file)
        } catch {
            throw CKError(
                .internalError,
                "A large value could not be written to a file for the upload.",
                underlying: error
            )
        }
        let place = AssetClient.Upload(
            file: file,
            recordType: write.recordType ?? "",
            recordName: write.recordName,
            field: field
        )
        return try await assetClient.upload(place, to: database.scope, in: zone)
    }
}

extension FieldValue {
    /// The bytes of a text or bytes value; `nil` for all others.
    var content: [UInt8]? {
        switch self {
        case .string(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        default: nil
        }
    }
}

/// Selects the values of a record that are sent as assets.
package enum LargeValues {
    /// Records may have a million bytes; names and JSON syntax are not counted here.
    package static let limit = 900_000

    /// Selects the largest values until the rest fits; always the same ones for the same record.
    ///
    /// `sizes` are the sizes of values that have a companion field.
    package static func moved(out sizes: [String: Int], total: Int, limit: Int = Self.limit) -> Set<String> {
        var (rest, moved): (Int, Set<String>) = (total, [])
        for (field, size) in sizes.sorted(by: { ($0.value, $0.key) > ($1.value, $1.key) }) where rest > limit {
            moved.insert(field)
            rest -= size
        }
        return moved
    }
}
