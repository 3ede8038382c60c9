import Crypto
import Foundation
import Records
import SyncCore
import Synchronization
import Wire

/// The key records of zones: one record per user in the zone, which contains the zone's key encrypted for the user.
///
/// Apps do not see these records; fetches omit them.
enum KeyRecord {
    static let type = "ZonecastZoneKey"
    static let field = "wrappedKey"
    /// A field of each user's record in the public database: the public key with which zone keys are encrypted for the
    /// user.
    static let publicKeyField = "zonecastPublicKey"

    static func name(of user: String) -> String { "zonecast.key." + user }
}

extension CKDatabase {
    /// Opens the key of a zone for reading, if the user has access to it and it is not open yet.
    ///
    /// Throws only if a failure prevents the lookup. If such a failure were ignored, the values would look as if the
    /// user had not been given the key.
    func openKey(of zoneID: CKRecordZone.ID) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil, connection.zoneKeys.key(zoneID) == nil,
            !connection.zoneKeys.isClosed(zoneID)
        else { return }
        do throws(CKError) {
            _ = try await zoneKey(of: zoneID, creating: false)
        } catch  where !error.trouble.isRetriedAutomatically && !error.isOfWay {
            // The zone has no key for this user, or does not exist.
        }
    }

    /// Returns the key of a zone.
    ///
    /// Creates one if the zone has none and `creating` is `true`. Throws `zoneNotFound` with
    /// `CKErrorUserDidResetEncryptedDataKey` if the zone has a key that the user's private key cannot decrypt. The
    /// zone's encrypted values are then lost, and the zone must be deleted and created again.
    func zoneKey(of zoneID: CKRecordZone.ID, creating: Bool) async throws(CKError) -> ZoneKey? {
        let connection = try session.connection()
        let epoch = connection.zoneKeys.epoch
        if let known = connection.zoneKeys.key(zoneID) { return known }
        let (userKey, name) = try await identity(connection)
        let id = CKRecord.ID(recordName: KeyRecord.name(of: name), zoneID: zoneID)
        if let found = try await keyRecord(id) {
            let key = ZoneKey(in: found, by: userKey)
            connection.zoneKeys.keep(key, of: zoneID, epoch: epoch)
            guard let key else { throw .encryptedDataReset(zoneID) }
            return key
        }
        // Another device has to provide the key, and needs this user's public key for it.
        if databaseScope == .shared { await publishKey() }
        guard creating else { return nil }
        guard databaseScope == .private else {
            throw .zoneKeyMissing
        }
        let key = ZoneKey()
        do {
            let publicKey = [UInt8](userKey.publicKey.rawRepresentation)
            try await give(key, to: publicKey, named: name, in: zoneID, below: nil, .ifServerRecordUnchanged)
        } catch  where error.code == .serverRecordChanged {
            // Another device was first. If its key no longer exists, the values must not be sent unencrypted.
            guard let key = try await zoneKey(of: zoneID, creating: false) else {
                throw CKError(.zoneBusy, "The key of the zone's encrypted values is being created. Retry later.")
            }
            return key
        }
        connection.zoneKeys.keep(key, of: zoneID, epoch: epoch)
        return key
    }

    /// Opens the user's own key record among some fetched ones.
    ///
    /// A zone that another device has created again has another key.
    func takeKey(of zoneID: CKRecordZone.ID, from records: some Sequence<CKRecord>) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil else { return }
        let epoch = connection.zoneKeys.epoch
        let (userKey, name) = try await identity(connection)
        // Without this field the record was not fetched completely.
        guard let own = records.first(where: { $0.recordID.recordName == KeyRecord.name(of: name) }),
            own[KeyRecord.field] as Data? != nil
        else { return }
        connection.zoneKeys.keep(ZoneKey(in: own, by: userKey), of: zoneID, epoch: epoch)
    }

    /// Fetches the zone's current key, which replaces the open one.
    func lookUpKey(of zoneID: CKRecordZone.ID) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil else { return }
        let (_, name) = try await identity(connection)
        guard let own = try await keyRecord(CKRecord.ID(recordName: KeyRecord.name(of: name), zoneID: zoneID))
        else { return }
        try await takeKey(of: zoneID, from: [own])
    }

    func keyRecord(_ id: CKRecord.ID) async throws(CKError) -> CKRecord? {
        do {
            return try await record(for: id)
        } catch {
            let error = CKError(from: error)
            if error.code == .unknownItem { return nil }
            throw error
        }
    }

    func give(
        _ key: ZoneKey,
        to publicKey: [UInt8],
        named user: String,
        in zoneID: CKRecordZone.ID,
        below root: CKRecord.ID?,
        _ policy: CKModifyRecordsOperation.RecordSavePolicy
    ) async throws(CKError) {
        let id = CKRecord.ID(recordName: KeyRecord.name(of: user), zoneID: zoneID)
        let record = CKRecord(recordType: KeyRecord.type, recordID: id)
        do {
            let wrapped = try key.wrapped(for: publicKey, zoneName: zoneID.zoneName)
            record[KeyRecord.field] = Data(wrapped + (try key.pin(of: publicKey, for: user)))
            if let root { record.setParent(root) }
            try await put(record, policy)
        } catch {
            throw CKError(from: error)
        }
    }

    /// Returns the user's private key and record name.
    private func identity(
        _ connection: RelayConnection
    ) async throws(CKError) -> (Curve25519.KeyAgreement.PrivateKey, String) {
        guard let provider = connection.encryptionKey else {
            throw CKError(
                .missingEntitlement,
                "Encrypted values need a key. Set RelayEndpoint.encryptionKey or ZONECAST_ENCRYPTION_PASSPHRASE."
            )
        }
        let userKey: Curve25519.KeyAgreement.PrivateKey
        do {
            userKey = try await connection.zoneKeys.userKey(provider, by: connection.conditions?.time ?? .system)
        } catch {
            throw CKError(
                .missingEntitlement,
                "The key of encrypted values is not available: \(error)",
                underlying: error
            )
        }
        if let name = connection.caller.recordName { return (userKey, name) }
        return (userKey, try await connection.fetchCallerName())
    }

    /// Publishes the user's public key in the user's record, so that others can provide zone keys.
    ///
    /// Never throws: without a key provider, sharing works without encryption.
    func publishKey() async {
        guard let connection = try? session.connection(), connection.encryptionKey != nil,
            connection.zoneKeys.beginPublishing()
        else { return }
        do throws(CKError) {
            let (key, name) = try await identity(connection)
            let me = CKRecord(recordType: CKRecordTypeUserRecord, recordID: CKRecord.ID(recordName: name))
            me[KeyRecord.publicKeyField] = key.publicKey.rawRepresentation
            try await CKContainer(sharing: session).publicCloudDatabase.put(me, .changedKeys)
        } catch {
            connection.zoneKeys.publishingFailed()
        }
    }

    private func put(
        _ record: CKRecord,
        _ policy: CKModifyRecordsOperation.RecordSavePolicy
    ) async throws(CKError) {
        do {
            let results = try await modifyRecords(saving: [record], deleting: [], savePolicy: policy)
            _ = try results.saveResults[record.recordID]?.get()
        } catch {
            throw CKError(from: error)
        }
    }
}

extension ZoneKey {
    /// Decrypts the key in a key record.
    ///
    /// Returns `nil` if it was encrypted for another user or another public key.
    fileprivate init?(in record: CKRecord, by userKey: Curve25519.KeyAgreement.PrivateKey) {
        let wrapped = (record[KeyRecord.field] as Data?).map { [UInt8]($0) } ?? []
        self.init(unwrapping: wrapped, by: userKey, zoneName: record.recordID.zoneID.zoneName)
    }
}

extension CKError {
    /// The error for a zone whose values were encrypted with a key that the user no longer has.
    static func encryptedDataReset(_ zoneID: CKRecordZone.ID) -> CKError {
        CKError(
            .zoneNotFound,
            userInfo: [
                NSLocalizedDescriptionKey:
                    "The key of encrypted data was reset. Delete zone \(zoneID.zoneName), create it again and upload all records.",
                CKErrorUserDidResetEncryptedDataKey: NSNumber(value: true),
            ]
        )
    }

    /// The error for another user's zone whose key has not been provided to this user yet.
    fileprivate static let zoneKeyMissing = CKError(
        .permissionFailure,
        userInfo: [
            NSLocalizedDescriptionKey:
                "The zone's owner has not shared the key of its encrypted values with this user yet. Retry later.",
            zoneKeyMissingKey: NSNumber(value: true),
        ]
    )
    private static let zoneKeyMissingKey = "ZonecastZoneKeyMissing"

    /// Whether the error means that the zone's key has not been provided yet.
    package var awaitsZoneKey: Bool { userInfo[Self.zoneKeyMissingKey] != nil }

    /// Whether the error means that the user has reset the encryption key.
    var saysKeyWasReset: Bool {
        (userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber)?.boolValue ?? false
    }
}
