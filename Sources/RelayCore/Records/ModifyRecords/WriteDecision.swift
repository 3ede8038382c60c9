import Records
import Wire

extension ModifyRecords {
    /// The state while the operations of a write are decided one by one; nothing is written until all are decided.
    ///
    /// Noncopyable: it holds about twenty collections, so an accidental copy would be expensive.
    struct Decision: ~Copyable {
        var schema: Schema
        var before: [String: StoredRecord]
        var request: ModifyRecords
        private let writer: any StoreWriter
        /// The user, time and device of the write.
        let stamp: StoredRecord.Stamp
        /// The remaining storage of the zone's owner.
        var quota: QuotaLedger
        var grown: [String: RecordType] = [:]
        var outcomes: [Outcome] = []
        /// The records to write, each with the index of its outcome; `nil` for records that no operation names.
        var writes: [(outcome: Int?, record: StoredRecord)] = []
        /// The references of saved records that affect other records, by the index of the outcome.
        var enforcedReferences: [Int: [StoredReference]] = [:]
        var seen: Set<String> = []
        /// Whether there is only one operation, so that no record can occur twice.
        private let isAlone: Bool
        /// `nil` if sharing is not involved.
        var sharing: SharingState?
        /// The shares that this write creates, by the index of the outcome.
        var newShares: [Int: Share] = [:]
        /// Indexes of the deletions that take effect only in the caller's view.
        var viewOnlyDeletions: Set<Int> = []
        /// The cascading deletions; their records are read and written in parts.
        var cascadedDeletions: [CascadedDeletion] = []
        /// Those followers that are share roots or share records, without their fields.
        var sharedCascadedDeletions: [String: StoredRecord] = [:]
        let referenceCounter: ReferenceCounter
        /// The operations that are already completed, if this request is a repeat.
        var earlier: IdempotencyRecord?
        /// Returns whether a record exists outside the caller's view; `nil` if the caller sees the whole zone.
        var hides: ((String) throws(RelayError) -> Bool)?
        /// The names by which the caller knows records; empty except in some views of hierarchies.
        var aliases = RecordAliases()
        /// The aliases that this write adds.
        var newAliases: [NewAlias] = []
        /// The number of DELETE_SELF references examined for a participant who sees only a hierarchy.
        var resolvedReferences = 0
        /// Returns whether a record exists that the caller may not read; `nil` except in the public database.
        var isUnreadable: ((String) throws(RelayError) -> Bool)?

        init(
            schema: Schema,
            before: [String: StoredRecord],
            request: ModifyRecords,
            now: Timestamp,
            in writer: any StoreWriter,
            quota: consuming QuotaLedger,
            referenceCounter: ReferenceCounter
        ) {
            self.schema = schema
            self.referenceCounter = referenceCounter
            self.writer = writer
            self.quota = quota
            self.before = before
            self.request = request
            stamp = StoredRecord.Stamp(
                at: now,
                by: request.database.caller.user ?? Zone.publicOwner,
                device: DeviceFingerprint(deviceID: request.database.caller.deviceID)
            )
            let count = request.operations.count
            outcomes.reserveCapacity(count)
            writes.reserveCapacity(count)
            isAlone = count == 1
            if !isAlone { seen.reserveCapacity(count) }
        }

        var hasFailed: Bool { outcomes.contains(where: \.hasFailed) }

        /// The operations that were counted as freeing quota but free none, because they failed or the owner keeps the
        /// records.
        var operationsWronglyFreeingQuota: Set<Int> {
            guard !quota.operationsFreeingQuota.isEmpty else { return [] }
            return quota.operationsFreeingQuota.filter { outcomes[$0].hasFailed || viewOnlyDeletions.contains($0) }
        }

        mutating func decide(_ operation: Operation) {
            let stored = before[operation.name].flatMap { $0.isDeleted ? nil : $0 }
            let isHidden = if let stored { isHidden(stored) } else { false }
            let current = isHidden ? nil : stored
            if let earlier, earlier.contains(outcomes.count) { return repeated(operation, current) }
            do throws(RelayError) {
                try check(operation, against: current)
                if isHidden, !operation.kind.isDelete { throw .accessDenied }
                if (current?.type ?? operation.record.recordType) == Share.recordType {
                    try decideShare(operation, over: current)
                } else {
                    operation.kind.isDelete ? delete(operation, current) : try save(operation, over: current)
                }
            } catch {
                let isConflict = error.code == .conflict
                outcomes.append(.failed(name: operation.name, error, server: isConflict ? current : nil))
            }
        }

        /// Returns whether the caller must not learn that the record exists.
        ///
        /// A caller who tries to create a record of this name learns it anyway.
        private func isHidden(_ record: StoredRecord) -> Bool {
            if sharing?.permission(record.name) == Share.Permission.none { return true }
            guard request.database.scope == .public else { return false }
            return !request.database.rights(to: record, in: schema).contains(.read)
        }

        /// Checks everything that does not depend on the fields: name, zone, existence, change tag and rights.
        private mutating func check(_ operation: Operation, against current: StoredRecord?) throws(RelayError) {
            let kind = operation.kind
            if let fault = operation.record.fault { throw .badRequest(fault) }
            guard NameRules.isRecordName(operation.name) else {
                throw .badRequest("Record names are 1 to 255 ASCII characters.")
            }
            guard isAlone || seen.insert(operation.name).inserted else {
                throw .badRequest("A request may contain only one operation for each record.")
            }
            if let zone = operation.record.zone, try request.database.zone(zone) != request.zone {
                throw .anotherZone
            }
            if let zone = operation.record.parentZone, try request.database.zone(zone) != request.zone {
                throw .parentElsewhere
            }
            if let zone = operation.record.share?.rootZone, try request.database.zone(zone) != request.zone {
                throw .parentElsewhere
            }
            if kind.needsChangeTag, operation.record.changeTag == nil {
                throw .badRequest("recordChangeTag is required")
            }
            if operation.record.recordType == RecordType.usersName || current?.type == RecordType.usersName {
                guard current != nil, !kind.isDelete else { throw .accessDenied }
            }
            if operation.record.createsShortGUID { try checkSharing() }
            guard let current else {
                if kind.needsChangeTag { throw .recordNotFound }
                if kind.isDelete { return }
                guard let type = operation.record.recordType else { throw .typeNeeded }
                guard operation.name != Share.zoneWideName || type == Share.recordType else { throw .nameOfShare }
                return try checkCreation(ofType: type)
            }
            let rights = sharedRights(to: current, by: operation) ?? request.database.rights(to: current, in: schema)
            guard rights.contains(.write) else {
                // A caller with the right to create records of the type learns that a record of this name exists.
                if kind == .create, mayCreate(current.type) { throw .recordExists }
                throw .accessDenied
            }
            if kind == .create { throw .recordExists }
            if kind.needsChangeTag, Self.comparesChangeTags, operation.record.changeTag != current.changeTag {
                throw RelayError(.conflict, "client oplock error \(kind.isDelete ? "deleting" : "updating") record")
            }
        }

        private func mayCreate(_ type: String) -> Bool {
            guard request.database.scope == .public, type != RecordType.usersName else { return false }
            return request.database.rights(toType: schema.types[type] ?? RecordType(), in: schema).contains(.create)
        }

        private func checkCreation(ofType name: String) throws(RelayError) {
            if let view = sharing?.zone.view, !view.shares.contains(where: { $0.permission == .readWrite }) {
                throw .accessDenied
            }
            guard request.database.scope == .public else { return }
            let type = schema.types[name] ?? RecordType()
            guard request.database.rights(toType: type, in: schema).contains(.create) else { throw .accessDenied }
        }

        mutating func delete(_ operation: Operation, _ current: StoredRecord?) {
            if let current {
                quota.delete(current, at: outcomes.count)
                writes.append((outcomes.count, tombstone(of: current)))
            }
            outcomes.append(.deleted(name: operation.name, type: current?.type))
        }

        func tombstone(of record: StoredRecord) -> StoredRecord {
            let modified = stamp.later(than: record)
            var record = record
            record.update {
                $0.isDeleted = true
                $0.fields = FieldsJSON.empty
                $0.parent = nil
                $0.share = nil
                $0.sharing = nil
                $0.modified = modified
            }
            return record
        }

        mutating func save(_ operation: Operation, over current: StoredRecord?) throws(RelayError) {
            guard let type = current?.type ?? operation.record.recordType else { throw .typeNeeded }
            if let given = operation.record.recordType, given != type {
                throw .badRequest("The record is of another type than '\(given.prefix(64))'.")
            }
            var prepared = try preparation(of: operation, type: type)
            if let growth = prepared.fields.growth { try schema.checkGrowth(growth, of: type, request.rules.limits) }
            if hides != nil {
                var fields = prepared.fields
                try resolveReferenceNames(of: &fields, over: current)
                prepared = PreparedFields(fields)
            }
            let bringsAssets = !prepared.fields.freshAssets.isEmpty || !prepared.fields.unprovenAssets.isEmpty
            if bringsAssets { try checkAssets(prepared.fields, over: current) }
            let fields =
                try current.flatMap { record throws(RelayError) in
                    operation.kind.mergesFields ? try merge(prepared.fields, into: record) : nil
                } ?? prepared.fields.text.bytes
            let most = request.rules.limits.recordBytes
            guard fields.count <= most || FieldsJSON.contentBytes(of: fields) <= most else {
                throw .tooLarge("The record is larger than \(most) bytes.")
            }
            let stamp = stamp.later(than: before[operation.name])
            let keepsParent = (operation.kind.mergesFields && operation.record.parent == nil) || keepsParent(current)
            let record = StoredRecord(
                name: operation.name,
                type: type,
                change: 0,
                created: current?.created ?? stamp,
                modified: stamp,
                parent: keepsParent ? current?.parent : operation.record.parent ?? nil,
                share: current?.share ?? newLink(for: operation),
                fields: fields
            )
            try quota.save(record, over: current, bringsAssets: bringsAssets, at: outcomes.count)
            try collectReferences(of: operation, prepared)
            if let growth = prepared.fields.growth {
                schema.types[type] = growth
                grown[type] = growth
            }
            writes.append((outcomes.count, record))
            outcomes.append(.saved(record))
        }

        private mutating func collectReferences(
            of operation: Operation,
            _ prepared: PreparedFields
        ) throws(RelayError) {
            let parent = operation.record.parent ?? nil
            guard parent != nil || !prepared.fields.references.isEmpty else { return }
            var said = prepared.fields.references.compactMap { StoredReference($1, from: operation.name, field: $0) }
            if let parent {
                guard !request.zone.isDefault else { throw .badRequest("Only records of a custom zone have a parent.") }
                guard parent != operation.name, NameRules.isRecordName(parent) else {
                    throw .badRequest("The parent has to be another record, named by 1 to 255 ASCII characters.")
                }
                said.append(.parent(parent, of: operation.name))
            }
            enforcedReferences[outcomes.count] = said
        }

        /// Checks that each asset is stored, and that an asset without a receipt is already in the field.
        private func checkAssets(
            _ prepared: FieldPreparation,
            over current: StoredRecord?
        ) throws(RelayError) {
            for (_, entry) in prepared.links {
                for asset in entry.value.assets {
                    guard let hash = AssetHash(checksum: asset.fileChecksum), writer.hasAsset(hash) else {
                        throw .assetRefused(entry.name)
                    }
                }
            }
            guard !prepared.unprovenAssets.isEmpty else { return }
            let fields = Set(prepared.unprovenAssets.map(\.field))
            let stored = (current?.fields).flatMap { try? FieldsJSON.values(of: fields, in: $0) } ?? [:]
            for (field, asset) in prepared.unprovenAssets {
                let isStored = (stored[field]?.assets ?? []).contains {
                    $0.fileChecksum == asset.fileChecksum && $0.size == asset.size
                }
                guard isStored else { throw .assetRefused(field) }
            }
        }

        /// Returns the fields as prepared in advance if the schema has not changed, otherwise prepares them again.
        func preparation(of operation: Operation, type: String) throws(RelayError) -> PreparedFields {
            if let prepared = operation.prepared, prepared.fields.growth == nil, grown.isEmpty,
                request.schemaVersion == schema.version
            {
                return prepared
            }
            return PreparedFields(
                try FieldPreparation(
                    operation.record,
                    ofType: CompiledRecordType(type, in: schema),
                    in: request.zone,
                    of: request.database,
                    rules: request.rules
                )
            )
        }

        private func merge(_ prepared: FieldPreparation, into record: StoredRecord) throws(RelayError) -> [UInt8] {
            do {
                return try FieldsJSON.merge(prepared.text, clearing: prepared.cleared, into: record.fields)
            } catch {
                throw RelayError(
                    .internalError,
                    "A stored record could not be read; the operator should check the store."
                )
            }
        }

        /// Returns the outcomes of a failed atomic request: failed operations keep their own errors.
        func atomicFailureOutcomes() -> [Outcome] {
            zip(request.operations, outcomes).map { operation, outcome in
                guard outcome.error == nil else { return outcome }
                let error = RelayError(.atomicError, "Another operation of this atomic request failed.")
                return .failed(name: operation.name, error, server: nil)
            }
        }

        /// Assigns change numbers to the records and writes them; saved outcomes then contain the numbers.
        ///
        /// All checks have passed before, so nothing of a rejected request is written.
        mutating func write(to writer: any StoreWriter, zone: Zone) throws(RelayError) {
            guard !writes.isEmpty else { return }
            if !grown.isEmpty { try writer.define(grown) }
            for alias in newAliases {
                guard let share = alias.share else { continue }
                try writer.show(alias.kept, as: alias.shown, in: share, of: zone)
            }
            try writeCascadedDeletions(to: writer, zone)
            var records: [StoredRecord] = []
            records.reserveCapacity(writes.count)
            for place in writes.indices {
                let index = writes[place].outcome
                if let index, case .failed = outcomes[index] { continue }
                writes[place].record.change = writer.takeChangeNumber()
                records.append(writes[place].record)
                if let index, case .saved = outcomes[index] { outcomes[index] = .saved(writes[place].record) }
            }
            try writer.put(records, replacing: before, in: zone, by: request.database.caller.deviceID)
        }
    }
}

extension RelayError {
    fileprivate static let typeNeeded = RelayError.badRequest("recordType is required to create a record.")
}

extension Schema {
    /// Throws if just-in-time growth would exceed the limits: schemas are held in memory, and programs can invent any
    /// name.
    fileprivate func checkGrowth(_ type: RecordType, of name: String, _ limits: Limits) throws(RelayError) {
        let others = types.reduce(0) { $0 + ($1.key == name ? 0 : $1.value.fields.count) }
        let isNew = types[name] == nil
        guard others + type.fields.count <= limits.grownFields, !isNew || types.count < limits.grownTypes else {
            throw RelayError(
                .badRequest,
                "Saving can grow a schema to at most \(limits.grownTypes) record types and \(limits.grownFields) fields. "
                    + "Use 'zonecast schema import' for more.",
                fineCode: .limitExceeded
            )
        }
    }
}
