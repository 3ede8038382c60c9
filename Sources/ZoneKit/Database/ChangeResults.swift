extension CKDatabase {
    /// The results of `databaseChanges(since:resultsLimit:)`.
    public enum DatabaseChange {
        /// A zone that was created, or whose contents have changed.
        public struct Modification: Sendable, Hashable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
        }

        /// A zone that was deleted.
        public struct Deletion: Sendable, Hashable {
            /// The reason for the deletion of a zone.
            public enum Reason: Sendable, Hashable {
                /// A user deleted the zone, or the current user has lost access to it.
                case deleted
                /// The user erased the app's data.
                case purged
                /// The user reset the encrypted data.
                ///
                /// Upload the local data again.
                case encryptedDataReset
            }

            /// The zone.
            public let zoneID: CKRecordZone.ID
            /// The reason for the deletion.
            public let reason: Reason
            /// Whether the user erased the app's data; the older form of `reason`.
            public var purged: Bool { reason == .purged }

            package init(zoneID: CKRecordZone.ID, reason: Reason) {
                self.zoneID = zoneID
                self.reason = reason
            }
        }
    }

    /// The results of `recordZoneChanges(inZoneWith:since:desiredKeys:resultsLimit:)`.
    public enum RecordZoneChange {
        /// A record that was created or changed, in its current version.
        public struct Modification: Sendable, Hashable {
            /// The record.
            public let record: CKRecord
        }

        /// A record that was deleted.
        public struct Deletion: Sendable, Hashable {
            /// The ID of the record.
            public let recordID: CKRecord.ID
            /// The record type; empty if the relay no longer knows it.
            public let recordType: CKRecord.RecordType
        }
    }
}
