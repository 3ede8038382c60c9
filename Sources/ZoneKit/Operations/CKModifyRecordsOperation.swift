public import Foundation

/// Saves and deletes records.
open class CKModifyRecordsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The behavior of a save if the relay has another version of the record.
    ///
    /// A `CKShare` is always saved with `ifServerRecordUnchanged`.
    public enum RecordSavePolicy: Int, Sendable {
        /// The save fails with `serverRecordChanged`.
        ///
        /// Only changed fields are sent.
        case ifServerRecordUnchanged = 0
        /// The changed fields overwrite the relay's values.
        case changedKeys = 1
        /// All fields of the local copy overwrite the relay's values; fields that only the relay's version has are
        /// unchanged.
        case allKeys = 2
    }

    /// The records to save.
    open var recordsToSave: [CKRecord]?
    /// The IDs of the records to delete, whatever their version on the relay is.
    open var recordIDsToDelete: [CKRecord.ID]?
    /// The behavior if the relay has another version of a record.
    open var savePolicy = RecordSavePolicy.ifServerRecordUnchanged
    /// Has no effect; it exists for source compatibility.
    open var clientChangeTokenData: Data?
    /// Whether the changes in each custom zone succeed or fail together.
    open var isAtomic = true

    /// Called with the upload progress of each record's files, from 0 to 1.
    @Block open var perRecordProgressBlock: ((CKRecord, Double) -> Void)?
    /// Called with the result of each save; the older form of `perRecordSaveBlock`.
    ///
    /// Not called if `perRecordSaveBlock` is set.
    @Block open var perRecordCompletionBlock: ((CKRecord, (any Error)?) -> Void)?
    /// Called with the result of each save.
    @Block open var perRecordSaveBlock: ((_ recordID: CKRecord.ID, _ saveResult: Result<CKRecord, any Error>) -> Void)?
    /// Called with the result of each deletion.
    @Block open var perRecordDeleteBlock: ((_ recordID: CKRecord.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Called at the end with the saved and deleted records, and with `partialFailure` if some changes failed.
    @Block open var modifyRecordsCompletionBlock:
        ((_ savedRecords: [CKRecord]?, _ deletedRecordIDs: [CKRecord.ID]?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var modifyRecordsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that saves and deletes records.
    ///
    /// - Parameters:
    ///   - recordsToSave: The records to save.
    ///   - recordIDsToDelete: The IDs of the records to delete.
    public convenience init(recordsToSave: [CKRecord]? = nil, recordIDsToDelete: [CKRecord.ID]? = nil) {
        self.init()
        self.recordsToSave = recordsToSave
        self.recordIDsToDelete = recordIDsToDelete
    }

    package override func perform() async {
        var saved: [CKRecord] = []
        var deleted: [CKRecord.ID] = []
        var errors: [AnyHashable: any Error] = [:]
        do {
            try requireNotCancelled()
            let database = resolvedDatabase
            try database.refuseRepeated(recordsToSave ?? [], recordIDsToDelete ?? [])
            try await database.modify(
                saving: recordsToSave ?? [],
                deleting: recordIDsToDelete ?? [],
                savePolicy: savePolicy,
                atomically: isAtomic
            ) { event in
                switch event {
                case .progress(let record, let share): perRecordProgressBlock?(record, share)
                case .saved(let record, let result): tell(record, result, &saved, &errors)
                case .deleted(let id, let result):
                    perRecordDeleteBlock?(id, result)
                    switch result {
                    case .success: deleted.append(id)
                    case .failure(let error): errors[id] = error
                    }
                }
            }
            // A cancellation that coincided with the end of a request still cancels the operation.
            if !errors.isEmpty { try requireNotCancelled() }
        } catch {
            modifyRecordsCompletionBlock?(saved.isEmpty ? nil : saved, deleted.isEmpty ? nil : deleted, error)
            modifyRecordsResultBlock?(.failure(error))
            return
        }
        let failure = errors.isEmpty ? nil : CKError.partialFailure(errors)
        modifyRecordsCompletionBlock?(saved, deleted, failure)
        modifyRecordsResultBlock?(
            CKError.operationResult(of: errors, anySucceeded: !saved.isEmpty || !deleted.isEmpty)
        )
    }

    private func tell(
        _ record: CKRecord,
        _ result: Result<CKRecord, any Error>,
        _ saved: inout [CKRecord],
        _ errors: inout [AnyHashable: any Error]
    ) {
        let olderBlock = perRecordSaveBlock == nil ? perRecordCompletionBlock : nil
        perRecordSaveBlock?(record.recordID, result)
        switch result {
        case .success(let record):
            olderBlock?(record, nil)
            saved.append(record)
        case .failure(let error):
            olderBlock?(record, error)
            errors[record.recordID] = error
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perRecordProgressBlock.letGo()
        _perRecordCompletionBlock.letGo()
        _perRecordSaveBlock.letGo()
        _perRecordDeleteBlock.letGo()
        _modifyRecordsCompletionBlock.letGo()
        _modifyRecordsResultBlock.letGo()
    }
}
