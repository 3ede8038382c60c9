package import Records
import Wire

/// Seals and opens single values of one zone, for those who keep records of their own.
package struct ZoneSeal: Sendable {
    private let key: ZoneKey

    init(key: ZoneKey) { self.key = key }

    /// The record type under which zones keep their keys; programs do not see such records.
    package static var keyRecordType: String { KeyRecord.type }

    package func seal(_ value: FieldValue, type: String, record: String, field: String) throws(CKError) -> FieldValue {
        do {
            let place = ZoneKey.place(type: type, record: record, field: field)
            return FieldValue(sealed: try key.seal(value, for: place), standingFor: value)
        } catch {
            throw CKError(.internalError, "A value could not be encrypted.", underlying: error)
        }
    }

    /// `nil` for what was sealed by another key or in another place.
    package func open(_ value: FieldValue, type: String, record: String, field: String) -> FieldValue? {
        guard let bytes = value.sealedBytes else { return value }
        return key.open(bytes, for: ZoneKey.place(type: type, record: record, field: field))
    }

    /// Whether some device has sealed this value.
    package static func isSealed(_ value: FieldValue) -> Bool { value.sealedBytes != nil }
}

extension CKDatabase {
    /// Whether this device can seal values at all.
    package var hasEncryptionKey: Bool { (try? session.connection().encryptionKey) != nil }

    /// What seals and opens a zone's values; `nil` where there is no key provider, or no key for this user.
    ///
    /// With `creating`, makes the key of a zone that has none; then a zone whose key this user does not have is an error.
    package func seal(of zoneID: CKRecordZone.ID, creating: Bool) async throws(CKError) -> ZoneSeal? {
        guard hasEncryptionKey else { return nil }
        if creating { return try await zoneKey(of: zoneID, creating: true).map { ZoneSeal(key: $0) } }
        try await openKey(of: zoneID)
        return try session.connection().zoneKeys.key(zoneID).map { ZoneSeal(key: $0) }
    }

    /// A record of keys has come: what could not be opened before may be openable now, and a zone that was made anew has
    /// another key than the one that is held.
    package func keysChanged(in zoneID: CKRecordZone.ID) async {
        guard let keys = try? session.connection().zoneKeys else { return }
        guard keys.key(zoneID) != nil else { return keys.forget(zoneID) }
        do throws(CKError) {
            try await lookUpKey(of: zoneID)
        } catch {
            // Whoever needs it next looks again, and hears why.
            keys.forget(zoneID)
        }
    }

    /// The zone is gone, and its key with it.
    package func forgetKey(of zoneID: CKRecordZone.ID) { (try? session.connection())?.zoneKeys.forget(zoneID) }

    /// Gives the zone's key to those it is shared with; see `giveKeys(by:ended:in:isListed:)`.
    package func shareKeys(
        by shares: [CKShare],
        ended: [String],
        in zoneID: CKRecordZone.ID,
        isListed: Bool
    ) async {
        await giveKeys(by: shares, ended: ended, in: zoneID, isListed: isListed)
    }
}
