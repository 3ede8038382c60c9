import Foundation
import Records
import SyncCore
import Wire
import ZoneKit

/// Values that leave this machine encrypted: sealed on their way out, opened on their way in.
///
/// In the store's file they stand as they are; the file is the user's own.
extension MirrorLink {
    private func zoneID(_ zone: ZoneID) -> CKRecordZone.ID { CKRecordZone.ID(zone) }

    /// Opens what can be opened of records that came; the rest of their encrypted values stays sealed.
    ///
    /// Throws where the key could not be asked for: what is written down as locked is looked at again with the next key only.
    ///
    /// `former`: whose key it is done with, where that is not the zone that they are in.
    func open(_ records: inout [Record], in zone: ZoneID, by former: ZoneID? = nil) async throws(CKError) {
        // Values that no device has sealed are marked, and readable all the same.
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

    /// A record whose values were sealed when it came, tried again.
    func reopen(_ records: [Record], in zone: ZoneID) async throws(CKError) -> [Record] {
        guard let seal = try await database.seal(of: zoneID(zone), creating: false) else { return [] }
        return records.map { Self.opened($0, by: seal) }
    }

    /// Seals what a write has to send sealed.
    ///
    /// Without a key provider the values go as they are, marked as encrypted, as layer 1 does it.
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

    /// A change as it goes to the relay: encrypted values sealed, large ones in files that the relay has.
    func readied(_ item: Outgoing, in zone: ZoneID) async throws(CKError) -> ClientRequest.Write {
        if let trouble = item.trouble { throw trouble }
        if item.operation == .delete || (item.large.isEmpty && item.write.encrypted.isEmpty) { return item.write }
        return try await sealed(try await withFiles(item, in: zone), in: zone)
    }

    func keysChanged(in zone: ZoneID) async { await database.keysChanged(in: zoneID(zone)) }
    func forgetKey(of zone: ZoneID) { database.forgetKey(of: zoneID(zone)) }
}
