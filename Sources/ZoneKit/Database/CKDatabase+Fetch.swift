import Foundation
import Records
import Wire

extension CKDatabase {
    /// The record of an address.
    ///
    /// - Parameter recordID: The record's address.
    /// - Returns: A new object.
    /// - Throws: `unknownItem` if there is none, `zoneNotFound` if there is no such zone, and what any call throws.
    public func record(for recordID: CKRecord.ID) async throws -> CKRecord {
        let results = try await records(for: [recordID])
        guard let result = results[recordID] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// The records of some addresses.
    ///
    /// - Parameters:
    ///   - ids: Addresses in any zones; one request is made per zone and 200 of them.
    ///   - desiredKeys: The fields wanted; left out, all.
    /// - Returns: For each address a record or its own error.
    /// - Throws: What concerns the request as a whole.
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

    /// In as many requests as their size takes.
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

    /// One `records/lookup`.
    private func lookUp(
        _ chunk: ZoneChunk<CKRecord.ID>,
        desiredKeys: [String]?
    ) async throws(CKError) -> [CKRecord.ID: Result<CKRecord, any Error>] {
        let zone = chunk.zoneID
        let connection = try await connectionKnowingCaller()
        // Who made a record is told under this name, and everybody's record is in the public database.
        let me = CKRecord.ID(recordName: CKCurrentUserDefaultName)
        let myName = databaseScope == .public && chunk.items.contains(me) ? try await callerName() : me.recordName
        let names = chunk.items.map { $0 == me ? myName : $0.recordName }
        let body = ClientRequest.lookup(names, in: zone.zone, desiredKeys: desiredKeys)
        var reader = RecordReader(scope: scope, caller: connection.caller)
        let asked = connection.now
        let document = try await call("records/lookup", body)
        connection.saw(names.lazy.map { CKRecord.ID(recordName: $0, zoneID: zone) }, .byName, of: scope, at: asked)
        var results: [CKRecord.ID: Result<CKRecord, any Error>] = [:]
        // What an answer says nothing of is not gone by that.
        var missing = CKError(.internalError, "The relay's answer leaves this record out.")
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

/// Items of one zone that go in one request.
package struct ZoneChunk<Item> {
    package var zoneID: CKRecordZone.ID
    package var items: [Item]

    /// The most operations or names that a relay takes at once.
    ///
    /// See Wire.md, "Limits".
    package static var limit: Int { 200 }

    /// The most operations of one atomic write.
    ///
    /// See Sync.md, "Batches".
    package static var atomicLimit: Int { 400 }

    /// The two halves of one with more than one item.
    var halves: [ZoneChunk] {
        let middle = items.count / 2
        return [items[..<middle], items[middle...]].map { ZoneChunk(zoneID: zoneID, items: Array($0)) }
    }

    /// Sorts items by zone, in order of first appearance, and cuts zones with more than `limit`.
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
    /// Runs a call that needs several requests, one after the other.
    ///
    /// A zone's own trouble is its items' own; but that the only request was too large is the call's, which programs for
    /// CloudKit then cut. Anything else ends the call: as a thrown error if nothing has been done yet, else as the error
    /// of all items that were still to go, so that nobody loses what was done.
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

    /// The connection, once it is known under which name the relay speaks of the caller.
    ///
    /// The private database's answers tell that themselves. For the others it is asked for, once per connection; without
    /// an answer the call goes on, and the caller appears under their record name.
    package func connectionKnowingCaller() async throws(CKError) -> RelayConnection {
        let connection = try session.connection()
        guard databaseScope != .private, connection.caller.recordName == nil, connection.credentials.namesUser
        else { return connection }
        _ = try? await connection.fetchCallerName()
        return connection
    }
}

extension CKError {
    /// Whether the error speaks of one zone of a call, not of the call.
    package var isOfZone: Bool {
        switch code {
        case .zoneNotFound, .userDeletedZone, .zoneBusy, .batchRequestFailed, .limitExceeded, .permissionFailure: true
        default: false
        }
    }
}
