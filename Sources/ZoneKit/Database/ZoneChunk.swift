import Records

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
    package static func split(
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
            } catch  where error.isZoneError && !(error.code == .limitExceeded && chunks.count == 1) {
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
    package func connectionResolvingCaller() async throws(CKError) -> RelayConnection {
        let connection = try session.connection()
        guard databaseScope != .private, connection.caller.recordName == nil, connection.credentials.identifiesUser
        else { return connection }
        _ = try? await client.callerName()
        return connection
    }
}

extension CKError {
    /// Whether the error concerns one zone of a call and not the call as a whole.
    package var isZoneError: Bool {
        switch code {
        case .zoneNotFound, .userDeletedZone, .zoneBusy, .batchRequestFailed, .limitExceeded, .permissionFailure: true
        default: false
        }
    }
}
