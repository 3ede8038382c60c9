import Foundation
import Records
import Wire

extension CKDatabase {
    /// Fetches the first page of a query's results.
    ///
    /// - Parameters:
    ///   - query: The query to run.
    ///   - zoneID: The zone to search; `nil` for all zones of the database.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: Records in the query's order, and a cursor if there are more.
    /// - Throws: `unknownItem` if the record type does not exist yet, `invalidArguments` if the relay does not support
    ///   the query, and the errors of any request.
    public func records(
        matching query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        guard let query = try query.query() else { return ([], nil) }
        let asked = try await namingCaller(in: query)
        // The public database has only the default zone, so a query of all zones is not supported there.
        let zone = zoneID ?? (databaseScope == .public ? .default : nil)
        let start = QueryPage(query: ClientRequest.encode(asked), zoneID: zone, marker: nil)
        return try await page(start, desiredKeys: desiredKeys, limit: resultsLimit)
    }

    /// Fetches up to 200 records that a query matches; the API that preceded cursors.
    ///
    /// - Parameters:
    ///   - query: The query to run.
    ///   - zoneID: The zone to search; `nil` for all zones of the database.
    /// - Returns: Records in the query's order.
    /// - Throws: `unknownItem` if the record type does not exist yet, `invalidArguments` if the relay does not support
    ///   the query, and the errors of any request.
    @_disfavoredOverload
    public func records(matching query: CKQuery, inZoneWith zoneID: CKRecordZone.ID?) async throws -> [CKRecord] {
        let page: (matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?)
        page = try await records(matching: query, inZoneWith: zoneID, desiredKeys: nil)
        return try page.matchResults.map { try $0.1.get() }
    }

    /// Fetches the next page of a query's results.
    ///
    /// - Parameters:
    ///   - queryCursor: The cursor of the previous page.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: Records in the query's order, and a cursor if there are more.
    /// - Throws: The errors of any request.
    public func records(
        continuingMatchFrom queryCursor: CKQueryOperation.Cursor,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int = CKQueryOperation.maximumResults
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        let start = QueryPage(query: queryCursor.query, zoneID: queryCursor.zoneID, marker: queryCursor.marker)
        return try await page(start, desiredKeys: desiredKeys, limit: resultsLimit)
    }

    /// The parameters of a request for one page.
    private struct QueryPage {
        var query: [UInt8]
        var zoneID: CKRecordZone.ID?
        var marker: String?
    }

    private func page(
        _ start: QueryPage,
        desiredKeys: [String]?,
        limit: Int
    ) async throws(CKError) -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    ) {
        let connection = try await connectionKnowingCaller()
        let body = ClientRequest.query(
            start.query,
            in: start.zoneID?.zone,
            desiredKeys: desiredKeys,
            limit: Self.pageSize(limit),
            marker: start.marker
        )
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let asked = connection.now
        let document = try await call("records/query", body)
        var results: [(CKRecord.ID, Result<CKRecord, any Error>)] = []
        var unnamed: CKError?
        let marker = try reading { () throws(JSONError) in
            try ClientResponse.records(document.root, zone: nil) { entry in
                let record: CKRecord
                switch entry {
                case .record(let found): record = reader.record(found)
                case .share(let found, let share): record = reader.record(found, share)
                case .deleted: return
                case .failed(let name, let failure):
                    let error = CKError(failure, at: .item)
                    guard let name else { return unnamed = unnamed ?? error }
                    results.append((CKRecord.ID(recordName: name, zoneID: start.zoneID ?? .default), .failure(error)))
                    return
                }
                results.append((record.recordID, .success(record)))
            }
            return try document.root["continuationMarker"]?.string()
        }
        if let unnamed { throw unnamed }
        connection.saw(results.lazy.map(\.0), .amongOthers, of: scope, at: asked)
        try await openKeys(for: results.lazy.compactMap { try? $0.1.get() })
        let cursor = marker.map { CKQueryOperation.Cursor(marker: $0, query: start.query, zoneID: start.zoneID) }
        return (results, cursor)
    }
}
