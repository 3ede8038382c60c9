import Foundation
import Records
import Wire

extension CKDatabase {
    /// Fetches a record by its ID.
    ///
    /// - Parameter recordID: The ID of the record.
    /// - Returns: A new record object.
    /// - Throws: `unknownItem` if the record does not exist, `zoneNotFound` if its zone does not exist, and the errors
    ///   of any request.
    public func record(for recordID: CKRecord.ID) async throws -> CKRecord {
        let results = try await records(for: [recordID])
        guard let result = results[recordID] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Fetches records by their IDs.
    ///
    /// - Parameters:
    ///   - ids: The IDs of the records, in any zones. Each request covers up to 200 records of one zone.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    /// - Returns: A record or an error for each ID.
    /// - Throws: An error that concerns the request as a whole.
    public func records(
        for ids: [CKRecord.ID],
        desiredKeys: [CKRecord.FieldKey]? = nil
    ) async throws -> [CKRecord.ID: Result<CKRecord, any Error>] {
        var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
        let chunks = ZoneChunk.cut(ids, by: \.zoneID)
        let user = AccountBinding.ofNow(try session.connection())
        try await runChunks(chunks) { chunk throws(CKError) in
            let found = try await user.during { () throws(CKError) in
                try await fetch(chunk, desiredKeys: desiredKeys)
            }
            for (id, result) in found { results[id] = result }
        } failed: { chunk, error in
            for id in chunk.items { results[id] = .failure(error) }
        }
        return results
    }

    /// Fetches a chunk, and halves it if the response would be too large.
    private func fetch(
        _ chunk: ZoneChunk<CKRecord.ID>,
        desiredKeys: [String]?
    ) async throws(CKError) -> [CKRecord.ID: Result<CKRecord, any Error>] {
        do throws(CKError) {
            return try await lookUp(chunk, desiredKeys: desiredKeys)
        } catch  where error.code == .limitExceeded && chunk.items.count > 1 {
            var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
            for half in chunk.halves { results.merge(try await fetch(half, desiredKeys: desiredKeys)) { $1 } }
            return results
        }
    }

    /// Sends one `records/lookup` request.
    private func lookUp(
        _ chunk: ZoneChunk<CKRecord.ID>,
        desiredKeys: [String]?
    ) async throws(CKError) -> [CKRecord.ID: Result<CKRecord, any Error>] {
        let zone = chunk.zoneID
        let connection = try await connectionKnowingCaller()
        // Apps know the current user's record by this name; every user's record is in the public database.
        let me = CKRecord.ID(recordName: CKCurrentUserDefaultName)
        let myName = databaseScope == .public && chunk.items.contains(me) ? try await callerName() : me.recordName
        let names = chunk.items.map { $0 == me ? myName : $0.recordName }
        let body = ClientRequest.lookup(names, in: zone.zone, desiredKeys: desiredKeys)
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let asked = connection.now
        let document = try await call("records/lookup", body)
        connection.saw(names.lazy.map { CKRecord.ID(recordName: $0, zoneID: zone) }, .byName, of: scope, at: asked)
        var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
        // A record that the response omits is not necessarily deleted.
        var missing = CKError(.internalError, "The relay's response does not contain this record.")
        try reading { () throws(JSONError) in
            try ClientResponse.records(document.root, zone: nil) { entry in
                switch entry {
                case .record(let found):
                    let id = CKRecord.ID(recordName: found.id.recordName, zoneID: zone)
                    results[id] = .success(reader.record(found))
                case .share(let found, let share):
                    let id = CKRecord.ID(recordName: found.id.recordName, zoneID: zone)
                    results[id] = .success(reader.record(found, share))
                case .deleted(let name, _, _):
                    results[CKRecord.ID(recordName: name, zoneID: zone)] = .failure(CKError(.unknownItem))
                case .failed(let name, let failure):
                    let error = CKError(failure, at: .item)
                    guard let name else { return missing = error }
                    results[CKRecord.ID(recordName: name, zoneID: zone)] = .failure(error)
                }
            }
        }
        if myName != me.recordName {
            let named = CKRecord.ID(recordName: myName)
            results[me] = results[named]
            if !chunk.items.contains(named) { results[named] = nil }
        }
        for id in chunk.items where results[id] == nil { results[id] = .failure(missing) }
        try await openKeys(for: results.values.lazy.compactMap { try? $0.get() })
        return results
    }
}

/// Items of one zone that are sent in one request.
package struct ZoneChunk<Item> {
    package var zoneID: CKRecordZone.ID
    package var items: [Item]

    /// The maximum number of operations or names per request.
    ///
    /// See Wire.md, "Limits".
    package static var limit: Int { 200 }

    /// The maximum number of operations in one atomic write.
    ///
    /// See Sync.md, "Batches".
    package static var atomicLimit: Int { 400 }

    /// The two halves of a chunk with more than one item.
    var halves: [ZoneChunk] {
        let middle = items.count / 2
        return [items[..<middle], items[middle...]].map { ZoneChunk(zoneID: zoneID, items: Array($0)) }
    }

    /// Groups items by zone, in the order of the zones' first occurrence, and splits groups of more than `limit` items.
    package static func cut(
        _ items: [Item],
        by zone: (Item) -> CKRecordZone.ID,
        limit: Int = Self.limit
    ) -> [ZoneChunk] {
        var order: [CKRecordZone.ID] = []
        var groups: [CKRecordZone.ID: [Item]] = [:]
        for item in items {
            let zoneID = zone(item)
            if groups[zoneID] == nil { order.append(zoneID) }
            groups[zoneID, default: []].append(item)
        }
        return order.flatMap { zoneID -> [ZoneChunk] in
            let group = groups[zoneID] ?? []
            return stride(from: 0, to: group.count, by: limit).map { start in
                ZoneChunk(zoneID: zoneID, items: Array(group[start..<min(start + limit, group.count)]))
            }
        }
    }
}

extension CKDatabase {
    /// Runs a call that needs several requests, one after another.
    ///
    /// An error about a zone becomes the error of that zone's items. As an exception, if the only request is too large,
    /// the call throws, and apps written for CloudKit split it. Any other error ends the call: it is thrown if no
    /// request has succeeded yet; otherwise it becomes the error of all remaining items, so that the results so far are
    /// not lost.
    package func runChunks<Item>(
        _ chunks: [ZoneChunk<Item>],
        _ body: (ZoneChunk<Item>) async throws(CKError) -> Void,
        failed: (ZoneChunk<Item>, CKError) -> Void
    ) async throws(CKError) {
        var isAnyDone = false
        for (index, chunk) in chunks.enumerated() {
            do throws(CKError) {
                try await body(chunk)
                isAnyDone = true
            } catch  where error.isOfZone && !(error.code == .limitExceeded && chunks.count == 1) {
                failed(chunk, error)
                isAnyDone = true
            } catch {
                guard isAnyDone else { throw error }
                for rest in chunks[index...] { failed(rest, error) }
                return
            }
        }
    }

    /// Returns the connection, after making sure that the current user's record name is known.
    ///
    /// Responses of the private database contain it. For the other databases it is requested once per connection. If
    /// that request fails, the call continues, and records contain the user's record name instead of the placeholder.
    package func connectionKnowingCaller() async throws(CKError) -> RelayConnection {
        let connection = try session.connection()
        guard databaseScope != .private, connection.caller.recordName == nil, connection.credentials.namesUser
        else { return connection }
        _ = try? await connection.fetchCallerName()
        return connection
    }
}

extension CKError {
    /// Whether the error concerns one zone of a call and not the call as a whole.
    package var isOfZone: Bool {
        switch code {
        case .zoneNotFound, .userDeletedZone, .zoneBusy, .batchRequestFailed, .limitExceeded, .permissionFailure: true
        default: false
        }
    }
}
