extension CKDatabase {
    /// The words for what `databaseChanges(since:resultsLimit:)` found.
    public enum DatabaseChange {
        /// A zone in which something changed, or that is new.
        public struct Modification: Sendable, Hashable {
            /// The zone.
            public let zoneID: CKRecordZone.ID
        }

        /// A zone that is gone.
        public struct Deletion: Sendable, Hashable {
            /// Why a zone is gone.
            public enum Reason: Sendable, Hashable {
                /// Somebody deleted it, or access to it has ended.
                case deleted
                /// The user erased the application's data.
                case purged
                /// The user reset the key of their encrypted data: upload it again.
                case encryptedDataReset
            }

            /// The zone.
            public let zoneID: CKRecordZone.ID
            /// Why it is gone.
            public let reason: Reason
            /// Whether the user erased the application's data; the older form of `reason`.
            public var purged: Bool { reason == .purged }

            package init(zoneID: CKRecordZone.ID, reason: Reason) {
                self.zoneID = zoneID
                self.reason = reason
            }
        }
    }

    /// The words for what `recordZoneChanges(inZoneWith:since:desiredKeys:resultsLimit:)` found.
    public enum RecordZoneChange {
        /// A record that is new or changed, as it is now.
        public struct Modification: Sendable, Hashable {
            /// The record.
            public let record: CKRecord
        }

        /// A record that is gone.
        public struct Deletion: Sendable, Hashable {
            /// The record's address.
            public let recordID: CKRecord.ID
            /// What kind it was; empty when the relay does not remember.
            public let recordType: CKRecord.RecordType
        }
    }
}
