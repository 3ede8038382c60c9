import Records
import SyncCore
import Synchronization

extension SyncDriver {
    /// What one round of sending has come to.
    struct Tally {
        var outcome = SyncSchedule.SendOutcome()
        var error: CKError?
        var failures: [AnyHashable: any Error] = [:]
        /// Not sent twice in one round: the application may put back at once what has just failed.
        var failedRecords: Set<RecordID> = []
        /// What the relay has taken in this round.
        var sentRecords: Set<RecordID> = []
        /// What was last handed over of each record while the application had changes that it does not list.
        private(set) var prints: [RecordID: Int] = [:]
        /// Nothing was said about them: they stay pending.
        var keptRecords: Set<RecordID> = []
        var keepsZones = false
        /// Zones that are busy: nothing more is sent to them in this round.
        var heldZones: Set<ZoneID>
        var changedZones: Set<ZoneID> = []
        /// The application was asked for everything, and had nothing (more), when what is pending was at this revision.
        var emptyAt: UInt64?

        /// Notes what is tried again later: a busy zone holds no other, everything else ends the round.
        mutating func retryLater(_ error: CKError, in zone: ZoneID? = nil) {
            if let zone, error.trouble.kind == .zoneBusy {
                heldZones.insert(zone)
                outcome.zoneTroubles[zone] = error.trouble
            } else {
                self.error = self.error ?? error
                outcome.trouble = self.error?.trouble
            }
        }

        /// Leaves out what is not to be sent, or not again.
        ///
        /// What the relay has taken in this round goes once more where it is pending again, or where the application says that
        /// it has changes it does not list, and this is one. An application that hands over the same for ever would keep the
        /// round going for ever, and the relay with it.
        mutating func worthSending(_ items: [BatchItem], of contents: CKSyncEngine.State.Contents) -> [BatchItem] {
            items.filter { item in
                guard !failedRecords.contains(item.id), !heldZones.contains(item.id.zone) else { return false }
                let isChanged = contents.isUntracked && isChanged(item)
                return !sentRecords.contains(item.id) || contents.outbox[item.id] != nil || isChanged
            }
        }

        /// Whether an item says something else than the one of its name that was handed over before.
        private mutating func isChanged(_ item: BatchItem) -> Bool {
            let print = item.record?.printOfEdits ?? 0
            defer { prints[item.id] = print }
            return prints[item.id] != print
        }
    }
}

extension CKRecord {
    /// The same for the same changes over the same values.
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
