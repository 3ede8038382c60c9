/// Where CloudKit keeps the words for saving; the operation itself is `CKDatabase.modifyRecords`.
public enum CKModifyRecordsOperation {
    /// What a save does when the relay has another version of the record.
    public enum RecordSavePolicy: Int, Sendable {
        /// Refuse with `serverRecordChanged`; sends changed fields only.
        case ifServerRecordUnchanged = 0
        /// Write the changed fields over whatever is there.
        case changedKeys = 1
        /// Write all fields over whatever is there; what the relay has besides them goes.
        case allKeys = 2
    }
}
