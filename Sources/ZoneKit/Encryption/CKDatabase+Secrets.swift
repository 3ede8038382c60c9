import Foundation
import Records
import SyncCore
import Synchronization

extension CKDatabase {
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
            } catch  where !error.trouble.isRetriedAutomatically {
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
