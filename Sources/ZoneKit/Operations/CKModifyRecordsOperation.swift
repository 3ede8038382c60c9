public import Foundation

/// Saves and deletes records.
open class CKModifyRecordsOperation: CKDatabaseOperation, @unchecked Sendable {
    /// What a save does when the relay has another version of the record.
    ///
    /// A `CKShare` is always saved with `ifServerRecordUnchanged`.
    public enum RecordSavePolicy: Int, Sendable {
        /// Refuse with `serverRecordChanged`; sends changed fields only.
        case ifServerRecordUnchanged = 0
        /// Write the changed fields over whatever is there.
        case changedKeys = 1
        /// Write all fields of the local copy over whatever is there; fields that only the relay has stay as they are.
        case allKeys = 2
    }

    /// What to save.
    open var recordsToSave: [CKRecord]?
    /// What to delete, whatever version the relay has.
    open var recordIDsToDelete: [CKRecord.ID]?
    /// What to do about records that were changed elsewhere.
    open var savePolicy = RecordSavePolicy.ifServerRecordUnchanged
    /// Kept for programs that set it; the relay has no use for it.
    open var clientChangeTokenData: Data?
    /// Whether a custom zone's changes stand or fall together.
    open var isAtomic = true

    /// Told how much of a record's files has been sent, from 0 to 1.
    @Block open var perRecordProgressBlock: ((CKRecord, Double) -> Void)?
    /// Told what became of each record to save; the older form of `perRecordSaveBlock`, not called where that is set.
    @Block open var perRecordCompletionBlock: ((CKRecord, (any Error)?) -> Void)?
    /// Told what became of each record to save.
    @Block open var perRecordSaveBlock: ((_ recordID: CKRecord.ID, _ saveResult: Result<CKRecord, any Error>) -> Void)?
    /// Told what became of each record to delete.
    @Block open var perRecordDeleteBlock: ((_ recordID: CKRecord.ID, _ deleteResult: Result<Void, any Error>) -> Void)?
    /// Told at the end what was saved and deleted, and `partialFailure` if something failed.
    @Block open var modifyRecordsCompletionBlock:
        ((_ savedRecords: [CKRecord]?, _ deletedRecordIDs: [CKRecord.ID]?, _ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    ///
    /// Where every item failed because its zone does not exist, this is `partialFailure` too.
    @Block open var modifyRecordsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that saves and deletes.
    ///
    /// - Parameters:
    ///   - recordsToSave: What to save.
    ///   - recordIDsToDelete: What to delete.
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
            // A cancellation that met the end of a request still is one.
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
