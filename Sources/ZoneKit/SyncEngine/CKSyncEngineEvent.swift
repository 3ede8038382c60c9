import Records
import SyncCore

extension CKSyncEngine {
    /// An event of a sync engine.
    public enum Event: Sendable, CustomStringConvertible {
        /// The engine's state has changed.
        ///
        /// Save it together with the data.
        case stateUpdate(StateUpdate)
        /// A user has signed in or out.
        case accountChange(AccountChange)
        /// Zones were created, changed or deleted on the relay.
        case fetchedDatabaseChanges(FetchedDatabaseChanges)
        /// Records were changed or deleted on the relay.
        case fetchedRecordZoneChanges(FetchedRecordZoneChanges)
        /// The results of sent zone changes.
        case sentDatabaseChanges(SentDatabaseChanges)
        /// The results of sent record changes.
        case sentRecordZoneChanges(SentRecordZoneChanges)
        /// A fetch starts.
        case willFetchChanges(WillFetchChanges)
        /// The fetch of one zone starts.
        case willFetchRecordZoneChanges(WillFetchRecordZoneChanges)
        /// The fetch of one zone has ended.
        case didFetchRecordZoneChanges(DidFetchRecordZoneChanges)
        /// A fetch has ended.
        case didFetchChanges(DidFetchChanges)
        /// A send starts.
        case willSendChanges(WillSendChanges)
        /// A send has ended.
        case didSendChanges(DidSendChanges)

        /// The state to save.
        public struct StateUpdate: Sendable {
            /// The state to pass to the configuration of the next engine.
            public let stateSerialization: State.Serialization
        }

        /// A change of the signed-in user.
        public struct AccountChange: Sendable {
            /// The kind of change.
            public enum ChangeType: Sendable, Hashable {
                /// A user has signed in, and no user was signed in before.
                case signIn(currentUser: CKRecord.ID)
                /// The user has signed out.
                case signOut(previousUser: CKRecord.ID)
                /// Another user has signed in.
                ///
                /// The engine discards the pending changes, which must never reach the new account.
                case switchAccounts(previousUser: CKRecord.ID, currentUser: CKRecord.ID)
            }

            /// The kind of change.
            public let changeType: ChangeType
        }

        /// Changes of zones, from the database's change feed.
        public struct FetchedDatabaseChanges: Sendable {
            /// Zones that were created or changed.
            public let modifications: [CKDatabase.DatabaseChange.Modification]
            /// Zones that were deleted.
            public let deletions: [CKDatabase.DatabaseChange.Deletion]
        }

        /// One page of a zone's change feed.
        public struct FetchedRecordZoneChanges: Sendable {
            /// Records that were created or changed, in their current version.
            public let modifications: [CKDatabase.RecordZoneChange.Modification]
            /// Records that were deleted.
            public let deletions: [CKDatabase.RecordZoneChange.Deletion]
        }

        /// The results of sent zone changes.
        public struct SentDatabaseChanges: Sendable {
            /// A zone that could not be saved.
            public struct FailedZoneSave: Sendable {
                /// The zone.
                public let zone: CKRecordZone
                /// The reason.
                public let error: CKError
            }

            /// The zones that were saved.
            public let savedZones: [CKRecordZone]
            /// The zones that could not be saved.
            public let failedZoneSaves: [FailedZoneSave]
            /// The zones that were deleted.
            public let deletedZoneIDs: [CKRecordZone.ID]
            /// The zones that could not be deleted, with the reasons.
            public let failedZoneDeletes: [CKRecordZone.ID: CKError]
        }

        /// The results of a sent batch of record changes.
        public struct SentRecordZoneChanges: Sendable {
            /// A record that could not be saved.
            public struct FailedRecordSave: Sendable {
                /// The record.
                public let record: CKRecord
                /// The reason.
                ///
                /// `serverRecordChanged` contains all three versions of the record.
                public let error: CKError
            }

            /// The records that were saved, with the relay's change tags.
            public let savedRecords: [CKRecord]
            /// The records that could not be saved.
            ///
            /// Changes that the engine retries are still pending. Other changes are pending only if the app adds them
            /// again.
            public let failedRecordSaves: [FailedRecordSave]
            /// The records that were deleted.
            public let deletedRecordIDs: [CKRecord.ID]
            /// The records that could not be deleted, with the reasons.
            public let failedRecordDeletes: [CKRecord.ID: CKError]
        }

        /// A fetch starts.
        public struct WillFetchChanges: Sendable {
            /// The reason for the fetch, and what it fetches.
            public let context: FetchChangesContext
        }

        /// The fetch of one zone starts.
        public struct WillFetchRecordZoneChanges: Sendable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
        }

        /// The fetch of one zone has ended.
        public struct DidFetchRecordZoneChanges: Sendable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
            /// The error that ended the fetch early, or `nil` if the fetch is complete.
            public let error: CKError?
            /// The names of all records in the zone, if this fetch listed the zone from its beginning.
            ///
            /// This is the case for the first fetch and after the change token has expired; otherwise `nil`. A listing
            /// contains no deletions: local records that are neither listed nor pending no longer exist.
            public let listedRecordIDs: Set<CKRecord.ID>?
        }

        /// A fetch has ended.
        public struct DidFetchChanges: Sendable {
            /// The reason for the fetch, and what it fetched.
            public let context: FetchChangesContext
        }

        /// A send starts.
        public struct WillSendChanges: Sendable {
            /// The reason for the send, and what it sends.
            public let context: SendChangesContext
        }

        /// A send has ended.
        public struct DidSendChanges: Sendable {
            /// The reason for the send, and what it sent.
            public let context: SendChangesContext
        }

        /// The kind of event and the number of items; contains no field values.
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
    init(changed: [ZoneID], deleted: [(zone: ZoneID, reason: ZoneDeletionReason)]) {
        modifications = changed.map { CKDatabase.DatabaseChange.Modification(zoneID: CKRecordZone.ID($0)) }
        deletions = deleted.map {
            CKDatabase.DatabaseChange.Deletion(zoneID: CKRecordZone.ID($0.zone), reason: .init($0.reason))
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

// Descriptions for logs. They contain kinds, counts and IDs, but no field values.

extension CKSyncEngine.Event.StateUpdate: CustomStringConvertible {
    /// The event's name.
    public var description: String { "stateUpdate" }
}

extension CKSyncEngine.Event.AccountChange: CustomStringConvertible {
    /// The kind of change.
    public var description: String { "accountChange(\(changeType))" }
}

extension CKSyncEngine.Event.FetchedDatabaseChanges: CustomStringConvertible {
    /// The numbers of changed and deleted zones.
    public var description: String {
        "fetchedDatabaseChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.FetchedRecordZoneChanges: CustomStringConvertible {
    /// The numbers of changed and deleted records.
    public var description: String {
        "fetchedRecordZoneChanges(\(modifications.count) changed, \(deletions.count) deleted)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges: CustomStringConvertible {
    /// The numbers of saved, deleted and failed zones.
    public var description: String {
        "sentDatabaseChanges(\(savedZones.count) saved, \(failedZoneSaves.count) failed, "
            + "\(deletedZoneIDs.count) deleted, \(failedZoneDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentDatabaseChanges.FailedZoneSave: CustomStringConvertible {
    /// The zone and the error code.
    public var description: String { "<FailedZoneSave: \(zone.zoneID), \(error.code)>" }
}

extension CKSyncEngine.Event.SentRecordZoneChanges: CustomStringConvertible {
    /// The numbers of saved, deleted and failed records.
    public var description: String {
        "sentRecordZoneChanges(\(savedRecords.count) saved, \(failedRecordSaves.count) failed, "
            + "\(deletedRecordIDs.count) deleted, \(failedRecordDeletes.count) failed)"
    }
}

extension CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave: CustomStringConvertible {
    /// The record and the error code.
    public var description: String { "<FailedRecordSave: \(record.recordID), \(error.code)>" }
}

extension CKSyncEngine.Event.WillFetchChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "willFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone.
    public var description: String { "willFetchRecordZoneChanges(\(zoneID))" }
}

extension CKSyncEngine.Event.DidFetchRecordZoneChanges: CustomStringConvertible {
    /// The zone, and the code of the error that ended its fetch early.
    public var description: String {
        "didFetchRecordZoneChanges(\(zoneID)" + (error.map { ", \($0.code)" } ?? "") + ")"
    }
}

extension CKSyncEngine.Event.DidFetchChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "didFetchChanges(\(context))" }
}

extension CKSyncEngine.Event.WillSendChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "willSendChanges(\(context))" }
}

extension CKSyncEngine.Event.DidSendChanges: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "didSendChanges(\(context))" }
}
