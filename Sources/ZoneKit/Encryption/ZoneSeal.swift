package import Records
import Wire

/// Seals and opens single values of a zone, for code that stores records itself.
package struct ZoneSeal: Sendable {
    private let key: ZoneKey

    init(key: ZoneKey) { self.key = key }

    /// The record type of key records, which apps do not see.
    package static var keyRecordType: String { KeyRecord.type }

    package func seal(_ value: FieldValue, type: String, record: String, field: String) throws(CKError) -> FieldValue {
        do {
            let place = ZoneKey.place(type: type, record: record, field: field)
            return FieldValue(sealed: try key.seal(value, for: place), standingFor: value)
        } catch {
            throw CKError(.internalError, "A value could not be encrypted.", underlying: error)
        }
    }

    /// Decrypts a value.
    ///
    /// Returns `nil` if it was sealed with another key or for another field.
    package func open(_ value: FieldValue, type: String, record: String, field: String) -> FieldValue? {
        guard let bytes = value.sealedBytes else { return value }
        return key.open(bytes, for: ZoneKey.place(type: type, record: record, field: field))
    }

    /// Returns whether a value was encrypted on a device.
    package static func isSealed(_ value: FieldValue) -> Bool { value.sealedBytes != nil }
}

extension CKDatabase {
    /// Whether this device can encrypt values.
    package var hasEncryptionKey: Bool { (try? session.connection().encryptionKey) != nil }

    /// Returns an object that seals and opens a zone's values; `nil` without a key provider or without a key for this
    /// user.
    ///
    /// With `creating`, creates the key of a zone that has none, and throws if the zone has a key that this user does
    /// not have.
    package func seal(of zoneID: CKRecordZone.ID, creating: Bool) async throws(CKError) -> ZoneSeal? {
        guard hasEncryptionKey else { return nil }
        if creating { return try await zoneKey(of: zoneID, creating: true).map { ZoneSeal(key: $0) } }
        try await openKey(of: zoneID)
        return try session.connection().zoneKeys.key(zoneID).map { ZoneSeal(key: $0) }
    }

    /// Handles the arrival of a key record.
    ///
    /// Values that could not be decrypted before may be readable now, and a zone that was created again has another
    /// key.
    package func keysChanged(in zoneID: CKRecordZone.ID) async {
        guard let keys = try? session.connection().zoneKeys else { return }
        guard keys.key(zoneID) != nil else { return keys.forget(zoneID) }
        do throws(CKError) {
            try await lookUpKey(of: zoneID)
        } catch {
            // The next use of the key repeats the lookup and reports the error.
            keys.forget(zoneID)
        }
    }

    /// Discards the key of a deleted zone.
    package func forgetKey(of zoneID: CKRecordZone.ID) { (try? session.connection())?.zoneKeys.forget(zoneID) }

    /// Provides the zone's key to the participants of its shares; see `giveKeys(by:ended:in:isListed:)`.
    package func shareKeys(
        by shares: [CKShare],
        ended: [String],
        in zoneID: CKRecordZone.ID,
        isListed: Bool
    ) async {
        await giveKeys(by: shares, ended: ended, in: zoneID, isListed: isListed)
    }
}
