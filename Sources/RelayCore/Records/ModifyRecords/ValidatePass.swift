import Records
import Wire

/// The first pass: validation.
///
/// Each operation is judged alone: its names, types, rights, change tag, fields and quota. See Writes.md, "Validate".
extension ModifyRecords {
    /// The operations after validation, and what they would write.
    struct Validated {
        /// The request, with names of its own for records whose names are taken; see ParticipantViews.md.
        let request: ModifyRecords
        /// One per operation.
        let outcomes: [Outcome]
        let writes: [Change]
        /// The references of saved records that affect other records, by the index of the outcome.
        let references: [Int: [StoredReference]]
        /// The shares that this write creates, by the index of the outcome.
        let newShares: [Int: Share]
        /// The schema with the types that just-in-time growth extends, and these types.
        let schema: Schema
        let growth: [String: RecordType]
        /// The names by which the caller knows records; empty except in some views of hierarchies.
        let aliases: RecordAliases
        /// The aliases that this write adds.
        let newAliases: [NewAlias]
        /// The operations that were counted as freeing quota.
        let freeingQuota: Set<Int>
        let unread: Unread
        /// The operations that later passes have refused.
        private(set) var refused: [Int: RelayError] = [:]

        func isLive(_ outcome: Int) -> Bool { !outcomes[outcome].hasFailed && refused[outcome] == nil }

        func isLive(_ change: Change) -> Bool { change.outcome.map { isLive($0) } ?? true }

        var hasFailed: Bool { !refused.isEmpty || outcomes.contains(where: \.hasFailed) }

        mutating func refuse(_ outcome: Int, _ error: RelayError) { refused[outcome] = error }

        mutating func refuse(_ others: [Int: RelayError]) { refused.merge(others) { first, _ in first } }
    }

    /// Judges each operation of the request alone.
    ///
    /// `operationsNotFreeingQuota` are indexes of operations that must not be counted as freeing quota.
    static func validate(
        _ request: ModifyRecords,
        over before: StateBefore,
        operationsNotFreeingQuota: Set<Int>
    ) -> Validated {
        var validation = Validation(request, over: before, operationsNotFreeingQuota)
        for operation in validation.request.operations { validation.decide(operation) }
        return validation.result
    }

    /// The state while the operations of a write are judged one by one.
    ///
    /// Noncopyable: it holds about ten collections, so an accidental copy would be expensive.
    struct Validation: ~Copyable {
        var request: ModifyRecords
        let before: StateBefore
        private var schema: Schema
        private var growth: [String: RecordType] = [:]
        /// The remaining storage of the zone's owner.
        private var quota: QuotaLedger
        var outcomes: [Outcome] = []
        private var writes: [Change] = []
        private var references: [Int: [StoredReference]] = [:]
        private var newShares: [Int: Share] = [:]
        private var seen: Set<String> = []
        /// Whether there is only one operation, so that no record can occur twice.
        private let isAlone: Bool
        var aliases = RecordAliases()
        var newAliases: [NewAlias] = []
        /// The number of DELETE_SELF references examined for a participant who sees only a hierarchy.
        var resolvedReferences = 0
        var unread = Unread()

        init(_ request: ModifyRecords, over before: StateBefore, _ operationsNotFreeingQuota: Set<Int>) {
            self.request = request
            self.before = before
            schema = before.schema
            quota = QuotaLedger(before.room, assetUses: before.assetUses, operationsNotFreeingQuota)
            let count = request.operations.count
            outcomes.reserveCapacity(count)
            writes.reserveCapacity(count)
            isAlone = count == 1
            if !isAlone { seen.reserveCapacity(count) }
            guard before.sight == .hierarchies, let view = before.zone.view else { return }
            aliases = view.aliases
            avoidTakenNames()
        }

        var result: Validated {
            var unread = unread
            unread.assetUses = quota.unread
            return Validated(
                request: request,
                outcomes: outcomes,
                writes: writes,
                references: references,
                newShares: newShares,
                schema: schema,
                growth: growth,
                aliases: aliases,
                newAliases: newAliases,
                freeingQuota: quota.operationsFreeingQuota,
                unread: unread
            )
        }

        fileprivate mutating func decide(_ operation: Operation) {
            let stored = before.records[operation.name].flatMap { $0.isDeleted ? nil : $0 }
            let isHidden = if let stored { isHidden(stored) } else { false }
            let current = isHidden ? nil : stored
            if let earlier = before.earlier, earlier.contains(outcomes.count) { return repeated(operation, current) }
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

        /// Appends the outcome of an operation that an earlier request has completed: the current state of its record.
        private mutating func repeated(_ operation: Operation, _ current: StoredRecord?) {
            seen.insert(operation.name)
            if operation.kind.isDelete {
                outcomes.append(.deleted(name: operation.name, type: nil))
            } else if let current {
                outcomes.append(.saved(current))
            } else {
                let deleted = RelayError(
                    .notFound,
                    "The record was saved by this operation and has been deleted since."
                )
                outcomes.append(.failed(name: operation.name, deleted, server: nil))
            }
        }

        /// Returns whether the caller must not learn that the record exists.
        ///
        /// A caller who tries to create a record of this name learns it anyway.
        private func isHidden(_ record: StoredRecord) -> Bool {
            if before.sharing?.permission(record.name) == Share.Permission.none { return true }
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
            if kind.needsChangeTag, ModifyRecords.comparesChangeTags, operation.record.changeTag != current.changeTag {
                throw RelayError(.conflict, "client oplock error \(kind.isDelete ? "deleting" : "updating") record")
            }
        }

        private func mayCreate(_ type: String) -> Bool {
            guard request.database.scope == .public, type != RecordType.usersName else { return false }
            return request.database.rights(toType: schema.types[type] ?? RecordType(), in: schema).contains(.create)
        }

        private func checkCreation(ofType name: String) throws(RelayError) {
            if let view = before.sharing?.zone.view, !view.shares.contains(where: { $0.permission == .readWrite }) {
                throw .accessDenied
            }
            guard request.database.scope == .public else { return }
            let type = schema.types[name] ?? RecordType()
            guard request.database.rights(toType: type, in: schema).contains(.create) else { throw .accessDenied }
        }

        private mutating func delete(_ operation: Operation, _ current: StoredRecord?) {
            if let current {
                quota.delete(current, at: outcomes.count)
                writes.append(Change(outcome: outcomes.count, record: current.tombstone(before.stamp)))
            }
            outcomes.append(.deleted(name: operation.name, type: current?.type))
        }

        private mutating func save(_ operation: Operation, over current: StoredRecord?) throws(RelayError) {
            guard let type = current?.type ?? operation.record.recordType else { throw .typeNeeded }
            if let given = operation.record.recordType, given != type {
                throw .badRequest("The record is of another type than '\(given.prefix(64))'.")
            }
            var prepared = try preparation(of: operation, type: type)
            if let growth = prepared.fields.growth { try schema.checkGrowth(growth, of: type, request.rules.limits) }
            if before.sight == .hierarchies {
                var fields = prepared.fields
                try resolveReferenceNames(of: &fields, over: current)
                prepared = PreparedFields(fields)
            }
            let bringsAssets = prepared.fields.bringsAssets
            if bringsAssets { try checkAssets(prepared.fields, over: current) }
            let fields =
                try current.flatMap { record throws(RelayError) in
                    operation.kind.mergesFields ? try merge(prepared.fields, into: record) : nil
                } ?? prepared.fields.text.bytes
            let most = request.rules.limits.recordBytes
            guard fields.count <= most || FieldsJSON.contentBytes(of: fields) <= most else {
                throw .tooLarge("The record is larger than \(most) bytes.")
            }
            let stamp = before.stamp.later(than: before.records[operation.name])
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
                self.growth[type] = growth
            }
            writes.append(Change(outcome: outcomes.count, record: record))
            outcomes.append(.saved(record))
        }

        private mutating func collectReferences(
            of operation: Operation,
            _ prepared: PreparedFields
        ) throws(RelayError) {
            let parent = operation.record.parent ?? nil
            guard parent != nil || !prepared.fields.references.isEmpty else { return }
            var enforced = prepared.fields.references.compactMap {
                StoredReference($1, from: operation.name, field: $0)
            }
            if let parent {
                guard !request.zone.isDefault else { throw .badRequest("Only records of a custom zone have a parent.") }
                guard parent != operation.name, NameRules.isRecordName(parent) else {
                    throw .badRequest("The parent has to be another record, named by 1 to 255 ASCII characters.")
                }
                enforced.append(.parent(parent, of: operation.name))
            }
            references[outcomes.count] = enforced
        }

        /// Checks that each asset is stored, and that an asset without a receipt is already in the field.
        private mutating func checkAssets(
            _ prepared: FieldPreparation,
            over current: StoredRecord?
        ) throws(RelayError) {
            for (_, entry) in prepared.links {
                for asset in entry.value.assets {
                    guard let hash = AssetHash(checksum: asset.fileChecksum), isStored(hash) else {
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

        private mutating func isStored(_ hash: AssetHash) -> Bool {
            if let known = before.hasAsset[hash] { return known }
            unread.assets.insert(hash)
            return true
        }

        /// Returns the fields as prepared in advance if the schema has not changed, otherwise prepares them again.
        private func preparation(of operation: Operation, type: String) throws(RelayError) -> PreparedFields {
            if let prepared = operation.prepared, prepared.fields.growth == nil, growth.isEmpty,
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

        // MARK: Shares

        /// Throws if records cannot be shared in this database or zone.
        ///
        /// See Errors.md, "Database scopes".
        private func checkSharing() throws(RelayError) {
            switch request.database.scope {
            case .public: throw .badRequest("Records of the public database cannot be shared.")
            case .shared: throw .accessDenied
            case .private:
                guard !request.zone.isDefault else {
                    throw .badRequest("Records of the default zone cannot be shared. Move them to a zone of their own.")
                }
            }
        }

        /// Returns a participant's rights to a record; `nil` in other databases.
        ///
        /// Every participant may delete the share's record: that is how a participant leaves a share.
        private func sharedRights(to record: StoredRecord, by operation: Operation) -> Rights? {
            guard before.sharing?.zone.view != nil else { return nil }
            if record.isShare {
                return operation.kind.isDelete || isAdministrator(of: record) ? [.read, .write] : .read
            }
            // Deleting the root would end the share, which only the owner may do.
            if operation.kind.isDelete, record.shareReference?.record != nil { return .read }
            return before.sharing?.permission(record.name) == .readWrite ? [.read, .create, .write] : .read
        }

        /// Whether the caller is an administrator of the share.
        private func isAdministrator(of record: StoredRecord) -> Bool {
            guard let user = request.database.caller.user, let own = record.sharing?.participant(user) else {
                return false
            }
            return own.role == .administrator && own.hasAccepted
        }

        /// Returns whether the record's parent stays unchanged: a participant cannot see or move what is above the root.
        private func keepsParent(_ record: StoredRecord?) -> Bool {
            before.sharing?.zone.view != nil && record?.shareReference?.record != nil
        }

        private func newLink(for operation: Operation) -> String? {
            guard operation.record.createsShortGUID, let edit = request.shareEdit else { return nil }
            return ShareReference(shortGUID: edit.newID()).text
        }

        // MARK: Operations on share records

        private mutating func decideShare(
            _ operation: Operation,
            over current: StoredRecord?
        ) throws(RelayError) {
            guard operation.kind.isDelete else { return try saveShare(operation, over: current) }
            guard request.database.scope == .shared, var record = current, let user = request.database.caller.user
            else {
                return delete(operation, current)
            }
            record.sharing?.participants.removeAll { $0.user == user }
            record.modified = before.stamp
            writes.append(Change(outcome: nil, record: record))
            outcomes.append(.deleted(name: operation.name, type: record.type))
        }

        private mutating func saveShare(
            _ operation: Operation,
            over current: StoredRecord?
        ) throws(RelayError) {
            if current.map({ !isAdministrator(of: $0) }) ?? true { try checkSharing() }
            guard let edit = request.shareEdit else { throw .accessDenied }
            let place = outcomes.count
            let share: Share
            if let known = current?.sharing {
                share = try edit.update(known, operation.record.share ?? ShareInput())
            } else {
                share = try newShare(operation, edit)
            }
            try save(operation, over: current)
            guard var record = writes.last?.record else { return }
            record.sharing = share
            record.shareReference = ShareReference(shortGUID: share.shortGUID, record: record.name)
            writes[writes.count - 1].record = record
            outcomes[place] = .saved(record)
            if current == nil { newShares[place] = share }
        }

        private func newShare(_ operation: Operation, _ edit: ShareEdit) throws(RelayError) -> Share {
            let input = operation.record.share ?? ShareInput()
            guard let root = input.root else {
                guard operation.name == Share.zoneWideName else { throw .nothingToShare }
                guard before.sharing?.zone.sharing != .hierarchies, newShares.isEmpty else { throw .alreadyShared }
                return try edit.make(input, root: nil, shortGUID: nil)
            }
            guard operation.name != Share.zoneWideName else {
                throw .badRequest(
                    "\(Share.zoneWideName) is the name for the share of a whole zone, which has no forRecord."
                )
            }
            let written = writes.last { change in
                change.record.name == root.name && change.outcome.map { !outcomes[$0].hasFailed } ?? true
            }
            let stored = before.sharing?.others[root.name] ?? before.records[root.name]
            guard let record = written?.record ?? stored, !record.isDeleted, !record.isShare else {
                throw .nothingToShare
            }
            if written == nil, let tag = root.changeTag, tag != record.changeTag {
                throw RelayError(.conflict, "client oplock error: the record to share has changed")
            }
            guard record.shareReference?.record == nil, !newShares.values.contains(where: { $0.root == root.name })
            else {
                throw .shareExists
            }
            guard before.sharing?.zone.sharing != .everything, !newShares.values.contains(where: { $0.root == nil })
            else {
                throw .alreadyShared
            }
            return try edit.make(input, root: root.name, shortGUID: record.shareReference?.shortGUID)
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
