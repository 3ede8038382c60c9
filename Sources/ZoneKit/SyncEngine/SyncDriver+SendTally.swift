import Records
import SyncCore
import Synchronization

extension SyncDriver {
    /// The results of one round of sending.
    struct Tally {
        var outcome = SyncSchedule.SendOutcome()
        var error: CKError?
        var failures: [AnyHashable: any Error] = [:]
        /// Records that failed in this round and are not sent again in it, even if the app adds them again at once.
        var failedRecords: Set<RecordID> = []
        /// Records that the relay has accepted in this round.
        var sentRecords: Set<RecordID> = []
        /// A hash of each record's last content while the app had untracked changes.
        private(set) var prints: [RecordID: Int] = [:]
        /// Records whose requests never reached a decision of the relay; they stay pending.
        var keptRecords: Set<RecordID> = []
        var keepsZones = false
        /// Busy zones; nothing more is sent to them in this round.
        var heldZones: Set<ZoneID>
        var changedZones: Set<ZoneID> = []
        /// The revision of the state at which the app was asked for all changes and had none left.
        var emptyAt: UInt64?

        /// Adds an error after which the engine retries.
        ///
        /// A busy zone blocks only itself; any other error ends the round.
        mutating func retryLater(_ error: CKError, in zone: ZoneID? = nil) {
            if let zone, error.trouble.kind == .zoneBusy {
                heldZones.insert(zone)
                outcome.zoneTroubles[zone] = error.trouble
            } else {
                self.error = self.error ?? error
                outcome.trouble = self.error?.trouble
            }
        }

        /// Returns the items to send, without those that must not be sent in this round.
        ///
        /// A record that the relay has accepted in this round is sent again only if it is pending again, or if the app
        /// has untracked changes and its content differs from the last one. Otherwise an app that always returns the
        /// same batch would never let the round end.
        mutating func worthSending(_ items: [BatchItem], of contents: CKSyncEngine.State.Contents) -> [BatchItem] {
            items.filter { item in
                guard !failedRecords.contains(item.id), !heldZones.contains(item.id.zone) else { return false }
                let isChanged = contents.isUntracked && isChanged(item)
                return !sentRecords.contains(item.id) || contents.outbox[item.id] != nil || isChanged
            }
        }

        /// Returns whether the item's content differs from the last one with the same ID.
        private mutating func isChanged(_ item: BatchItem) -> Bool {
            let print = item.record?.printOfEdits ?? 0
            defer { prints[item.id] = print }
            return prints[item.id] != print
        }
    }
}

extension CKRecord {
    /// A hash of the record's changes; equal for equal changes of equal values.
    fileprivate var printOfEdits: Int {
        var hasher = Hasher()
        state.withLock { state in
            for (key, edit) in state.edits.sorted(by: { $0.key < $1.key }) {
                hasher.combine(key)
                hasher.combine(edit.original)
                hasher.combine(state.fields[key])
                for asset in state.assets[key] ?? [] { hasher.combine(asset.ownFile) }
            }
            for (key, edit) in (state.secrets?.edits ?? [:]).sorted(by: { $0.key < $1.key }) {
                hasher.combine(key)
                hasher.combine(edit.value)
            }
            if state.parentEdit != nil { hasher.combine(state.parent) }
        }
        guard let share = self as? CKShare else { return hasher.finalize() }
        hasher.combine(share.publicPermission)
        for participant in share.participants {
            hasher.combine(participant.participantID)
            hasher.combine(participant.permission)
            hasher.combine(participant.role)
        }
        return hasher.finalize()
    }
}
