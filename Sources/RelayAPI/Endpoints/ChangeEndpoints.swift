import Records
import RelayCore
import Wire

/// `changes/zone`: one page of each zone asked for; a zone that fails is an entry of its own.
///
/// Wire reference 9.2.
func fetchZoneChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try context.requireChangeFeeds()
    let items = try context.items("zones", of: context.body)
    let defaults = try ZonePageRequest(context.body, context)
    let requests = try items.map { item in
        (try ZoneIDCodec.read(item.required("zoneID")), try ZonePageRequest(item, context, else: defaults))
    }
    return try EndpointAnswer { writer in
        writer.key("zones")
        writer.open(UInt8(ascii: "["))
        for (zone, request) in requests { try write(request, of: zone, context, to: &writer) }
        writer.close(UInt8(ascii: "]"))
    }
}

private func write(
    _ request: ZonePageRequest,
    of zone: ZoneID,
    _ context: RequestContext,
    to writer: inout JSONWriter
) throws {
    do throws(RelayError) {
        let (records, page) = try request.read(zone, context)
        writer.open(UInt8(ascii: "{"))
        writer.key("zoneID")
        ZoneIDCodec.write(page.zone.id, to: &writer)
        writer.key("records")
        writer.raw(records)
        writer.member("syncToken", page.token.encoded)
        writer.member("moreComing", page.moreComing)
        writer.close(UInt8(ascii: "}"))
    } catch  where error.code == .tryAgainLater || error.code == .internalError {
        throw error
    } catch {
        writer.failure(of: zone, error)
    }
}

/// `records/changes`, the older form for one zone: what fails there fails the request.
///
/// Wire reference 9.3.
func fetchRecordChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try context.requireChangeFeeds()
    let zone = try context.body["zoneID"].map { try ZoneIDCodec.read($0) } ?? ZoneID(ZoneID.defaultName)
    let (records, page) = try ZonePageRequest(context.body, context).read(zone, context)
    return EndpointAnswer { writer in
        writer.key("records")
        writer.raw(records)
        writer.member("syncToken", page.token.encoded)
        writer.member("moreComing", page.moreComing)
    }
}

/// How a client wants one page of a zone's changes.
private struct ZonePageRequest {
    var token: String?
    var limit: Int
    var isReversed: Bool
    var recordTypes: Set<String>?
    var selection: FieldsJSON.Selection

    /// Reads the keys of `json`; what it leaves out is as in `outer`.
    init(_ json: JSONValue, _ context: RequestContext, else outer: ZonePageRequest? = nil) throws {
        token = try json["syncToken"]?.string()
        limit =
            json["resultsLimit"] == nil
            ? outer?.limit ?? context.limits.itemsPerRequest : try context.resultsLimit(of: json)
        isReversed = try json["reverse"]?.bool() ?? outer?.isReversed ?? false
        recordTypes = try json["desiredRecordTypes"].map { Set(try stringArray($0)) } ?? outer?.recordTypes
        selection = try context.selection(of: json, else: outer?.selection)
    }

    /// The page's records as a JSON array, and what the page says of itself.
    func read(_ id: ZoneID, _ context: RequestContext) throws(RelayError) -> ([UInt8], ZoneChanges.Page) {
        let zone = try context.database.zone(id)
        let answer = RecordAnswer(zone: zone, selection: selection)
        var writer = JSONWriter(reserving: 64 * 1024)
        var failure: (any Error)?
        let page = try context.store.read { reader throws(RelayError) in
            writer.open(UInt8(ascii: "["))
            let page = try ZoneChanges(
                zone: zone,
                token: token,
                limit: limit,
                isReversed: isReversed,
                recordTypes: recordTypes
            ).read(from: reader, epoch: context.store.epoch) { record in
                do { try answer.write(record, to: &writer) } catch { failure = error }
            }
            writer.close(UInt8(ascii: "]"))
            return page
        }
        if let failure { throw failure as? RelayError ?? RelayError(.internalError, "The relay failed; report this.") }
        return (writer.bytes, page)
    }
}

/// `changes/database`.
///
/// Wire reference 9.1.
func fetchDatabaseChanges(_ context: RequestContext) throws -> EndpointAnswer {
    try databasePage(context, token: context.body["syncToken"], tokenKey: "syncToken")
}

/// `zones/changes`, the older form, whose token has another name.
///
/// Wire reference 9.4.
func fetchChangedZones(_ context: RequestContext) throws -> EndpointAnswer {
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
    let epoch = context.store.epoch
    let page = try context.store.read { reader throws(RelayError) in try request.read(from: reader, epoch: epoch) }
    return EndpointAnswer { writer in
        writer.key("zones")
        writer.array(page.zones) { $0.zone($1, epoch: epoch) }
        writer.member(tokenKey, page.token.encoded)
        writer.member("moreComing", page.moreComing)
    }
}

extension RequestContext {
    fileprivate func requireChangeFeeds() throws(RelayError) {
        guard database.scope != .public else {
            throw .badRequest("The public database keeps no change feed; query it by ___modTime.")
        }
    }
}
