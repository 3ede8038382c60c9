import Records
import RelayCore
import Wire

/// `records/query`.
///
/// See Wire.md, "Queries".
func queryRecords(_ context: RequestContext) async throws -> EndpointAnswer {
    let body = context.body
    let query = try QueryCodec.read(body.required("query"), schema: context.store.currentSchema)
    guard query.filters.count <= context.limits.queryFilters, query.sorts.count <= context.limits.querySorts else {
        throw RelayError.badRequest(
            "A query may have \(context.limits.queryFilters) filters and \(context.limits.querySorts) sort keys."
        )
    }
    let isZoneWide = try body["zoneWide"]?.bool() ?? false
    let zone = isZoneWide ? nil : try context.zone(of: body)
    let seal = context.authenticator.markers
    let request = QueryRecords(
        query,
        in: zone,
        of: context.database,
        limit: try context.resultsLimit(of: body),
        bytes: context.limits.answerBytes,
        after: try body["continuationMarker"].map {
            try QueryMarker.decode(seal.open($0.string()), of: query, in: zone)
        },
        types: context
    )
    // Queries of operators in the console say nothing about the needs of apps.
    if !context.database.isOperators {
        context.queryUse.note(query, of: context.store.currentSchema, in: context.home, at: context.now)
    }
    let page = try await context.store.query { reader throws(RelayError) in try request.read(from: reader) }

    let selection = try context.selection(of: body)
    let links = context.assetLinks
    let shares = context.shareAnswer
    return try EndpointAnswer { writer in
        writer.key("records")
        writer.open(UInt8(ascii: "["))
        for (zone, record) in page.records {
            var answer = RecordAnswer(zone: zone, selection: selection, links: links, shares: shares)
            try answer.write(record, to: &writer)
        }
        writer.close(UInt8(ascii: "]"))
        if let next = page.next {
            writer.member("continuationMarker", seal.seal(QueryMarker.encode(next, of: query, in: zone)))
        }
    }
}
