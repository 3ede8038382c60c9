import Records
import RelayCore
import Wire

/// `records/move`, a Zonecast extension: moves records between two zones of the caller's private database, all or none.
///
/// Takes `{ "zoneID", "destinationZoneID", "records": [{ "recordName", "recordChangeTag"? }] }`, or `"allRecords":
/// true` instead of `records`. With `"createDestination": true`, the relay creates the destination zone, and with
/// `"deleteSource": true` it deletes the source zone, which must be empty after the move. A request with the
/// `operationID` of an earlier one moves nothing again and returns the current state of the records; those that have
/// left the destination are reported as deleted.
func moveRecords(_ context: RequestContext) async throws -> EndpointAnswer {
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
    request.mark = try WriteMark.id(in: body).flatMap { WriteMark($0, of: request) }
    let user = context.authentication.caller.user
    let result = try await context.store.write(for: user) { [request] writer throws(RelayError) in
        try request.run(in: writer)
    }
    let failures = result.outcomes.count { $0.error != nil }
    let epoch = context.store.epoch
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
