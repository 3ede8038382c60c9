import Records
import RelayCore
import Wire

extension RouteEntry {
    static let changes: [RouteEntry] = [
        .reading(.database("changes/database"), fetchDatabaseChanges),
        .reading(.database("changes/zone"), fetchZoneChanges),
        .reading(.database("zones/changes"), fetchChangedZones),
        .reading(.database("records/changes"), fetchRecordChanges),
    ]
}

/// `changes/zone`: returns one page for each requested zone; the error of a zone is an entry of the response.
///
/// See Wire.md, "changes/zone".
private func fetchZoneChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try context.requireChangeFeeds()
    let items = try context.items("zones", of: context.body)
    let defaults = try ZonePageRequest(context.body, context)
    let requests = try items.map { item in
        let zone = try ZoneIDCodec.read(item.required("zoneID"))
        do {
            return (zone, Result<_, RelayError>.success(try ZonePageRequest(item, context, else: defaults)))
        } catch let error as RelayError {
            return (zone, .failure(error))
        }
    }
    return try EndpointAnswer(reserving: pageCapacity) { writer in
        writer.key("zones")
        writer.open(UInt8(ascii: "["))
        var allowance = FeedAllowance(context.limits)
        for (zone, request) in requests { try write(request, of: zone, context, &allowance, to: &writer) }
        writer.close(UInt8(ascii: "]"))
    }
}

/// The remaining cost limits of one request, apart from the size of its response.
private struct FeedAllowance {
    /// The number of records that may still be counted.
    var records: Int
    /// The number of bytes of records that may still be read.
    var bytes: Int

    init(_ limits: Limits) { (records, bytes) = (limits.countedRecords, limits.scannedBytes) }
}

/// The size of a full page of small records in bytes; reserved in advance, since growing copies.
private let pageCapacity = 192 * 1024

private func write(
    _ request: Result<ZonePageRequest, RelayError>,
    of zone: ZoneID,
    _ context: RequestContext,
    _ allowance: inout FeedAllowance,
    to writer: inout JSONWriter
) throws {
    let checkpoint = writer.checkpoint
    do throws(RelayError) {
        writer.open(UInt8(ascii: "{"))
        writer.key("zoneID")
        ZoneIDCodec.write(try context.database.zone(zone), to: &writer)
        try request.get().write(zone, context, &allowance, to: &writer)
        writer.close(UInt8(ascii: "}"))
    } catch  where error.code == .tryAgainLater || error.code == .internalError {
        throw error
    } catch {
        writer.rewind(to: checkpoint)
        writer.failure(of: context.database.full(zone), error)
    }
}

/// `records/changes`, the older form for one zone: an error of the zone is an error of the request.
///
/// See Wire.md, "records/changes".
private func fetchRecordChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try context.requireChangeFeeds()
    let zone = try context.body["zoneID"].map { try ZoneIDCodec.read($0) } ?? ZoneID(ZoneID.defaultName)
    let request = try ZonePageRequest(context.body, context)
    var allowance = FeedAllowance(context.limits)
    return try EndpointAnswer(reserving: pageCapacity) { try request.write(zone, context, &allowance, to: &$0) }
}

/// The parameters of one page of a zone's changes.
private struct ZonePageRequest {
    var token: String?
    var limit: Int
    var isReversed: Bool
    var recordTypes: Set<String>?
    var selection: FieldsJSON.Selection
    /// Zonecast extension: whether the response contains the number of records after the page.
    var countsRemaining: Bool

    /// Reads the members of `json`; the defaults are those of `outer`.
    init(_ json: JSONValue, _ context: RequestContext, else outer: ZonePageRequest? = nil) throws {
        token = try json["syncToken"]?.string() ?? outer?.token
        limit =
            json["resultsLimit"] == nil
            ? outer?.limit ?? context.limits.itemsPerRequest : try context.resultsLimit(of: json)
        isReversed = try json["reverse"]?.bool() ?? outer?.isReversed ?? false
        recordTypes = try json["desiredRecordTypes"].map { Set(try stringArray($0)) } ?? outer?.recordTypes
        selection = try context.selection(of: json, else: outer?.selection)
        countsRemaining = try json["countRemaining"]?.bool() ?? outer?.countsRemaining ?? false
    }

    /// Writes the members `records`, `syncToken` and `moreComing`.
    ///
    /// Deducts its cost from `allowance`, which all zones of the request share.
    func write(
        _ id: ZoneID,
        _ context: RequestContext,
        _ allowance: inout FeedAllowance,
        to writer: inout JSONWriter
    ) throws(RelayError) {
        let zone = try context.database.zone(id)
        var answer = RecordAnswer(
            zone: zone,
            selection: selection,
            links: context.assetLinks,
            shares: context.shareAnswer
        )
        var rows = answer.rows
        let wholeTypes = answer.wholeTypes
        var failure: (any Error)?
        writer.key("records")
        writer.open(UInt8(ascii: "["))
        let changes = ZoneChanges(
            zone: zone,
            of: context.database,
            token: token,
            limit: limit,
            isReversed: isReversed,
            recordTypes: recordTypes,
            remainingCountLimit: countsRemaining ? allowance.records : nil,
            maxBytes: allowance.bytes
        )
        let maxBytes = context.limits.answerBytes
        let page = try context.store.read { reader throws(RelayError) in
            try changes.read(
                from: reader,
                epochs: try context.store.epochs(of: zone.owner),
                rowsExceptFor: wholeTypes,
                // If the request has many zones, the response may be full before the last ones; the client requests
                // these again.
                hasRoom: writer.length < maxBytes
            ) { record in
                switch record {
                case .lent(let row): rows.write(row, to: &writer)
                case .whole(let record): do { try answer.write(record, to: &writer) } catch { failure = error }
                }
                return writer.length < maxBytes
            }
        }
        if let failure { throw failure as? RelayError ?? RelayError(.internalError, "The relay failed; report this.") }
        writer.close(UInt8(ascii: "]"))
        writer.member("syncToken", page.token)
        writer.member("moreComing", page.moreComing)
        allowance.records -= page.counted
        allowance.bytes -= page.bytes
        if let remaining = page.remaining { writer.member("remaining", remaining) }
    }
}

/// `changes/database`.
///
/// See Wire.md, "changes/database".
private func fetchDatabaseChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try databasePage(context, token: context.body["syncToken"], tokenKey: "syncToken")
}

/// `zones/changes`, the older form, whose token has a different name.
///
/// See Wire.md, "zones/changes".
private func fetchChangedZones(_ context: RequestContext) throws -> EndpointAnswer {
    try databasePage(
        context,
        token: context.body["metaSyncToken"] ?? context.body["syncToken"],
        tokenKey: "metaSyncToken"
    )
}

private func databasePage(
    _ context: RequestContext,
    token: JSONValue?,
    tokenKey: StaticString
) throws -> EndpointAnswer {
    let request = DatabaseChanges(
        database: context.database,
        token: try token?.string(),
        limit: try context.resultsLimit(of: context.body)
    )
    let epochs = context.store.epochs(of:)
    // Zonecast extension: shows a client when to retry writes that were refused because of the schema.
    let includesSchemaVersion = try context.body["schemaVersion"]?.bool() ?? false
    let page = try context.store.read { reader throws(RelayError) in try request.read(from: reader, epochs: epochs) }
    return try EndpointAnswer { writer in
        writer.key("zones")
        try writer.array(page.zones) { $0.zone($1, epoch: try epochs($1.id.owner).current) }
        writer.member(tokenKey, page.token.encoded)
        writer.member("moreComing", page.moreComing)
        // Zonecast extension: the zones of some owners are missing; a notice follows when they can be read again.
        if page.isIncomplete {
            writer.member("incomplete", true)
            writer.member("retryAfter", 5)
        }
        if includesSchemaVersion { writer.member("schemaVersion", context.store.currentSchema.version) }
    }
}

extension RequestContext {
    fileprivate func requireChangeFeeds() throws(RelayError) {
        guard database.scope != .public else {
            throw .badRequest("The public database keeps no change feed; query it by ___modTime.")
        }
    }
}
