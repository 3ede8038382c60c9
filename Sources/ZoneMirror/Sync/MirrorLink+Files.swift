import Foundation
import Records
import Wire
import ZoneKit

/// Values too large for a record, which are stored in an asset in the field's companion field.
///
/// See Sync.md, "Records of a mirror".
extension MirrorLink {
    /// Returns the content of a record's asset, or `nil` if it is no longer available.
    func content(of asset: Asset, record: RecordID, field: String) async throws(CKError) -> [UInt8]? {
        guard let keeper = try files() else { return nil }
        let origin = AssetOrigin(scope: database.scope, record: record, field: field)
        do {
            // Another reader of the same content may have deleted the cached file a moment before.
            for isLast in [false, false, true] {
                let file = try await asOwner { () throws(CKError) in
                    do { return try await keeper.download(asset, origin) } catch { throw CKError(from: error) }
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
    func withFiles(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        guard !item.large.isEmpty, let keeper = try files() else { return item.write }
        var write = item.write
        for (field, companion) in item.large {
            guard let value = item.write.fields[field] ?? nil, let bytes = value.content else { continue }
            let asset = try await upload(bytes, item.write, companion, keeper, zone)
            // A new record has no such field to clear.
            write.fields.removeValue(forKey: field)
            if write.type != .create { write.fields.updateValue(nil, forKey: field) }
            write.fields[companion] = .asset(asset)
        }
        return write
    }

    /// Makes the next attempt upload assets again that the relay did not find.
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
            throw CKError(
                .internalError,
                "A large value could not be written to a file for the upload.",
                underlying: error
            )
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
