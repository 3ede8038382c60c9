import Crypto
import Foundation
import Records
import SyncCore
import Synchronization
import Wire

/// Keys of zones, as records of the zones themselves: one for each user, with the zone's key sealed for them.
///
/// These records are hidden from programs: fetches leave them out.
enum KeyRecord {
    static let type = "ZonecastZoneKey"
    static let field = "wrappedKey"
    /// In each user's own record of the public database: the key to seal for them by.
    static let publicKeyField = "zonecastPublicKey"

    static func name(of user: String) -> String { "zonecast.key." + user }
}

extension CKDatabase {
    /// Opens the key of a zone, if the user may have it and it is not open yet, for reading.
    ///
    /// Throws only what keeps it from being looked for: what is read without a key for such a reason would be taken for
    /// something that nobody has given this user the key of yet.
    func openKey(of zoneID: CKRecordZone.ID) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil, connection.zoneKeys.key(zoneID) == nil,
            !connection.zoneKeys.isClosed(zoneID)
        else { return }
        do throws(CKError) {
            _ = try await zoneKey(of: zoneID, creating: false)
        } catch  where !error.trouble.isRetriedAutomatically && !error.isOfWay {
            // The zone has no key for this user, or is gone.
        }
    }

    /// The key of a zone; makes it where the zone has none, if `creating`.
    ///
    /// Throws `zoneNotFound` with `CKErrorUserDidResetEncryptedDataKey` when the zone has a key that the user's own no longer
    /// opens: then what is encrypted there cannot be read by anybody, and the zone is to be deleted and made anew.
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
        // Somebody has to give it to them, and needs to know by which key of theirs.
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
            // Another device was first. Where its key has gone again already, nothing goes in clear instead.
            guard let key = try await zoneKey(of: zoneID, creating: false) else {
                throw CKError(.zoneBusy, "The key of the zone's encrypted values is being made. Try again later.")
            }
            return key
        }
        connection.zoneKeys.keep(key, of: zoneID, epoch: epoch)
        return key
    }

    /// Takes the user's own of some records of keys that have come: a zone that another device has made anew has another key.
    func takeKey(of zoneID: CKRecordZone.ID, from records: some Sequence<CKRecord>) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil else { return }
        let epoch = connection.zoneKeys.epoch
        let (userKey, name) = try await identity(connection)
        // One without the field says nothing: it was not asked for whole.
        guard let own = records.first(where: { $0.recordID.recordName == KeyRecord.name(of: name) }),
            own[KeyRecord.field] as Data? != nil
        else { return }
        connection.zoneKeys.keep(ZoneKey(in: own, by: userKey), of: zoneID, epoch: epoch)
    }

    /// Looks what the zone's key is now, in the place of the one that is held.
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

    /// The user's own key and record name; publishes the key's public half once.
    private func identity(
        _ connection: RelayConnection
    ) async throws(CKError) -> (Curve25519.KeyAgreement.PrivateKey, String) {
        guard let provider = connection.encryptionKey else {
            throw CKError(
                .missingEntitlement,
                "Encrypted values need a key. Give RelayEndpoint.encryptionKey, or set ZONECAST_ENCRYPTION_PASSPHRASE."
            )
        }
        let userKey: Curve25519.KeyAgreement.PrivateKey
        do {
            userKey = try await connection.zoneKeys.userKey(provider, by: connection.conditions?.time ?? .system)
        } catch {
            throw CKError(.missingEntitlement, "The key of encrypted values cannot be had: \(error)", underlying: error)
        }
        if let name = connection.caller.recordName { return (userKey, name) }
        return (userKey, try await connection.fetchCallerName())
    }

    /// Says in the user's own record by which key others can give them zones' keys.
    ///
    /// Quiet: who has no key provider shares and is shared with as ever.
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
    /// The key in a record of keys; `nil` where it is sealed for another user, or for another key of theirs.
    fileprivate init?(in record: CKRecord, by userKey: Curve25519.KeyAgreement.PrivateKey) {
        let wrapped = (record[KeyRecord.field] as Data?).map { [UInt8]($0) } ?? []
        self.init(unwrapping: wrapped, by: userKey, zoneName: record.recordID.zoneID.zoneName)
    }
}

extension CKError {
    /// The zone's values were encrypted by a key that the user no longer has.
    static func encryptedDataReset(_ zoneID: CKRecordZone.ID) -> CKError {
        CKError(
            .zoneNotFound,
            userInfo: [
                NSLocalizedDescriptionKey:
                    "The key of encrypted data was reset. Delete zone \(zoneID.zoneName), create it again and upload all.",
                CKErrorUserDidResetEncryptedDataKey: NSNumber(value: true),
            ]
        )
    }

    /// The zone is another user's, and nobody who has its key has given it to this one yet.
    fileprivate static let zoneKeyMissing = CKError(
        .permissionFailure,
        userInfo: [
            NSLocalizedDescriptionKey:
                "The zone's owner has not given this user the key of its encrypted values yet. Try again later.",
            zoneKeyMissingKey: NSNumber(value: true),
        ]
    )
    private static let zoneKeyMissingKey = "ZonecastZoneKeyMissing"

    /// Whether the error says that the zone's key is still to come.
    package var awaitsZoneKey: Bool { userInfo[Self.zoneKeyMissingKey] != nil }

    /// Whether the error says that the user has reset the key of their encrypted data.
    var saysKeyWasReset: Bool {
        (userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber)?.boolValue ?? false
    }
}
