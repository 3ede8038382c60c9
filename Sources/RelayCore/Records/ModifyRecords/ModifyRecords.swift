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

    private func carryOut(in writer: any StoreWriter) throws(RelayError) -> Result {
        guard let zone = try writer.zone(zone, in: database) else { throw .zoneNotFound }
        let request = withStoredNames(zone.aliases)
        let before = try writer.records(named: request.operations.map(\.name), in: zone.whole)
        let referenceCounter = ReferenceCounter(limit: rules.limits.referencesPerWrite)
        var decision = try request.decided(over: before, in: zone, by: writer, referenceCounter: referenceCounter)
        // An operation that was counted as freeing quota and then failed must not free any; decide again without it.
        var operationsNotFreeingQuota: Set<Int> = []
        while !decision.operationsWronglyFreeingQuota.isSubset(of: operationsNotFreeingQuota),
            !(isAtomic && decision.hasFailed)
        {
            operationsNotFreeingQuota.formUnion(decision.operationsWronglyFreeingQuota)
            decision = try request.decided(
                over: before,
                in: zone,
                by: writer,
                besides: operationsNotFreeingQuota,
                referenceCounter: referenceCounter
            )
        }
        try checkRoom(for: decision.outcomes)

        // A repeated atomic request has been applied as a whole before, whatever has happened to its records since.
        if isAtomic, decision.earlier == nil, decision.hasFailed {
            if !Self.rejectsWholeBatch { try decision.write(to: writer, zone: zone) }
            let outcomes = decision.viewed(decision.atomicFailureOutcomes(), of: self)
            return Result(zone: zone, outcomes: outcomes, isAtomicFailure: true, schemaVersion: -1)
        }
        try decision.write(to: writer, zone: zone)
        try keep(decision.outcomes, after: decision.earlier, in: writer)
        let outcomes = decision.viewed(decision.outcomes, of: self)
        return Result(
            zone: try writer.zone(self.zone, in: database) ?? zone,
            outcomes: light(outcomes),
            isAtomicFailure: false,
            schemaVersion: decision.grown.isEmpty ? decision.schema.version : -1
        )
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

    /// Decides each operation without writing anything.
    ///
    /// `operationsNotFreeingQuota` are indexes of operations that must not be counted as freeing quota.
    private func decided(
        over before: [String: StoredRecord],
        in zone: Zone,
        by writer: any StoreWriter,
        besides operationsNotFreeingQuota: Set<Int> = [],
        referenceCounter: ReferenceCounter
    ) throws(RelayError) -> Decision {
        let room = try rules.limits.quota.room(in: zone.id, by: database.scope, from: writer)
        var decision = Decision(
            schema: try writer.schema,
            before: before,
            request: self,
            now: zone.stamp(at: now),
            in: writer,
            quota: QuotaLedger(room, of: zone, in: writer),
            referenceCounter: referenceCounter
        )
        decision.quota.operationsNotFreeingQuota = operationsNotFreeingQuota
        decision.sharing = try sharingState(of: zone, before: before, in: writer)
        if let view = zone.view, view.isPartial {
            decision.aliases = view.aliases
            decision.hides = { name throws(RelayError) in try writer.hides(name, from: zone) }
            decision.avoidTakenNames()
        }
        if database.scope == .public, !database.isOperators {
            decision.isUnreadable = unreadableRecords(of: zone, decision.schema, in: writer)
        }
        decision.earlier = try earlier(in: writer)
        for operation in decision.request.operations { decision.decide(operation) }
        try decision.checkReferences(in: writer, zone)
        try decision.keepShares(in: writer)
        return decision
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

extension ModifyRecords {
    /// Returns a function that tells whether a record exists and is unreadable; it reads each record once.
    func unreadableRecords(
        of zone: Zone,
        _ schema: Schema,
        in writer: any StoreWriter
    ) -> (String) throws(RelayError) -> Bool {
        var known: [String: Bool] = [:]
        return { [database] name throws(RelayError) in
            if let known = known[name] { return known }
            let record = try writer.records(named: [name], in: zone)[name]
            let isUnreadable = record.map { !database.rights(to: $0, in: schema).contains(.read) } ?? false
            known[name] = isUnreadable
            return isUnreadable
        }
    }
}
