import Records
import SyncCore

/// One change in a batch.
struct BatchItem: Sendable {
    var id: RecordID
    /// `nil` for a deletion.
    var record: CKRecord?
    var size: Int

    static func items(of batch: CKSyncEngine.RecordZoneChangeBatch) -> [BatchItem] {
        batch.recordsToSave.map { BatchItem(id: $0.recordID.record, record: $0, size: $0.sizeToSend) }
            + batch.recordIDsToDelete.map { BatchItem(id: $0.record, record: nil, size: $0.recordName.utf8.count + 60) }
    }
}

extension [BatchItem] {
    /// The zones of the items, in the order of their first occurrence.
    var uniqueZones: [ZoneID] {
        var seen: Set<ZoneID> = []
        return map(\.id.zone).filter { seen.insert($0).inserted }
    }

    /// Returns the items in an order in which each item follows the items it refers to.
    fileprivate func targetsFirst() -> [BatchItem] {
        let saves = filter { $0.record != nil }
        let places = Dictionary(saves.map { ($0.id, $0) }) { first, _ in first }
        guard places.count == saves.count else { return self }
        let order = ModifyItem.items(
            saving: saves.compactMap(\.record).map(Draft.init),
            deleting: [],
            .ifServerRecordUnchanged
        )
        return order.targetsFirst().compactMap { places[$0.id.record] } + filter { $0.record == nil }
    }
}

extension BatchLimits {
    /// Splits one zone's changes into requests.
    ///
    /// Within a request the relay accepts changes in any order. If there are several requests, parents and shared
    /// records must be sent before the records that refer to them.
    func requests(of items: [BatchItem]) -> [[BatchItem]] {
        let requests = cut(items, size: \.size)
        return requests.count > 1 ? cut(items.targetsFirst(), size: \.size) : requests
    }
}

/// The result of a batch, collected from the results of its requests.
struct SentBatch {
    private(set) var results: [(id: RecordID, error: CKError?)] = []
    private var saved: [CKRecord] = []
    private var failedSaves: [CKSyncEngine.Event.SentRecordZoneChanges.FailedRecordSave] = []
    private var deleted: [CKRecord.ID] = []
    private var failedDeletes: [CKRecord.ID: CKError] = [:]

    var event: CKSyncEngine.Event.SentRecordZoneChanges {
        .init(
            savedRecords: saved,
            failedRecordSaves: failedSaves,
            deletedRecordIDs: deleted,
            failedRecordDeletes: failedDeletes
        )
    }

    mutating func take(_ request: [BatchItem], _ answer: RecordsAnswer<CKRecord>) {
        for item in request {
            if let record = item.record {
                switch answer.saved[item.id] ?? .failure(CKError(.internalError)) {
                case .success(let record):
                    saved.append(record)
                    results.append((item.id, nil))
                case .failure(let error): fail(item, record, CKError(from: error))
                }
            } else {
                switch answer.deleted[item.id] ?? .success(()) {
                case .success:
                    deleted.append(CKRecord.ID(item.id))
                    results.append((item.id, nil))
                case .failure(let error): fail(item, nil, CKError(from: error))
                }
            }
        }
    }

    mutating func fail(_ request: [BatchItem], _ error: CKError) {
        for item in request { fail(item, item.record, error) }
    }

    private mutating func fail(_ item: BatchItem, _ record: CKRecord?, _ error: CKError) {
        results.append((item.id, error))
        if let record {
            failedSaves.append(.init(record: record, error: error))
        } else {
            failedDeletes[CKRecord.ID(item.id)] = error
        }
    }
}
