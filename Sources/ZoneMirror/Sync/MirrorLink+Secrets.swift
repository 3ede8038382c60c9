import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

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
    func readied(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        if let trouble = item.trouble { throw trouble }
        if item.operation == .delete || (item.large.isEmpty && item.write.encrypted.isEmpty) { return item.write }
        return try await sealed(try await withFiles(item, in: zone), in: zone)
    }

    func keysChanged(in zone: ZoneID) async { await database.keysChanged(in: zoneID(zone)) }
    func forgetKey(of zone: ZoneID) { database.forgetKey(of: zoneID(zone)) }
}
