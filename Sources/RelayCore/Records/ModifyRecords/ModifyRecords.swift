package import Records
package import Wire

/// A client's write: operations on records of one zone, applied atomically or individually.
///
/// A class because it is passed through many functions unchanged. See Wire.md, "Saving records".
package final class ModifyRecords: Sendable {
    /// A class because it is passed through many functions unchanged.
    package final class Operation: Sendable {
        package let kind: OperationType
        package let record: RecordInput
        /// The record's name, generated if the client gave none.
        package let name: String
        /// The fields, prepared with the schema of `schemaVersion`; `nil` if they could not be prepared.
        // Set by `prepare` on the thread that creates the request, before any other thread has access.
        nonisolated(unsafe) private(set) var prepared: PreparedFields?

        package convenience init(_ kind: OperationType, _ record: consuming RecordInput, name: String) {
            self.init(kind, record, name: name, prepared: nil)
        }

        fileprivate init(
            _ kind: OperationType,
            _ record: consuming RecordInput,
            name: String,
            prepared: PreparedFields?
        ) {
            self.kind = kind
            self.record = record
            self.name = name
            self.prepared = prepared
        }

        fileprivate func prepare(
            as type: CompiledRecordType,
            in zone: ZoneID,
            of database: DatabaseAddress,
            rules: SchemaRules
        ) {
            guard let fields = try? FieldPreparation(record, ofType: type, in: zone, of: database, rules: rules) else {
                return
            }
            prepared = PreparedFields(fields)
        }
    }

    /// The result of one operation.
    package enum Outcome: Hashable, Sendable {
        case saved(StoredRecord)
        case deleted(name: String, type: String?)
        /// `server` is the record's current state if it caused the failure.
        // Indirect, because it would make every outcome as large as this case.
        indirect case failed(name: String, RelayError, server: StoredRecord?)

        package var error: RelayError? {
            if case .failed(_, let error, _) = self { error } else { nil }
        }

        /// The record that the response contains.
        fileprivate var record: StoredRecord? {
            switch self {
            case .saved(let record): record
            case .failed(_, _, let server): server
            case .deleted: nil
            }
        }

        var hasFailed: Bool {
            if case .failed = self { true } else { false }
        }
    }

    package struct Result: Sendable {
        package var zone: Zone
        /// One per operation, in the order of the operations.
        package var outcomes: [Outcome]
        /// Whether nothing was applied because an operation failed; the other operations then fail with `atomicError`.
        package var isAtomicFailure: Bool
        /// The version of the schema that was used; -1 if the schema has changed since.
        package var schemaVersion: Int
    }

    package let database: DatabaseAddress
    /// With its owner filled in, as by `DatabaseAddress.zone`.
    package let zone: ZoneID
    package let isAtomic: Bool
    package let rules: SchemaRules
    package let now: Timestamp
    /// Creates and changes shares; `nil` if the caller cannot.
    package let shareEdit: ShareEdit?
    /// Returns an unguessable record name.
    package let newName: @Sendable () -> String
    /// The maximum bytes of records in the response; `nil` means unlimited.
    package let maxResponseBytes: Int?
    /// Whether the response contains the fields of records for operations without `desiredKeys`.
    package let wantsFields: Bool
    /// The request's idempotency key; `nil` if the request may not be repeated.
    package let idempotencyKey: IdempotencyKey?
    package let operations: [Operation]
    /// The version of the schema with which the fields were prepared.
    package let schemaVersion: Int

    /// Prepares the operations' fields with the current schema, which saves time on the single writer.
    ///
    /// The operations must not be shared with another request. `compiledType` may cache its results per schema version.
    package init(
        _ operations: [Operation],
        in zone: ZoneID,
        of database: DatabaseAddress,
        atomically isAtomic: Bool,
        schema: Schema,
        rules: SchemaRules,
        now: Timestamp,
        shareEdit: ShareEdit? = nil,
        newName: @escaping @Sendable () -> String,
        maxResponseBytes: Int? = nil,
        wantsFields: Bool = true,
        compiledType: (String, Schema) -> CompiledRecordType = { CompiledRecordType($0, in: $1) }
    ) {
        self.newName = newName
        self.operations = operations
        self.zone = zone
        self.database = database
        self.isAtomic = isAtomic && !zone.isDefault
        self.rules = rules
        self.now = now
        self.shareEdit = shareEdit
        self.maxResponseBytes = maxResponseBytes
        self.wantsFields = wantsFields
        idempotencyKey = nil
        schemaVersion = schema.version
        var known: CompiledRecordType?
        for operation in operations {
            guard !operation.kind.isDelete, let name = operation.record.recordType else { continue }
            let type = known.flatMap { $0.name == name ? $0 : nil } ?? compiledType(name, schema)
            known = type
            operation.prepare(as: type, in: zone, of: database, rules: rules)
        }
    }

    private init(_ request: ModifyRecords, _ operations: [Operation], idempotencyKey: IdempotencyKey?) {
        newName = request.newName
        self.operations = operations
        zone = request.zone
        database = request.database
        isAtomic = request.isAtomic
        rules = request.rules
        now = request.now
        shareEdit = request.shareEdit
        maxResponseBytes = request.maxResponseBytes
        wantsFields = request.wantsFields
        self.idempotencyKey = idempotencyKey
        schemaVersion = request.schemaVersion
    }

    /// Returns this request with the client's idempotency key.
    package func withIdempotencyKey(_ idempotencyKey: IdempotencyKey?) -> ModifyRecords {
        ModifyRecords(self, operations, idempotencyKey: idempotencyKey)
    }

    private func with(_ operations: [Operation]) -> ModifyRecords {
        ModifyRecords(self, operations, idempotencyKey: idempotencyKey)
    }

    /// Returns this request with its records, and the parents they name, renamed.
    func renamed(_ name: (String) -> String) -> ModifyRecords {
        with(
            operations.map { operation in
                var record = operation.record
                if let parent = record.parent ?? nil { record.parent = .some(name(parent)) }
                return Operation(operation.kind, record, name: name(operation.name), prepared: operation.prepared)
            }
        )
    }

    /// What the write reads first; for a participant, a record may have another name in the zone.
    package var prefetch: Prefetch { Prefetch([zone: operations.map(\.name)], idempotencyKey: idempotencyKey) }

    /// Decides all operations on the state before the commit, then writes the result.
    package func run(in writer: any StoreWriter) throws(RelayError) -> Result {
        guard let order = orderWithSharesLast else { return try carryOut(in: writer) }
        let result = try with(order.map { operations[$0] }).carryOut(in: writer)
        var outcomes = result.outcomes
        for (place, index) in order.enumerated() { outcomes[index] = result.outcomes[place] }
        return Result(
            zone: result.zone,
            outcomes: outcomes,
            isAtomicFailure: result.isAtomicFailure,
            schemaVersion: result.schemaVersion
        )
    }

    /// An order of operations in which shares follow the records that may be their roots; `nil` if no operation saves a
    /// share.
    private var orderWithSharesLast: [Int]? {
        guard operations.contains(where: { $0.record.recordType == Share.recordType }) else { return nil }
        let shares = operations.indices.filter { operations[$0].record.recordType == Share.recordType }
        return operations.indices.filter { operations[$0].record.recordType != Share.recordType } + shares
    }

    private func carryOut(in writer: any StoreWriter) throws(RelayError) -> Result {
        guard let zone = try writer.zone(zone, in: database) else { throw .zoneNotFound }
        let request = withStoredNames(zone.aliases)
        var reads = try WriteReads(for: request, in: zone, from: writer)
        var list = try request.decide(&reads)
        let before = reads.before
        try checkRoom(for: list.outcomes)

        // A repeated atomic request has been applied as a whole before, whatever has happened to its records since.
        let isAtomicFailure = isAtomic && before.earlier == nil && list.outcomes.contains(where: \.hasFailed)
        if !isAtomicFailure || !Self.rejectsWholeBatch {
            try list.write(to: writer, zone, by: database.caller.deviceID)
        }
        if isAtomicFailure {
            let outcomes = list.aliases.viewed(request.atomicFailure(list.outcomes), of: self)
            return Result(zone: zone, outcomes: outcomes, isAtomicFailure: true, schemaVersion: -1)
        }
        try keep(list.outcomes, after: before.earlier, in: writer)
        return Result(
            zone: try writer.zone(self.zone, in: database) ?? zone,
            outcomes: light(list.aliases.viewed(list.outcomes, of: self)),
            isAtomicFailure: false,
            schemaVersion: list.growth.isEmpty ? before.schema.version : -1
        )
    }

    /// Runs the four passes, and repeats them where the result of one changes the input of another.
    ///
    /// A turn is repeated for one of three reasons. A pass lacked something that is read now. A pass refused an
    /// operation on which others had relied. An operation that was counted as freeing quota frees none: all is decided
    /// again without it. Each reason holds a limited number of times, so the loop ends; Writes.md, "The loop", has the
    /// bound. An atomic write with a refused operation needs no other turn.
    private func decide(_ reads: inout WriteReads) throws(RelayError) -> WriteList {
        var notFreeingQuota: Set<Int> = []
        var write = Self.validate(self, over: reads.before, operationsNotFreeingQuota: [])
        for _ in 0..<maximumTurns {
            if try reads.fill(write.unread) {
                write = Self.validate(self, over: reads.before, operationsNotFreeingQuota: notFreeingQuota)
                continue
            }
            let budget = reads.budget
            var (cascade, references) = (Cascade(), CheckedReferences())
            if write.concernsReferences {
                let read = try reads.references(of: write)
                cascade = read.cascade
                references = Self.checkReferences(of: write, read, over: reads.before)
            }
            if !references.refused.isEmpty, !isAtomic {
                write.refuse(references.refused)
                continue
            }
            let shares = try Self.checkShares(
                of: write,
                without: references.refused,
                beside: cascade,
                over: reads.before,
                budget: reads.budget
            )
            if try reads.fill(shares.unread) {
                reads.budget = budget
                continue
            }
            reads.budget = shares.budget
            write.refuse(references.refused)
            write.refuse(shares.refused)
            if !shares.refused.isEmpty, !isAtomic { continue }

            let kept = references.viewOnlyDeletions
            let wronglyFreeing = write.freeingQuota.filter { !write.isLive($0) || kept.contains($0) }
            if !wronglyFreeing.isSubset(of: notFreeingQuota), !(isAtomic && write.hasFailed) {
                notFreeingQuota.formUnion(wronglyFreeing)
                write = Self.validate(self, over: reads.before, operationsNotFreeingQuota: notFreeingQuota)
                continue
            }
            let more = try reads.writeList(of: write, beside: cascade, keeping: kept)
            return Self.writeList(of: write, references, shares, cascade: cascade, more, over: reads.before)
        }
        throw RelayError(.internalError, "The write could not be decided in \(maximumTurns) turns.")
    }

    /// The maximum number of turns: see Writes.md, "The loop".
    private var maximumTurns: Int { (operations.count + 8) * (operations.count + 8) }

    /// Returns the outcomes of a failed atomic request: failed operations keep their own errors.
    private func atomicFailure(_ outcomes: [Outcome]) -> [Outcome] {
        zip(operations, outcomes).map { operation, outcome in
            guard outcome.error == nil else { return outcome }
            let error = RelayError(.atomicError, "Another operation of this atomic request failed.")
            return .failed(name: operation.name, error, server: nil)
        }
    }

    /// Throws if the response would be too large: a short request can return long records.
    ///
    /// Records that caused a failure are returned with all fields.
    private func checkRoom(for outcomes: [Outcome]) throws(RelayError) {
        guard var room = maxResponseBytes else { return }
        for (outcome, operation) in zip(outcomes, operations) where outcome.hasFailed || wantsFields(of: operation) {
            room -= outcome.record?.fields.count ?? 0
        }
        guard room >= 0 else { throw .tooMuch(for: rules.limits) }
    }

    private func wantsFields(of operation: Operation) -> Bool {
        operation.record.desiredKeys.map { !$0.isEmpty } ?? wantsFields
    }

    /// Drops fields that the response does not contain, because outcomes are kept until the response is encoded.
    private func light(_ outcomes: [Outcome]) -> [Outcome] {
        zip(outcomes, operations).map { outcome, operation in
            guard case .saved(var record) = outcome, !wantsFields(of: operation) else { return outcome }
            record.fields = FieldsJSON.empty
            return .saved(record)
        }
    }
}

extension RelayError {
    package static let anotherZone = RelayError(.badRequest, "The record's zoneID differs from that of the request.")
    static let parentElsewhere = RelayError.badRequest(
        "A record's parent, and the root of a share, have to be in the zone of the request."
    )
    static let nameOfShare = RelayError.badRequest(
        "\(Share.zoneWideName) is the name for the share of a whole zone. Give the record another one."
    )
    static let recordExists = RelayError(.conflict, "record to insert already exists")
    package static let accessDenied = RelayError(
        .accessDenied,
        "This needs a permission that the caller does not have."
    )
}
