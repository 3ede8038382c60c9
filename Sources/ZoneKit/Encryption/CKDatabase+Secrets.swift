import Foundation
import Records
import SyncCore
import Synchronization

extension CKDatabase {
    /// Encrypts what is to be encrypted of records, before they are sent.
    ///
    /// A record whose zone has no key for this user fails by itself; what would meet every request ends the call.
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
                // Without a provider the relay keeps the values as CloudKit does for standard accounts: it could read them.
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

    /// Opens the keys of the zones whose records have something encrypted.
    func openKeys(for records: some Sequence<CKRecord>) async throws(CKError) {
        var seen: Set<CKRecordZone.ID> = []
        for record in records where record.state.withLock({ $0.hasSealed }) {
            let zoneID = record.recordID.zoneID
            if seen.insert(zoneID).inserted { try await openKey(of: zoneID) }
        }
    }
}
