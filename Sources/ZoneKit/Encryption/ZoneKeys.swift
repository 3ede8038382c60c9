import Crypto
import Foundation
package import Records
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
    /// The keys of this database's zones.
    package var keys: ZoneKeys { ZoneKeys(database: self) }
}

/// The keys with which the encrypted values of a database's zones are sealed and opened: looking them up, creating them,
/// and providing them to the users with whom a zone is shared.
package struct ZoneKeys: Sendable {
    let database: CKDatabase

    private var session: RelaySession { database.session }
    private var databaseScope: CKDatabase.Scope { database.databaseScope }

    /// Opens the key of a zone for reading, if the user has access to it and it is not open yet.
    ///
    /// Throws only if a failure prevents the lookup. If such a failure were ignored, the values would look as if the
    /// user had not been given the key.
    func openKey(of zoneID: CKRecordZone.ID) async throws(CKError) {
        let connection = try session.connection()
        guard connection.encryptionKey != nil, connection.zoneKeys.key(zoneID) == nil,
            !connection.zoneKeys.isInaccessible(zoneID)
        else { return }
        do throws(CKError) {
            _ = try await zoneKey(of: zoneID, creating: false)
        } catch  where !error.syncFailure.isRetriedAutomatically && !error.isServiceFailure {
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
            try await provide(key, to: publicKey, named: name, in: zoneID, below: nil, .ifServerRecordUnchanged)
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
    func openOwnKey(of zoneID: CKRecordZone.ID, from records: some Sequence<CKRecord>) async throws(CKError) {
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
        try await openOwnKey(of: zoneID, from: [own])
    }

    func keyRecord(_ id: CKRecord.ID) async throws(CKError) -> CKRecord? {
        do {
            return try await database.record(for: id)
        } catch {
            let error = CKError(from: error)
            if error.code == .unknownItem { return nil }
            throw error
        }
    }

    func provide(
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
            try await CKContainer(sharing: session).publicCloudDatabase.keys.put(me, .changedKeys)
        } catch {
            connection.zoneKeys.publishingFailed()
        }
    }

    fileprivate func put(
        _ record: CKRecord,
        _ policy: CKModifyRecordsOperation.RecordSavePolicy
    ) async throws(CKError) {
        do {
            let results = try await database.modifyRecords(saving: [record], deleting: [], savePolicy: policy)
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
    package var isZoneKeyMissing: Bool { userInfo[Self.zoneKeyMissingKey] != nil }

    /// Whether the error means that the user has reset the encryption key.
    var reportsKeyReset: Bool {
        (userInfo[CKErrorUserDidResetEncryptedDataKey] as? NSNumber)?.boolValue ?? false
    }
}

extension ZoneKeys {
    /// Encrypts the encrypted values of records before they are sent.
    ///
    /// If a zone has no key for this user, its records fail individually. A failure that would affect every request is
    /// thrown.
    func sealSecrets(
        of drafts: [Draft],
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        _ sent: inout SentFiles
    ) async throws(CKError) {
        for state in drafts.map(\.state) where state.secrets != nil {
            guard !state.changedSecretKeys.isEmpty || policy == .allKeys else { continue }
            do throws(CKError) {
                guard databaseScope != .public else {
                    throw CKError(.invalidArguments, "Encrypted fields are not supported in the public database.")
                }
                // Without a key provider the values are stored unencrypted, as in CloudKit for accounts without
                // end-to-end encryption.
                let hasKeys = try session.connection().encryptionKey != nil
                let key = hasKeys ? try await zoneKey(of: state.id.zoneID, creating: true) : nil
                do {
                    sent.sealed[state.id] = try state.sealedFields(policy, by: key)
                } catch {
                    throw CKError(.internalError, "A value could not be encrypted.", underlying: error)
                }
            } catch  where !error.syncFailure.isRetriedAutomatically {
                sent.failures[state.id] = error
            }
        }
    }

    /// Opens the keys of all zones whose records contain encrypted values.
    func openKeys(for records: some Sequence<CKRecord>) async throws(CKError) {
        var seen: Set<CKRecordZone.ID> = []
        for record in records where record.state.withLock({ $0.hasSealed }) {
            let zoneID = record.recordID.zoneID
            if seen.insert(zoneID).inserted { try await openKey(of: zoneID) }
        }
    }
}

/// Seals and opens single values of a zone, for code that stores records itself.
package struct ZoneSeal: Sendable {
    private let key: ZoneKey

    init(key: ZoneKey) { self.key = key }

    /// The record type of key records, which apps do not see.
    package static var keyRecordType: String { KeyRecord.type }

    package func seal(_ value: FieldValue, type: String, record: String, field: String) throws(CKError) -> FieldValue {
        do {
            let associatedData = ZoneKey.associatedData(type: type, record: record, field: field)
            return FieldValue(sealed: try key.seal(value, for: associatedData), replacing: value)
        } catch {
            throw CKError(.internalError, "A value could not be encrypted.", underlying: error)
        }
    }

    /// Decrypts a value.
    ///
    /// Returns `nil` if it was sealed with another key or for another field.
    package func open(_ value: FieldValue, type: String, record: String, field: String) -> FieldValue? {
        guard let bytes = value.sealedBytes else { return value }
        return key.open(bytes, for: ZoneKey.associatedData(type: type, record: record, field: field))
    }

    /// Returns whether a value was encrypted on a device.
    package static func isSealed(_ value: FieldValue) -> Bool { value.sealedBytes != nil }
}

extension ZoneKeys {
    /// Whether this device can encrypt values.
    package var isAvailable: Bool { (try? session.connection().encryptionKey) != nil }

    /// Returns an object that seals and opens a zone's values; `nil` without a key provider or without a key for this
    /// user.
    ///
    /// With `creating`, creates the key of a zone that has none, and throws if the zone has a key that this user does
    /// not have.
    package func seal(of zoneID: CKRecordZone.ID, creating: Bool) async throws(CKError) -> ZoneSeal? {
        guard isAvailable else { return nil }
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

    /// Provides the key of a zone to the users with whom it is shared and who do not have it yet.
    ///
    /// Every device that has the key and may write to the zone does this when it sees the share: the owner's devices
    /// and those of other participants, so that a new participant need not wait for the owner. Never throws: a user who
    /// cannot get the key now, because of a failure or because they have not published a public key, gets it when a
    /// device next fetches from the zone.
    ///
    /// - Parameters:
    ///   - shares: The shares that were fetched.
    ///   - ended: The names of the shares that were deleted.
    ///   - zoneID: The zone.
    ///   - isListed: Whether the fetch lists the whole zone, so that all of its shares are fetched.
    package func provideKeys(by shares: [CKShare], ended: [String], in zoneID: CKRecordZone.ID, isListed: Bool) async {
        guard let keys = try? session.connection().zoneKeys, isAvailable else { return }
        for name in ended { keys.ended(CKRecord.ID(recordName: name, zoneID: zoneID)) }
        for share in shares { await provideKey(by: share) }
        let waiting = keys.waiting(in: zoneID).filter { !shares.map(\.recordID).contains($0.recordID) }
        // The zone gets a key with the owner's first encrypted value.
        if !keys.isMissing(zoneID) { for share in waiting { await provideKey(by: share) } }
        guard databaseScope == .private, keys.beginShareLookup(in: zoneID), !isListed else { return }
        // Users may have been waiting for the key when an earlier process ended.
        do {
            for share in try await allShares(of: zoneID) { await provideKey(by: share) }
        } catch {
            keys.shareLookupFailed(in: zoneID)
        }
    }

    private func allShares(of zoneID: CKRecordZone.ID) async throws -> [CKShare] {
        let query = CKQuery(recordType: CKRecord.SystemType.share, predicate: NSPredicate(value: true))
        var page = try await database.records(matching: query, inZoneWith: zoneID)
        var shares: [CKShare] = []
        while true {
            shares += try page.matchResults.compactMap { try $0.1.get() as? CKShare }
            guard let cursor = page.queryCursor else { return shares }
            page = try await database.records(continuingMatchFrom: cursor)
        }
    }

    /// Provides the key of a share's zone to the participants who have published a public key.
    ///
    /// Only the owner replaces a key record that a participant already has, for example after a reset of the
    /// participant's key, and only if the new public key is trusted.
    func provideKey(by share: CKShare) async {
        guard let connection = try? session.connection(), connection.encryptionKey != nil,
            databaseScope == .private || share.currentUserParticipant?.permission == .readWrite
        else { return }
        let names = share.participants.filter { $0.role != .owner && $0.acceptanceStatus == .accepted }
            .compactMap(\.wire.identity.userRecordName).filter { $0 != connection.caller.recordName }
        let missing = connection.zoneKeys.usersWithoutKey(names, by: share.recordID)
        var isAnyWaiting = false
        do throws(CKError) {
            if !missing.isEmpty { isAnyWaiting = try await !provideKey(by: share, to: missing, connection) }
        } catch {
            // Without access to the zone or its key there is nothing to retry.
            isAnyWaiting = error.syncFailure.isRetriedAutomatically || error.isServiceFailure
        }
        connection.zoneKeys.note(share, isAwaitingKey: isAnyWaiting)
    }

    /// Returns whether all users have the key.
    private func provideKey(
        by share: CKShare,
        to names: [String],
        _ connection: RelayConnection
    ) async throws(CKError) -> Bool {
        let zoneID = share.recordID.zoneID
        guard let key = try await zoneKey(of: zoneID, creating: false) else {
            connection.zoneKeys.markKeyMissing(zoneID)
            return databaseScope != .private
        }
        let root = try await root(of: share)
        var isAnyWaiting = false
        for name in names {
            do throws(CKError) {
                if try await provide(key, to: name, by: share, below: root, connection) { continue }
                isAnyWaiting = true
            } catch {
                isAnyWaiting = isAnyWaiting || error.syncFailure.isRetriedAutomatically || error.isServiceFailure
            }
        }
        return !isAnyWaiting
    }

    /// Provides a zone's key to a user who does not have it.
    ///
    /// Returns `false` if the user has published no public key.
    private func provide(
        _ key: ZoneKey,
        to name: String,
        by share: CKShare,
        below root: CKRecord.ID?,
        _ connection: RelayConnection
    ) async throws(CKError) -> Bool {
        let zoneID = share.recordID.zoneID
        let people = CKContainer(sharing: session).publicCloudDatabase
        let user = try await people.keys.keyRecord(CKRecord.ID(recordName: name))
        guard let publicKey = (user?[KeyRecord.publicKeyField] as? Data).map({ [UInt8]($0) }) else { return false }
        let given = try await keyRecord(CKRecord.ID(recordName: KeyRecord.name(of: name), zoneID: zoneID))
        let pinned = (given?[KeyRecord.field] as? Data).flatMap { key.pinned(in: [UInt8]($0), for: name) }
        if pinned != publicKey || given?.parent?.recordID != root {
            guard await isTrusted(publicKey, of: name, insteadOf: pinned, connection) else { return true }
            let policy: CKModifyRecordsOperation.RecordSavePolicy =
                databaseScope == .private ? .allKeys : .ifServerRecordUnchanged
            do throws(CKError) {
                try await provide(key, to: publicKey, named: name, in: zoneID, below: root, policy)
            } catch  where error.code == .serverRecordChanged {
                // Another device was first, and only the owner replaces its record.
                connection.zoneKeys.keyProvided(to: name, by: share.recordID)
                return true
            }
        }
        connection.zoneKeys.pin(publicKey, of: name)
        connection.zoneKeys.keyProvided(to: name, by: share.recordID)
        return true
    }

    /// Returns whether a zone's key may be provided to the owner of a public key.
    ///
    /// This is the case if the user had this public key before, according to this process or the zone (`given`), or if
    /// the app trusts the key.
    private func isTrusted(
        _ publicKey: [UInt8],
        of user: String,
        insteadOf given: [UInt8]?,
        _ connection: RelayConnection
    ) async -> Bool {
        let told = UserEncryptionKey(publicKey, of: user)
        let known = connection.zoneKeys.pinned(user) ?? given
        if known == publicKey || connection.zoneKeys.isTrusted(told) { return true }
        let before = known.map { UserEncryptionKey($0, of: user) }
        guard let provider = connection.encryptionKey else { return false }
        if await provider.trusts(told, insteadOf: before) { return true }
        NotificationCenter.default.post(
            name: .CKUserEncryptionKeyChanged,
            object: nil,
            userInfo: [CKUserEncryptionKeyKey: told]
        )
        return false
    }

    /// Returns the parent that a key record needs to be visible to the share's participants.
    private func root(of share: CKShare) async throws(CKError) -> CKRecord.ID? {
        guard share.recordID.recordName != CKRecordNameZoneWideShare else { return nil }
        if let known = share.rootID { return known }
        guard let link = share.url else { return nil }
        do {
            return try await CKContainer(sharing: session).shareMetadata(for: link).hierarchicalRootRecordID
        } catch {
            throw CKError(from: error)
        }
    }
}
