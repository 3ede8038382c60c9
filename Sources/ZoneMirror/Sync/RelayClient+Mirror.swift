import Records
import SyncCore
import Wire
import ZoneKit

/// The relay's answer to one write.
enum WriteAnswer: Sendable {
    case saved(Record)
    case deleted
    /// With the relay's record if it differs from the local one.
    case failed(CKError, Record?)
}

/// The requests of mirrors, with the values that they work with.
extension RelayClient {
    /// Returns a page of the zones that have changed since a token; of all zones without one.
    ///
    /// In the private database, every zone belongs to the current user, whatever name the relay gives the owner.
    func databasePage(since token: SyncToken?, isPrivate: Bool) async throws(CKError) -> DatabasePage {
        func withoutCallerAsOwner(_ zone: ZoneID) -> ZoneID { isPrivate ? ZoneID(zone.zoneName) : zone }
        let answer = try await databaseChanges(since: token, limit: nil)
        var page = DatabasePage(changed: [], deleted: [], token: answer.token, moreComing: answer.moreComing)
        for entry in answer.entries {
            switch entry {
            case .zone(let zone): page.changed.append(withoutCallerAsOwner(zone.id))
            case .deleted(let zone, let reason): page.deleted.append((withoutCallerAsOwner(zone), reason))
            // If a zone cannot be read now, its own feed reports the error again.
            case .failed(let zone?, _): page.changed.append(withoutCallerAsOwner(zone))
            case .failed(nil, let failure): throw CKError(failure, at: .item)
            }
        }
        return page
    }

    /// Fetches one page of a zone's feed.
    ///
    /// With `countsRemaining`, the response contains the number of records that follow, for which the relay has to scan
    /// them.
    func mirrorPage(
        of zone: ZoneID,
        since token: SyncToken?,
        isPrivate: Bool,
        countsRemaining: Bool = false
    ) async throws(CKError) -> MirrorPage {
        let options = FeedOptions(countsRemaining: countsRemaining)
        return try MirrorPage(try await zoneChanges(in: zone, since: token, options), of: zone, isPrivate: isPrivate)
    }

    /// Fetches records of a zone by name; those that do not exist are left out.
    func lookup(_ names: [String], in zone: ZoneID) async throws(CKError) -> [Record] {
        try records(try await records(named: names, in: zone, .asRequested, desiredKeys: nil))
    }

    /// Returns the records without those that do not exist; throws if the relay could not return one that does.
    private func records(_ entries: [ClientResponse.RecordEntry]) throws(CKError) -> [Record] {
        var records: [Record] = []
        for entry in entries {
            switch entry {
            case .record(let record), .share(let record, _): records.append(record)
            case .deleted: break
            case .failed(_, let failure):
                let error = CKError(failure, at: .item)
                if error.code != .unknownItem { throw error }
            }
        }
        return records
    }

    /// Creates zones; existing ones stay unchanged.
    func make(_ zones: [ZoneID]) async throws(CKError) {
        let entries = try await modifyZones(creating: zones, deleting: [], because: .deleted)
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .serverRecordChanged { throw error }
        }
    }

    /// Deletes a zone; `reason` is the reason that other devices receive.
    func delete(_ zone: ZoneID, because reason: ZoneDeletionReason = .deleted) async throws(CKError) {
        for case .failed(_, let failure) in try await modifyZones(
            creating: [],
            deleting: [zone],
            because: reason
        ) {
            let error = CKError(failure, at: .item)
            if error.code != .zoneNotFound { throw error }
        }
    }

    /// Writes records of one zone and returns one result for each, in their order.
    func modify(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        atomically: Bool
    ) async throws(CKError) -> [WriteAnswer] {
        let entries = try await modifyRecords(writes, in: zone, .asRequested, atomically: atomically)
        return answers(entries, for: writes.count)
    }

    /// Sends the body of a `records/modify` request that has an idempotency key; returns one result for each
    /// operation, in their order.
    func modify(_ body: [UInt8], count: Int, in zone: ZoneID) async throws(CKError) -> [WriteAnswer] {
        answers(try await modifyRecords(body, in: zone), for: count)
    }

    private func answers(_ entries: [ClientResponse.RecordEntry], for count: Int) -> [WriteAnswer] {
        let missing = CKError(.internalError, "The relay's response does not contain this item.")
        let answers = entries.prefix(count).map { entry -> WriteAnswer in
            switch entry {
            case .record(let record), .share(let record, _): .saved(record)
            case .deleted: .deleted
            case .failed(_, let failure): .failed(CKError(failure, at: .item), failure.serverRecord)
            }
        }
        return answers + Array(repeating: .failed(missing, nil), count: count - answers.count)
    }

    /// Fetches one page of the records of a type that were modified since a given time, oldest first.
    func query(
        _ type: String,
        since: Timestamp?,
        marker: String?,
        extent: WireExtent? = nil,
        namesOnly: Bool = false
    ) async throws(CKError) -> (records: [Record], marker: String?) {
        var query = Query(recordType: type)
        if extent?.isEmpty == true { return ([], nil) }
        query.filters = extent?.filters ?? []
        if let since { query.filters += [.init(.modified, .greaterThanOrEquals, [.timestamp(since)])] }
        query.sorts = [.init(.modified)]
        var request = QueryRequest(
            ClientRequest.encode(query),
            in: ZoneID(ZoneID.defaultName),
            desiredKeys: namesOnly ? [] : extent?.fields,
            marker: marker
        )
        request.naming = .asRequested
        let page = try await records(matching: request)
        return (try records(page.entries), page.marker)
    }
}
