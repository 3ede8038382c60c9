import Records
import SyncCore
import Synchronization

extension CKSyncEngine {
    /// A batch of record changes to send.
    public struct RecordZoneChangeBatch: Sendable {
        /// The records to save.
        public var recordsToSave: [CKRecord]
        /// The IDs of the records to delete.
        public var recordIDsToDelete: [CKRecord.ID]
        /// Whether the changes in each zone succeed or fail together, as far as they fit into one request.
        ///
        /// A batch made from pending changes fits, and so do 400 changes in one zone. If the relay finds a request too
        /// large, the engine splits it, and each part is atomic by itself.
        public var atomicByZone: Bool

        /// Creates a batch of any size.
        ///
        /// - Parameters:
        ///   - recordsToSave: The records to save.
        ///   - recordIDsToDelete: The IDs of the records to delete.
        ///   - atomicByZone: Whether the changes in each zone succeed or fail together.
        public init(
            recordsToSave: [CKRecord] = [],
            recordIDsToDelete: [CKRecord.ID] = [],
            atomicByZone: Bool = false
        ) {
            self.recordsToSave = recordsToSave
            self.recordIDsToDelete = recordIDsToDelete
            self.atomicByZone = atomicByZone
        }

        /// Creates a batch of the first pending changes, as many as fit into one request.
        ///
        /// Returns `nil` if there are no changes.
        ///
        /// - Parameters:
        ///   - pendingChanges: The pending changes, in order.
        ///   - recordProvider: Returns the record with an ID in the version to save, or `nil` to skip it.
        public init?(
            pendingChanges: [PendingRecordZoneChange],
            recordProvider: @Sendable (CKRecord.ID) async -> CKRecord?
        ) async {
            let limits = BatchLimits()
            var saves: [CKRecord] = []
            var deletes: [CKRecord.ID] = []
            var bytes = 0
            for change in pendingChanges where saves.count + deletes.count < limits.operations {
                switch change {
                case .deleteRecord(let id): deletes.append(id)
                case .saveRecord(let id):
                    guard let record = await recordProvider(id) else { continue }
                    let size = record.sizeToSend
                    // The first record is always included; only the relay can refuse it for its size.
                    guard bytes == 0 || bytes + size <= limits.bytes else {
                        self.init(recordsToSave: saves, recordIDsToDelete: deletes)
                        return
                    }
                    bytes += size
                    saves.append(record)
                }
            }
            guard !saves.isEmpty || !deletes.isEmpty else { return nil }
            self.init(recordsToSave: saves, recordIDsToDelete: deletes)
        }
    }
}

extension CKRecord {
    /// An upper estimate of the record's size in a save request, in bytes.
    var sizeToSend: Int {
        state.withLock { state in
            let secret = (state.secrets?.edits ?? [:]).values.reduce(0) { size, edit in
                // The value is sealed and base64-encoded, with its JSON inside.
                size + 200 + (edit.value?.sizeOnTheWire ?? 0) * 4 / 3
            }
            return secret
                + state.edits.keys.reduce(200 + state.id.recordName.utf8.count) { size, name in
                    size + name.utf8.count + 40 + (state.fields[name]?.sizeOnTheWire ?? 0)
                }
        }
    }
}

extension FieldValue {
    fileprivate var sizeOnTheWire: Int {
        switch self {
        // An escaped character can take six bytes, but almost no text consists of such characters.
        case .string(let text): text.utf8.count + text.utf8.count / 8
        case .bytes(let bytes): bytes.count / 3 * 4 + 4
        case .int64, .double, .timestamp: 24
        case .reference(let reference): reference.recordName.utf8.count + 120
        case .location: 240
        case .asset: 400
        case .list(_, let elements): elements.reduce(0) { $0 + $1.sizeOnTheWire + 1 }
        }
    }
}
