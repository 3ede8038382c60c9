import Foundation
import Records
import ZoneKit

/// Makes received values readable: decrypts them, and loads those in assets.
struct ValueReader: Sendable {
    let file: StoreFile
    let link: MirrorLink

    /// Decrypts the values of received records and loads those in assets, before they are imported.
    ///
    /// Does nothing for records without such values.
    func makeReadable(_ records: inout [Record], in zone: ZoneID) async throws(CKError) {
        if records.contains(where: { !$0.encryptedFields.isEmpty }) {
            try await link.open(&records, in: zone)
            if link.isPrivate, records.contains(where: \.isLocked) { try await openMoved(&records, in: zone) }
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
        for former in zones ?? [] where former != zone { try await link.open(&records, in: zone, by: former) }
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
        guard let bytes = try await link.content(of: asset, record: record.id, field: companion) else { return }
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
}
