import Crypto
import Foundation
package import Records
package import RelayCore
import Synchronization
import Wire

extension RouteEntry {
    static let queries: [RouteEntry] = [
        .waiting(.database("records/query"), by: .everybody, counted: [.rate, .transfer], queryRecords)
    ]
}

/// `records/query`.
///
/// See Wire.md, "Queries".
private func queryRecords(_ context: RequestContext) async throws -> EndpointAnswer {
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
    let page: QueryPage
    if context.database.scope == .public {
        page = try await context.store.publicQuery { reader throws(RelayError) in try request.read(from: reader) }
    } else {
        page = try await context.store.query { reader throws(RelayError) in try request.read(from: reader) }
    }

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

/// Encrypts continuation markers.
///
/// A marker contains the last record of a page, which clients must not read: in a shared hierarchy, clients may see
/// other record names than the zone stores. Uses AES-GCM with a key derived from the relay's key. The nonce is an HMAC
/// of the content, so that the same position in a query always has the same marker.
struct MarkerSeal: Sendable {
    private let key: SymmetricKey
    private let nonceKey: SymmetricKey

    init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast markers 1")
        nonceKey = SymmetricKey(relayKey: relayKey, purpose: "zonecast markers 1 nonces")
    }

    /// Returns nonce, ciphertext and tag in Base64.
    func seal(_ content: [UInt8]) -> String {
        let tag = HMAC<SHA256>.authenticationCode(for: content, using: nonceKey)
        guard let nonce = try? AES.GCM.Nonce(data: Array(tag.prefix(12))),
            let box = try? AES.GCM.seal(content, using: key, nonce: nonce), let bytes = box.combined
        else { preconditionFailure("a nonce of 12 bytes and a key of 32 always seal") }
        return Base64.encode(Array(bytes))
    }

    /// Returns the content; `nil` if this relay has not sealed it.
    func open(_ text: String) -> [UInt8]? {
        guard let bytes = Base64.decode(text), let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(box, using: key)
        else { return nil }
        return Array(content)
    }
}

/// Counts which indexes queries require, so that the console can report missing and unused ones.
///
/// Since the start of the relay, in bounded memory. Costs one lock per query.
package final class QueryUse: Sendable {
    package struct Key: Hashable, Sendable {
        package var home: ContainerEnvironment
        package var recordType: String
        package var mark: RequiredIndexes.Entry
    }

    package struct Count: Hashable, Sendable {
        /// The number of queries that required it.
        package var queries = 0
        /// The number of queries refused because it is missing.
        package var refused = 0
        package var last: Timestamp
    }

    private static let capacity = 10_000

    private let counts = Mutex<[Key: Count]>([:])

    package init() {}

    /// Counts one query, including a query that is refused because the schema lacks a required index.
    func note(_ query: Query, of schema: Schema, in home: ContainerEnvironment, at now: Timestamp) {
        guard let type = schema.types[query.recordType] else { return }
        // Clients can make up names of fields without end.
        let list = RequiredIndexes.list(of: query, type: type).filter { RequiredIndexes.isDeclared($0.field, type) }
        counts.withLock { counts in
            for mark in list {
                let key = Key(home: home, recordType: query.recordType, mark: mark)
                guard counts[key] != nil || counts.count < Self.capacity else { continue }
                var count = counts[key] ?? Count(last: now)
                count.queries += 1
                if !RequiredIndexes.has(mark, type) { count.refused += 1 }
                count.last = now
                counts[key] = count
            }
        }
    }

    /// The counts of one environment.
    package func counts(of home: ContainerEnvironment) -> [Key: Count] {
        counts.withLock { $0.filter { $0.key.home == home } }
    }
}
