import Records
import RelayCore
import Wire

extension RouteEntry {
    static let records: [RouteEntry] = [
        .writing(.database("records/modify"), by: .operators, modifyRecords),
        .reading(.database("records/lookup"), by: .everybody, counted: [.rate, .transfer], lookupRecords),
        .writing(.database("records/move"), moveRecords),
    ]
}

/// `records/modify`.
///
/// See Wire.md, "Saving records".
private func modifyRecords(_ context: RequestContext) throws -> EndpointStep { .write(try RecordsWrite(context)) }

/// A parsed `records/modify` request: the write and its response.
// Unchecked because of `outcome`: see `EndpointWrite`.
private final class RecordsWrite: EndpointWrite, @unchecked Sendable {
    private let context: RequestContext
    private let request: ModifyRecords
    /// The zone in the body, if the body has one.
    private let zone: ParsedZoneID?
    private let selection: FieldsJSON.Selection
    /// The record types with assets, in the schema with which the request was prepared.
    private let assetTypes: Set<String>
    private var outcome: ModifyRecords.Result?

    var user: UserID? { context.authentication.caller.user }
    var owner: UserID { request.zone.owner }
    var prefetch: Prefetch { request.prefetch }

    init(_ context: RequestContext) throws {
        let operationID = try IdempotencyKey.id(in: context.body)
        let maxCount = operationID == nil ? nil : context.limits.operationsPerIdempotentWrite
        var unnamed = 0
        let operations = try context.items("operations", of: context.body, maxCount: maxCount).map { item in
            let word = try item.required("operationType").string()
            guard let kind = OperationType(rawValue: word) else {
                throw RelayError.badRequest("'\(word.prefix(64))' is not an operationType.")
            }
            let record = try RecordInput(item.required("record"))
            if kind != .create, record.recordName == nil {
                throw RelayError.badRequest("recordName is required to \(kind.rawValue) a record.")
            }
            if let name = record.recordName { return ModifyRecords.Operation(kind, record, name: name) }
            unnamed += 1
            let name = operationID.map { IdempotencyKey.recordName($0, unnamed, of: context.database.caller) }
            return ModifyRecords.Operation(kind, record, name: name ?? context.newRecordName())
        }
        guard !operations.isEmpty else { throw RelayError.badRequest("operations must not be empty.") }
        let rules = SchemaRules(
            mayGrow: context.schemaMayGrow,
            scope: context.database.scope,
            limits: context.limits,
            assets: context,
            types: context
        )
        let schema = context.store.currentSchema
        assetTypes = context.assets.types(of: context.home, in: schema)
        zone = try context.parsedZone
        let id =
            try zone?.id ?? operations.first?.record.zone.map { try context.database.zone($0) }
            ?? context.zone(of: context.body)
        selection = try context.selection(of: context.body)
        let request = ModifyRecords(
            operations,
            in: id,
            of: context.database,
            atomically: try context.body["atomic"]?.bool() ?? true,
            schema: schema,
            rules: rules,
            now: context.now,
            shareEdit: try context.shareEdit(for: operations, in: id),
            newName: context.newRecordName,
            maxResponseBytes: context.limits.answerBytes + context.body.rawBytes.count,
            wantsFields: selection.desiredKeys?.isEmpty != true,
            compiledType: context.types.type
        )
        self.context = context
        self.request = operationID.map { request.withIdempotencyKey(IdempotencyKey($0, of: request)) } ?? request
    }

    func run(in writer: any StoreWriter) throws(RelayError) { outcome = try request.run(in: writer) }

    func next() throws -> EndpointStep {
        guard let result = outcome else { throw RelayError.notCarriedOut }
        if !result.isAtomicFailure {
            context.assets.wereSaved(context.usedUploads, of: request.zone.owner, in: context.home)
        }
        let links =
            result.schemaVersion == request.schemaVersion
            ? context.assetLinks(for: assetTypes) : context.assetLinks
        var answer = RecordAnswer(
            zone: request.zone,
            text: zone?.text,
            selection: selection,
            links: links,
            shares: context.shareAnswer
        )
        let response = try EndpointAnswer(refusing: result.isAtomicFailure ? .atomicError : nil) { writer in
            if result.isAtomicFailure {
                writer.member("uuid", context.requestID.text)
                writer.atomicFailure(result.outcomes)
            }
            writer.key("records")
            writer.open(UInt8(ascii: "["))
            for (index, operation) in request.operations.enumerated() {
                // Each operation may select the fields of its record.
                answer.select(operation.record.desiredKeys, else: selection)
                try answer.write(result.outcomes[index], requestID: context.requestID, to: &writer)
            }
            writer.close(UInt8(ascii: "]"))
            if result.zone.tracksChanges, !result.isAtomicFailure {
                writer.member("syncToken", result.zone.token(epoch: try context.store.epoch(of: request.zone.owner)))
            }
        }
        return .answer(response)
    }
}

extension JSONWriter {
    fileprivate mutating func atomicFailure(_ outcomes: [ModifyRecords.Outcome]) {
        let failed = outcomes.count { $0.error.map { $0.code != .atomicError } ?? false }
        members(of: RelayError(.atomicError, "Atomic failure: \(failed) of \(outcomes.count) operations failed"))
    }
}

extension RequestContext: ReceiptVerifier {
    func receiptStatus(_ asset: Asset) -> ReceiptStatus {
        let receiptStatus = assets.receiptStatus(asset, for: database.caller.user, in: home)
        if case .fresh(let hash, _) = receiptStatus { noteUpload(hash) }
        return receiptStatus
    }
}

extension RequestContext {
    /// The zone that the body names; `nil` if there is none.
    fileprivate var parsedZone: ParsedZoneID? {
        get throws {
            guard let json = body["zoneID"] else { return nil }
            let caller = database.caller.user
            if let latest = parsedHead.zone, latest.matches(json, caller: caller) { return latest }
            let zone = ParsedZoneID(json, try zone(of: body), of: caller)
            // A large `zoneID` with useless members is not cached for the life of the connection.
            if json.rawBytes.count <= 1024 { parsedHead.zone = zone }
            return zone
        }
    }

    /// What a write needs to create or change shares; `nil` for most writes.
    fileprivate func shareEdit(for operations: [ModifyRecords.Operation], in zone: ZoneID) throws -> ShareEdit? {
        guard operations.contains(where: { $0.record.share != nil || $0.record.createsShortGUID }) else { return nil }
        let shares = operations.compactMap(\.record.share)
        let named = shares.flatMap { $0.lookups(participantLimit: limits.participants) }
        let known = named.isEmpty ? [:] : try authenticator.profiles(matching: named, in: home)
        return ShareEdit(
            owner: zone.owner,
            people: known.mapValues(\.user),
            now: now,
            participantLimit: limits.participants,
            newID: newSecret
        )
    }

    /// Whether saving a record adds unknown types and fields to the schema.
    ///
    /// See Wire.md, "Saving records".
    fileprivate var schemaMayGrow: Bool {
        guard home.environment == .development else { return false }
        if case .serverKey = database.caller.identity { return false }
        return true
    }
}

/// `records/lookup`.
///
/// See Wire.md, "Looking up records".
private func lookupRecords(_ context: RequestContext) throws -> EndpointAnswer {
    let items = try context.items("records", of: context.body)
    let names = try items.map { try $0.required("recordName").string() }
    let outer = try context.selection(of: context.body)
    let selections = try items.map { try context.selection(of: $0, else: outer) }
    // If only the records name a zone, that of the first one; all must name the same.
    let zone = try context.zone(of: context.body["zoneID"] == nil ? items.first ?? context.body : context.body)
    let strays = Set(
        try items.indices.filter { try items[$0]["zoneID"] != nil && context.zone(of: items[$0]) != zone }
    )
    var answer = RecordAnswer(zone: zone, links: context.assetLinks, shares: context.shareAnswer)
    var records = JSONWriter()
    records.open(UInt8(ascii: "["))
    let wantsFields = selections.contains { $0.desiredKeys?.isEmpty != true }
    let lookup = LookupRecords(names, in: zone, of: context.database, wantsFields: wantsFields)
    try context.store.read { reader throws(RelayError) in
        try lookup.visit(from: reader) { place, result throws(RelayError) in
            guard records.length < context.limits.answerBytes else { throw RelayError.tooMuch(for: context.limits) }
            switch strays.contains(place) ? .failure(.anotherZone) : result {
            case .success(let record): try answer.write(record, selecting: selections[place], to: &records)
            case .failure(let error):
                let failed = ModifyRecords.Outcome.failed(name: names[place], error, server: nil)
                try answer.write(failed, requestID: context.requestID, to: &records)
            }
        }
    }
    records.close(UInt8(ascii: "]"))
    return EndpointAnswer { [bytes = records.bytes] writer in
        writer.key("records")
        writer.raw(bytes)
    }
}

/// `records/move`, a Zonecast extension: moves records between two zones of the caller's private database, all or none.
///
/// Takes `{ "zoneID", "destinationZoneID", "records": [{ "recordName", "recordChangeTag"? }] }`, or `"allRecords":
/// true` instead of `records`. With `"createDestination": true`, the relay creates the destination zone, and with
/// `"deleteSource": true` it deletes the source zone, which must be empty after the move. A request with the
/// `operationID` of an earlier one moves nothing again and returns the current state of the records; those that have
/// left the destination are reported as deleted.
private func moveRecords(_ context: RequestContext) throws -> EndpointStep {
    try MoveRecords.check(context.database.scope)
    let body = context.body
    let source = try context.zone(of: body)
    let destination = try context.database.zone(try ZoneIDCodec.read(body.required("destinationZoneID")))
    var items: [MoveRecords.Item]?
    if try body["allRecords"]?.bool() != true {
        items = try body.required("records").elements().map { item in
            .init(name: try item.required("recordName").string(), changeTag: try item["recordChangeTag"]?.string())
        }
    }
    var request = MoveRecords(
        items,
        from: source,
        to: destination,
        of: context.database,
        makesDestination: try body["createDestination"]?.bool() ?? false,
        deletesSource: try body["deleteSource"]?.bool() ?? false,
        limits: context.limits,
        now: context.now
    )
    try request.check()
    request.idempotencyKey = try IdempotencyKey.id(in: body).flatMap { IdempotencyKey($0, of: request) }
    let user = context.authentication.caller.user
    return .writing(touching: source.owner, prefetch: request.prefetch, for: user) {
        [request] writer throws(RelayError) in
        try request.run(in: writer)
    } answer: { result in
        try answer(result, from: source, to: destination, context)
    }
}

private func answer(
    _ result: MoveRecords.Result,
    from source: ZoneID,
    to destination: ZoneID,
    _ context: RequestContext
) throws -> EndpointAnswer {
    let failures = result.outcomes.count { $0.error != nil }
    let epoch = try context.store.epoch(of: source.owner)
    let shares = context.shareAnswer
    return try EndpointAnswer(refusing: failures > 0 ? .atomicError : nil) { writer in
        if failures > 0 {
            writer.member("uuid", context.requestID.text)
            let reason = "Nothing was moved: \(failures) of \(result.outcomes.count) records cannot be moved."
            writer.members(of: RelayError(.atomicError, reason))
        }
        writer.key("records")
        writer.open(UInt8(ascii: "["))
        for outcome in result.outcomes {
            guard case .failed(let name, let error, let server) = outcome else {
                if failures == 0 { writer.member(of: outcome) }
                continue
            }
            var answer = RecordAnswer(zone: source, links: nil, shares: shares)
            let failed = ModifyRecords.Outcome.failed(name: name, error, server: server)
            try answer.write(failed, requestID: context.requestID, to: &writer)
        }
        writer.close(UInt8(ascii: "]"))
        guard failures == 0 else { return }
        writer.key("source")
        writer.zone(result.source, of: source, epoch: epoch)
        writer.key("destination")
        writer.zone(result.destination, of: destination, epoch: epoch)
    }
}

extension JSONWriter {
    /// Writes a zone, or a deletion if it is deleted.
    fileprivate mutating func zone(_ zone: Zone?, of id: ZoneID, epoch: UInt64) {
        if let zone { return self.zone(zone, epoch: epoch) }
        object {
            $0.key("zoneID")
            ZoneIDCodec.write(id, to: &$0)
            $0.member("deleted", true)
        }
    }

    /// Writes a record's new change tag; its fields have not changed.
    fileprivate mutating func member(of outcome: MoveRecords.Outcome) {
        switch outcome {
        case .failed: break
        case .moved(let record):
            object {
                $0.member("recordName", record.name)
                $0.member("recordType", record.type)
                $0.member("recordChangeTag", record.changeTag)
            }
        case .leftSince(let name):
            object {
                $0.member("recordName", name)
                $0.member("deleted", true)
            }
        }
    }
}
