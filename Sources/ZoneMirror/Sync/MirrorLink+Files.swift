import Foundation
import Records
import Wire
import ZoneKit

/// Values too large for a record: they stand in a file beside it, in the field's companion.
///
/// See Sync.md, "Records of a mirror".
extension MirrorLink {
    /// The content of an asset that a record names; `nil` when it is not to be had any more.
    func content(of asset: Asset, record: RecordID, field: String) async throws(CKError) -> [UInt8]? {
        guard let keeper = try files() else { return nil }
        let origin = AssetOrigin(scope: database.scope, record: record, field: field)
        do {
            // Somebody who wanted the same content may have read it, and thrown the file away, a moment before.
            for isLast in [false, false, true] {
                let file = try await asOwner { () throws(CKError) in
                    do { return try await keeper.download(asset, origin) } catch { throw CKError(from: error) }
                }
                let data = try isLast ? Data(contentsOf: file.url) : (try? Data(contentsOf: file.url))
                guard let data else { continue }
                // The store has it now, and nobody else reads the link's own folder.
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

    /// Uploads large values; the write then names their files in place of the values.
    func withFiles(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        guard !item.large.isEmpty, let keeper = try files() else { return item.write }
        var write = item.write
        for (field, companion) in item.large {
            guard let value = item.write.fields[field] ?? nil, let bytes = value.content else { continue }
            let asset = try await upload(bytes, item.write, companion, keeper, zone)
            // A new record has no such field yet that could be emptied.
            write.fields.removeValue(forKey: field)
            if write.type != .create { write.fields.updateValue(nil, forKey: field) }
            write.fields[companion] = .asset(asset)
        }
        return write
    }

    /// The relay would not have a file that was sent before: it is sent again with the next try.
    func forgetFiles(of write: ClientRequest.Write) {
        guard let keeper = try? files() else { return }
        for case .asset(let asset)? in write.fields.values { keeper.forget(asset.fileChecksum) }
    }

    private func upload(
        _ bytes: [UInt8],
        _ write: ClientRequest.Write,
        _ field: String,
        _ keeper: AssetKeeper,
        _ zone: ZoneID
    ) async throws(CKError) -> Asset {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        do {
            try Data(bytes).write(to: file)
        } catch {
            throw CKError(.internalError, "A large value could not be put into a file to send.", underlying: error)
        }
        let place = AssetKeeper.Upload(
            file: file,
            recordType: write.recordType ?? "",
            recordName: write.recordName,
            field: field
        )
        return try await keeper.upload(place, to: database.scope, in: zone)
    }
}

extension FieldValue {
    /// The bytes of a text or of bytes; `nil` for everything else.
    var content: [UInt8]? {
        switch self {
        case .string(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        default: nil
        }
    }
}

/// Which values of a record go into files.
package enum LargeValues {
    /// Records may have a million bytes; names, and the wire's own words, are not counted here.
    package static let limit = 900_000

    /// Moves the largest values out until the rest fits; always the same ones for the same record.
    ///
    /// `sizes` are those of values that have a companion.
    package static func moved(out sizes: [String: Int], total: Int, limit: Int = Self.limit) -> Set<String> {
        var (rest, moved): (Int, Set<String>) = (total, [])
        for (field, size) in sizes.sorted(by: { ($0.value, $0.key) > ($1.value, $1.key) }) where rest > limit {
            moved.insert(field)
            rest -= size
        }
        return moved
    }
}
