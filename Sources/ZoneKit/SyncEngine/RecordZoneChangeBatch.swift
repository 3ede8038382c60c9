import Records
import SyncCore
import Synchronization

extension CKSyncEngine {
    /// What an application hands over to be sent.
    public struct RecordZoneChangeBatch: Sendable {
        /// Records to save.
        public var recordsToSave: [CKRecord]
        /// Records to delete.
        public var recordIDsToDelete: [CKRecord.ID]
        /// Each zone's changes succeed or fail together, as far as they fit into one request.
        ///
        /// A batch of pending changes fits, and so do 400 changes of one zone; what the relay finds too large goes in several
        /// requests, each by itself.
        public var atomicByZone: Bool

        /// A batch of given changes, of any size.
        ///
        /// - Parameters:
        ///   - recordsToSave: Records to save.
        ///   - recordIDsToDelete: Records to delete.
        ///   - atomicByZone: Each zone's changes succeed or fail together.
        public init(
            recordsToSave: [CKRecord] = [],
            recordIDsToDelete: [CKRecord.ID] = [],
            atomicByZone: Bool = false
        ) {
            self.recordsToSave = recordsToSave
            self.recordIDsToDelete = recordIDsToDelete
            self.atomicByZone = atomicByZone
        }

        /// A batch of the first pending changes, as many as fit into one request; `nil` when there are none.
        ///
        /// - Parameters:
        ///   - pendingChanges: What is pending, in order.
        ///   - recordProvider: Gives the record of an address as it is to be saved; `nil` to leave it out.
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
                    // The first record goes whatever its size: only the relay can refuse it.
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
    /// Roughly how many bytes a save of this record is on the wire; never less.
    var sizeToSend: Int {
        state.withLock { state in
            let secret = (state.secrets?.edits ?? [:]).values.reduce(0) { size, edit in
                // Sealed and in base64, and its JSON inside.
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
        // Escaped, a character of text can be six bytes; hardly any text is like that.
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
