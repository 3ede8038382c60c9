import Foundation
import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// The values of a store's records: encrypted when they are sent, readable when they are imported.
///
/// The store's file holds the plain values; the file belongs to the user.
struct ValueCodec: Sendable {
    let file: StoreFile
    let database: CKDatabase
    let assets: AssetValues

    /// Decrypts the values of received records and loads those in assets, before they are imported.
    ///
    /// Does nothing for records without such values.
    func makeReadable(_ records: inout [Record], in zone: ZoneID) async throws(CKError) {
        if records.contains(where: { !$0.encryptedFields.isEmpty }) {
            try await open(&records, in: zone)
            if database.databaseScope == .private, records.contains(where: \.isLocked) {
                try await openMoved(&records, in: zone)
            }
        }
        for index in records.indices {
            for (name, value) in records[index].fields {
                guard case .asset(let asset) = value, name.hasSuffix(RecordMapping.companionSuffix) else { continue }
                try await fill(&records[index], companion: name, asset, in: zone)
            }
        }
    }

    /// Decrypts records that came from another zone with that zone's key, until the device that moved them has
    /// encrypted them again.
    private func openMoved(_ records: inout [Record], in zone: ZoneID) async throws(CKError) {
        let locked = records.filter(\.isLocked).map(\.id.recordName)
        let zones = try? await file.pool.read { db -> [ZoneID] in
            let home = try KnownZone.find(db, zone)?.id
            let areMoved = try locked.contains { name in
                guard let known = try KnownRecord.find(db, oid: name) else { return false }
                return known.zone != home || !known.state.hasVersion
            }
            return areMoved ? try KnownZone.all(db).filter(\.isThere).map(\.zone) : []
        }
        for former in zones ?? [] where former != zone { try await open(&records, in: zone, by: former) }
    }

    /// Loads an asset into the field that it belongs to.
    private func fill(_ record: inout Record, companion: String, _ asset: Asset, in zone: ZoneID) async throws(CKError)
    {
        let field = String(companion.dropLast(RecordMapping.companionSuffix.count))
        guard record.fields[field] == nil,
            let column = file.mapping.table(forType: record.type, fields: record.fields)?
                .columns.first(where: { file.mapping.field($0) == field }),
            let type = column.attribute?.type, type.hasLargeForm
        else { return }
        if let known = await knownContent(of: record.id, field, companion, asset, in: zone) {
            record.fields[field] = known
            return
        }
        guard let bytes = try await assets.content(of: asset, record: record.id, field: companion) else { return }
        record.fields[field] = type == .string ? .string(String(decoding: bytes, as: UTF8.self)) : .bytes(bytes)
    }

    /// Returns the content if the store already has it, so that it is not downloaded again.
    private func knownContent(
        of record: RecordID,
        _ field: String,
        _ companion: String,
        _ asset: Asset,
        in zone: ZoneID
    ) async -> FieldValue? {
        let found = try? await file.pool.read { db -> FieldValue? in
            guard let home = try KnownZone.find(db, zone),
                let known = try KnownRecord.find(db, zone: home.id, name: record.recordName)
            else { return nil }
            let fields = known.allFields()
            guard case .asset(let old)? = fields[companion], old.fileChecksum == asset.fileChecksum else { return nil }
            return fields[field]
        }
        return found ?? nil
    }

    /// Decrypts the encrypted values of received records as far as possible; the rest stays encrypted.
    ///
    /// `former` is the zone whose key was used, if it is another one than the records' zone.
    ///
    /// - Throws: An error if the key could not be requested. Records stored as locked are tried again only with the
    ///   next key.
    func open(_ records: inout [Record], in zone: ZoneID, by former: ZoneID? = nil) async throws(CKError) {
        // Values that no device has encrypted are marked as encrypted but are readable.
        guard records.contains(where: \.isLocked) else { return }
        let seal = try await database.keys.seal(of: CKRecordZone.ID(former ?? zone), creating: false)
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
        guard let seal = try await database.keys.seal(of: CKRecordZone.ID(zone), creating: false) else { return [] }
        return records.map { Self.opened($0, by: seal) }
    }

    /// Encrypts the values of a write that must be sent encrypted.
    ///
    /// Without a key provider, they are sent in clear text and marked as encrypted, as in layer 1.
    func sealed(_ write: ClientRequest.Write, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        let names = write.encrypted.filter { (write.fields[$0] ?? nil) != nil }
        guard !names.isEmpty, let seal = try await database.keys.seal(of: CKRecordZone.ID(zone), creating: true) else {
            return write
        }
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
        return try await sealed(try await assets.uploadingAssets(item, in: zone), in: zone)
    }
}

/// Values too large for a record, which are stored in an asset in the field's companion field.
///
/// See Sync.md, "Records of a mirror".
struct AssetValues: Sendable {
    let database: CKDatabase
    /// Returns the user in whose name content is downloaded.
    let user: @Sendable () -> AccountBinding?
    private let cache = FileCache()

    init(of database: CKDatabase, user: @escaping @Sendable () -> AccountBinding? = { nil }) {
        self.database = database
        self.user = user
    }

    private final class FileCache: Sendable {
        /// Created when first needed, and again after the container was configured again.
        let files = Mutex<(caller: CallerInfo, assetClient: AssetClient)?>(nil)
    }

    /// The asset files of this store; those of the connection may be in use by the program.
    private func files() throws(CKError) -> AssetClient? {
        let caller = try database.session.connection().caller
        return cache.files.withLock { files in
            if let files, files.caller === caller { return files.assetClient }
            guard let assetClient = caller.makeAssetClient() else { return nil }
            files = (caller, assetClient)
            return assetClient
        }
    }

    /// Returns the content of a record's asset, or `nil` if it is no longer available.
    func content(of asset: Asset, record: RecordID, field: String) async throws(CKError) -> [UInt8]? {
        guard let assetClient = try files() else { return nil }
        let origin = AssetOrigin(scope: database.scope, record: record, field: field)
        do {
            // Another reader of the same content may have deleted the cached file a moment before.
            for isLast in [false, false, true] {
                let file = try await AccountBinding.$current.withValue(user()) {
                    try await assetClient.download(asset, origin)
                }
                let data = try isLast ? Data(contentsOf: file.url) : (try? Data(contentsOf: file.url))
                guard let data else { continue }
                // The store now has the content, and only this store reads its own folder.
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
