import Foundation
import Records
import Synchronization
import Wire

extension CKDatabase {
    /// Fetches one page of the zones that have changed since a token.
    ///
    /// - Parameters:
    ///   - previousServerChangeToken: The token of the previous fetch; `nil` to fetch from the beginning.
    ///   - resultsLimit: The maximum number of zones, up to 200.
    /// - Returns: The zones, the token for the next fetch, and whether there are more changes.
    /// - Throws: `badDatabase` for the public database, `changeTokenExpired`, and the errors of any request.
    public func databaseChanges(
        since previousServerChangeToken: CKServerChangeToken?,
        resultsLimit: Int? = nil
    ) async throws -> (
        modifications: [CKDatabase.DatabaseChange.Modification], deletions: [CKDatabase.DatabaseChange.Deletion],
        changeToken: CKServerChangeToken, moreComing: Bool
    ) {
        try requireChangeFeed()
        let body = ClientRequest.databaseChanges(
            since: previousServerChangeToken?.encoded,
            limit: resultsLimit.map(Self.pageSize)
        )
        let connection = try session.connection()
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let document = try await call("changes/database", body)
        let (entries, end) = try reading { () throws(JSONError) in
            (try ClientResponse.zones(document.root), try ClientResponse.pageEnd(document.root))
        }
        var modifications: [DatabaseChange.Modification] = []
        var deletions: [DatabaseChange.Deletion] = []
        for entry in entries {
            switch entry {
            case .zone(let zone): modifications.append(.init(zoneID: reader.zoneID(zone.id)))
            case .deleted(let zone, let loss):
                deletions.append(.init(zoneID: reader.zoneID(zone), reason: .init(loss)))
            // A zone that cannot be read now is reported as changed; its own feed reports the error.
            case .failed(let zone?, _): modifications.append(.init(zoneID: reader.zoneID(zone)))
            case .failed(nil, let failure): throw CKError(failure, at: .item)
            }
        }
        for deletion in deletions { connection.zoneKeys.forget(deletion.zoneID) }
        return (modifications, deletions, CKServerChangeToken(encoded: end.syncToken), end.moreComing)
    }

    /// Fetches one page of the records in a zone that have changed since a token, each record once and in its current
    /// version.
    ///
    /// Apply the pages in order, and store each page's token together with its changes.
    ///
    /// - Parameters:
    ///   - zoneID: A custom zone.
    ///   - previousServerChangeToken: The token of the previous fetch; `nil` to list the zone's records from the
    ///     beginning, without deletions.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    ///   - resultsLimit: The maximum number of records, up to 200.
    /// - Returns: The records, the deletions, the token for the next fetch, and whether there are more changes.
    /// - Throws: `changeTokenExpired` (fetch again without a token), `zoneNotFound`, and the errors of any request.
    public func recordZoneChanges(
        inZoneWith zoneID: CKRecordZone.ID,
        since previousServerChangeToken: CKServerChangeToken?,
        desiredKeys: [CKRecord.FieldKey]? = nil,
        resultsLimit: Int? = nil
    ) async throws -> (
        modificationResultsByID: [CKRecord.ID: Result<CKDatabase.RecordZoneChange.Modification, any Error>],
        deletions: [CKDatabase.RecordZoneChange.Deletion], changeToken: CKServerChangeToken, moreComing: Bool
    ) {
        let page = try await zoneChangesPage(
            in: zoneID,
            since: previousServerChangeToken,
            desiredKeys: desiredKeys,
            limit: resultsLimit
        )
        var modifications: [CKRecord.ID: Result<RecordZoneChange.Modification, any Error>] = [:]
        for record in page.records { modifications[record.recordID] = .success(.init(record: record)) }
        for (id, error) in page.failures { modifications[id] = .failure(error) }
        return (modifications, page.deletions, page.changeToken, page.moreComing)
    }

    /// A page of a zone's feed, in the order of the feed.
    package struct ZoneChangesPage: Sendable {
        package var records: [CKRecord] = []
        package var deletions: [RecordZoneChange.Deletion] = []
        package var failures: [(CKRecord.ID, CKError)] = []
        package var changeToken: CKServerChangeToken
        package var moreComing: Bool
        /// Whether the page contains the key of the zone's encrypted values, so that values fetched earlier can be
        /// decrypted now.
        package var bringsKey = false
        /// Whether the zone's sealed values can be decrypted; `nil` if there is no key and the page needs none.
        package var isReadable: Bool?
    }

    /// Fetches a page like `recordZoneChanges`, but keeps the feed's order.
    ///
    /// If `wantsKey` is `true`, the zone's key is opened even if the page does not need it.
    package func zoneChangesPage(
        in zoneID: CKRecordZone.ID,
        since token: CKServerChangeToken?,
        desiredKeys: [String]? = nil,
        limit: Int? = nil,
        wantsKey: Bool = false
    ) async throws(CKError) -> ZoneChangesPage {
        try requireChangeFeed()
        let connection = try await connectionKnowingCaller()
        let body = ClientRequest.zoneChanges(
            in: zoneID.zone,
            since: token?.encoded,
            // The zone's keys are records with this field, and are useless without it.
            desiredKeys: desiredKeys.map { connection.encryptionKey == nil ? $0 : $0 + [KeyRecord.field] },
            limit: limit.map(Self.pageSize)
        )
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let asked = connection.now
        let document = try await call("changes/zone", body)
        let outcome: Result<ZoneChangesPage, CKError> = try reading { () throws(JSONError) in
            guard let entry = try document.root.required("zones").elements().first else {
                return .failure(CKError(.internalError, "The relay's response does not contain the zone."))
            }
            if let failure = try ClientResponse.failure(entry, zone: zoneID.zone) {
                return .failure(CKError(failure, at: .item))
            }
            if databaseScope == .private, let home = try ClientResponse.zone(of: entry) { _ = reader.zoneID(home) }
            return try Self.page(entry, in: zoneID, reader)
        }
        if case .failure(let error) = outcome { connection.zoneKeys.heard(error, of: zoneID) }
        var page = try outcome.get()
        connection.saw(page.records.lazy.map(\.recordID), .amongOthers, of: scope, at: asked)
        connection.saw(page.deletions.lazy.map(\.recordID), .amongOthers, of: scope, at: asked)
        let before = connection.zoneKeys.key(zoneID)?.number
        if wantsKey { try await openKey(of: zoneID) }
        try await seeToKeys(of: &page, in: zoneID, isListed: token == nil, connection)
        let now = connection.zoneKeys.key(zoneID)?.number
        page.bringsKey = page.bringsKey && token != nil && now != nil && now != before
        let hasSealed = page.records.contains { $0.state.withLock { $0.hasSealed } }
        page.isReadable = now != nil ? true : hasSealed ? false : nil
        return page
    }

    /// Processes the encryption keys of a page.
    ///
    /// Removes the key records from the page, opens the zone's key if the page needs it, and provides it to the users
    /// with whom the zone is shared.
    private func seeToKeys(
        of page: inout ZoneChangesPage,
        in zoneID: CKRecordZone.ID,
        isListed: Bool,
        _ connection: RelayConnection
    ) async throws(CKError) {
        let keys = page.records.filter { $0.recordType == KeyRecord.type }
        if !keys.isEmpty {
            page.records.removeAll { $0.recordType == KeyRecord.type }
            // A key record may be for this user, so values that could not be decrypted before can be now.
            try await takeKey(of: zoneID, from: keys)
            page.bringsKey = true
        }
        page.deletions.removeAll { $0.recordType == KeyRecord.type }
        try await openKeys(for: page.records)
        if databaseScope == .private, connection.zoneKeys.isClosed(zoneID) { throw .encryptedDataReset(zoneID) }
        let shares = page.records.compactMap { $0 as? CKShare }
        let ended = page.deletions.filter { $0.recordType == CKRecord.SystemType.share }.map(\.recordID.recordName)
        await giveKeys(by: shares, ended: ended, in: zoneID, isListed: isListed)
    }

    private static func page(
        _ entry: JSONValue,
        in zoneID: CKRecordZone.ID,
        _ reader: RecordReader
    ) throws(JSONError) -> Result<ZoneChangesPage, CKError> {
        var unnamed: CKError?
        let end = try ClientResponse.pageEnd(entry)
        var page = ZoneChangesPage(
            changeToken: CKServerChangeToken(encoded: end.syncToken),
            moreComing: end.moreComing
        )
        try ClientResponse.records(entry, zone: zoneID.zone) { item in
            switch item {
            case .record(let record):
                let id = CKRecord.ID(recordName: record.id.recordName, zoneID: zoneID)
                page.records.append(reader.record(record, id: id))
            case .share(let record, let share):
                let id = CKRecord.ID(recordName: record.id.recordName, zoneID: zoneID)
                page.records.append(reader.record(record, share, id: id))
            case .deleted(let name, let type, _):
                let id = CKRecord.ID(recordName: name, zoneID: zoneID)
                page.deletions.append(.init(recordID: id, recordType: type ?? ""))
            case .failed(let name, let failure):
                let error = CKError(failure, at: .item)
                guard let name else { return unnamed = unnamed ?? error }
                page.failures.append((CKRecord.ID(recordName: name, zoneID: zoneID), error))
            }
        }
        // The failed record has no name to fetch it by, and the page's token is past it.
        return unnamed.map { .failure($0) } ?? .success(page)
    }

    /// Returns the page size for a requested limit; the relay's maximum is 200.
    ///
    /// See Wire.md, "Limits".
    package static func pageSize(_ wanted: Int) -> Int { wanted <= 0 ? 200 : min(wanted, 200) }
}
