import Records
import SyncCore

extension CKSyncEngine {
    /// Something that the application has to know, or may want to.
    public enum Event: Sendable, CustomStringConvertible {
        /// Keep the state, in the same place as the data.
        case stateUpdate(StateUpdate)
        /// Somebody signed in or out.
        case accountChange(AccountChange)
        /// Zones were created, changed or deleted on the relay.
        case fetchedDatabaseChanges(FetchedDatabaseChanges)
        /// Records were changed or deleted on the relay.
        case fetchedRecordZoneChanges(FetchedRecordZoneChanges)
        /// What became of zones that were sent.
        case sentDatabaseChanges(SentDatabaseChanges)
        /// What became of records that were sent.
        case sentRecordZoneChanges(SentRecordZoneChanges)
        /// A fetch begins.
        case willFetchChanges(WillFetchChanges)
        /// The fetch of one zone begins.
        case willFetchRecordZoneChanges(WillFetchRecordZoneChanges)
        /// The fetch of one zone has ended.
        case didFetchRecordZoneChanges(DidFetchRecordZoneChanges)
        /// A fetch has ended.
        case didFetchChanges(DidFetchChanges)
        /// A send begins.
        case willSendChanges(WillSendChanges)
        /// A send has ended.
        case didSendChanges(DidSendChanges)

        /// The state to keep.
        public struct StateUpdate: Sendable {
            /// To be given to the next engine's configuration.
            public let stateSerialization: State.Serialization
        }

        /// Who is signed in now.
        public struct AccountChange: Sendable {
            /// What has happened to the account.
            public enum ChangeType: Sendable, Hashable {
                /// Somebody is signed in, and nobody was before.
                case signIn(currentUser: CKRecord.ID)
                /// Nobody is signed in any longer.
                case signOut(previousUser: CKRecord.ID)
                /// Somebody else is signed in: what is pending is forgotten, and must never reach the new account.
                case switchAccounts(previousUser: CKRecord.ID, currentUser: CKRecord.ID)
            }

            /// What has happened.
            public let changeType: ChangeType
        }

        /// What the database's feed told.
        public struct FetchedDatabaseChanges: Sendable {
            /// Zones that are new or changed.
            public let modifications: [CKDatabase.DatabaseChange.Modification]
            /// Zones that are gone.
            public let deletions: [CKDatabase.DatabaseChange.Deletion]
        }

        /// One page of a zone's feed.
        public struct FetchedRecordZoneChanges: Sendable {
            /// Records that are new or changed, as they are now.
            public let modifications: [CKDatabase.RecordZoneChange.Modification]
            /// Records that are gone.
            public let deletions: [CKDatabase.RecordZoneChange.Deletion]
        }

        /// What became of zones that were sent.
        public struct SentDatabaseChanges: Sendable {
            /// A zone that could not be saved.
            public struct FailedZoneSave: Sendable {
                /// The zone.
                public let zone: CKRecordZone
                /// Why not.
                public let error: CKError
            }

            /// Saved.
            public let savedZones: [CKRecordZone]
            /// Not saved.
            public let failedZoneSaves: [FailedZoneSave]
            /// Deleted.
            public let deletedZoneIDs: [CKRecordZone.ID]
            /// Not deleted, and why not.
            public let failedZoneDeletes: [CKRecordZone.ID: CKError]
        }

        /// What became of a batch of records.
        public struct SentRecordZoneChanges: Sendable {
            /// A record that could not be saved.
            public struct FailedRecordSave: Sendable {
                /// The record.
                public let record: CKRecord
                /// Why not; with `serverRecordChanged`, all three versions.
                public let error: CKError
            }

            /// Saved, with the relay's change tags.
            public let savedRecords: [CKRecord]
            /// Not saved.
            ///
            /// What is tried again by itself is still pending; the rest is so only if it is added again.
            public let failedRecordSaves: [FailedRecordSave]
            /// Deleted.
            public let deletedRecordIDs: [CKRecord.ID]
            /// Not deleted, and why not.
            public let failedRecordDeletes: [CKRecord.ID: CKError]
        }

        /// A fetch begins.
        public struct WillFetchChanges: Sendable {
            /// Why it takes place, and what it fetches.
            public let context: FetchChangesContext
        }

        /// The fetch of one zone begins.
        public struct WillFetchRecordZoneChanges: Sendable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
        }

        /// The fetch of one zone has ended.
        public struct DidFetchRecordZoneChanges: Sendable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
            /// What ended it early; `nil` when it is complete.
            public let error: CKError?
            /// The records that the zone holds, where it was listed from its beginning.
            ///
            /// That is so at first, and after its change token was no longer served; `nil` after all other fetches.
            /// A listing names no deletions: what the application holds of the zone besides these, and has not pending, is gone.
            public let listedRecordIDs: Set<CKRecord.ID>?
        }

        /// A fetch has ended.
        public struct DidFetchChanges: Sendable {
            /// Why it took place, and what it fetched.
            public let context: FetchChangesContext
        }

        /// A send begins.
        public struct WillSendChanges: Sendable {
            /// Why it takes place, and what it sends.
            public let context: SendChangesContext
        }

        /// A send has ended.
        public struct DidSendChanges: Sendable {
            /// Why it took place, and what it sent.
            public let context: SendChangesContext
        }

        /// The kind of event, and how much it holds; no field values.
        public var description: String {
            switch self {
            case .stateUpdate: "stateUpdate"
            case .accountChange(let change): "accountChange(\(change.changeType))"
            case .fetchedDatabaseChanges(let event):
                "fetchedDatabaseChanges(\(event.modifications.count) changed, \(event.deletions.count) deleted)"
            case .fetchedRecordZoneChanges(let event):
                "fetchedRecordZoneChanges(\(event.modifications.count) changed, \(event.deletions.count) deleted)"
            case .sentDatabaseChanges(let event):
                "sentDatabaseChanges(\(event.savedZones.count) saved, \(event.failedZoneSaves.count) failed, "
                    + "\(event.deletedZoneIDs.count) deleted, \(event.failedZoneDeletes.count) failed)"
            case .sentRecordZoneChanges(let event):
                "sentRecordZoneChanges(\(event.savedRecords.count) saved, \(event.failedRecordSaves.count) failed, "
                    + "\(event.deletedRecordIDs.count) deleted, \(event.failedRecordDeletes.count) failed)"
            case .willFetchChanges: "willFetchChanges"
            case .willFetchRecordZoneChanges(let event): "willFetchRecordZoneChanges(\(event.zoneID.zoneName))"
            case .didFetchRecordZoneChanges(let event): "didFetchRecordZoneChanges(\(event.zoneID.zoneName))"
            case .didFetchChanges: "didFetchChanges"
            case .willSendChanges: "willSendChanges"
            case .didSendChanges: "didSendChanges"
            }
        }
    }
}

extension CKSyncEngine.Event.FetchedDatabaseChanges {
    init(changed: [ZoneID], deleted: [(zone: ZoneID, loss: ZoneLoss)]) {
        modifications = changed.map { CKDatabase.DatabaseChange.Modification(zoneID: CKRecordZone.ID($0)) }
        deletions = deleted.map {
            CKDatabase.DatabaseChange.Deletion(zoneID: CKRecordZone.ID($0.zone), reason: .init($0.loss))
        }
    }
}

extension CKSyncEngine.Event.FetchedRecordZoneChanges {
    init(_ page: ZonePage<CKRecord>) {
        modifications = page.changed.map { CKDatabase.RecordZoneChange.Modification(record: $0) }
        deletions = page.deleted.map {
            CKDatabase.RecordZoneChange.Deletion(recordID: CKRecord.ID($0.id), recordType: $0.type)
        }
    }
}
