import Records
import SyncCore

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
        /// it has changes it does not list. An application that hands over the same for ever would keep the round going for
        /// ever, and the relay with it.
        func worthSending(_ items: [BatchItem], of contents: CKSyncEngine.State.Contents) -> [BatchItem] {
            items.filter { item in
                let isSentAlready = sentRecords.contains(item.id) && contents.outbox[item.id] == nil
                return !failedRecords.contains(item.id) && !heldZones.contains(item.id.zone)
                    && (!isSentAlready || contents.isUntracked)
            }
        }
    }
}
