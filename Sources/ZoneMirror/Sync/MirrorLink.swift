import Records
import SyncCore
import Wire
import ZoneKit

/// One page of a zone's feed, and the share records in it as they came.
struct MirrorPage: Sendable {
    var records: ZonePage<Record>
    var shares: [[UInt8]] = []
}

/// A mirror's way to its database: records as values, each call one request.
///
/// In the private database every zone is the user's own, whatever the relay calls them.
struct MirrorLink: Sendable {
    let database: CKDatabase

    var isPrivate: Bool { database.databaseScope == .private }

    func databaseChanges(since token: String?) async throws(CKError) -> DatabasePage {
        let document = try await database.call(
            "changes/database",
            ClientRequest.databaseChanges(since: token, limit: nil)
        )
        let isPrivate = isPrivate
        return try reading { () throws(JSONError) in
            let end = try ClientResponse.pageEnd(document.root)
            var page = DatabasePage(
                changed: [],
                deleted: [],
                token: SyncToken(end.syncToken),
                moreComing: end.moreComing
            )
            for entry in try ClientResponse.zones(document.root) {
                switch entry {
                case .zone(let zone): page.changed.append(Self.own(zone.id, isPrivate))
                case .deleted(let zone): page.deleted.append((Self.own(zone, isPrivate), .deleted))
                // A zone that cannot be read now is told of again by its own feed.
                case .failed(let zone?, _): page.changed.append(Self.own(zone, isPrivate))
                case .failed(nil, _): break
                }
            }
            return page
        }
    }

    private static func own(_ zone: ZoneID, _ isPrivate: Bool) -> ZoneID {
        isPrivate ? ZoneID(zone.zoneName) : zone
    }

    func zoneChanges(in zone: ZoneID, since token: String?) async throws(CKError) -> MirrorPage {
        let body = ClientRequest.zoneChanges(in: zone, since: token, desiredKeys: nil, limit: nil)
        let document = try await database.call("changes/zone", body)
        let outcome: Result<MirrorPage, CKError> = try reading { () throws(JSONError) in
            guard let entry = try document.root.required("zones").elements().first else {
                return .failure(CKError(.internalError, "The relay's answer leaves the zone out."))
            }
            if let failure = try ClientResponse.failure(entry, zone: zone) {
                return .failure(CKError(failure, at: .item))
            }
            let end = try ClientResponse.pageEnd(entry)
            var page = ZonePage<Record>(
                changed: [],
                deleted: [],
                token: SyncToken(end.syncToken),
                moreComing: end.moreComing
            )
            try ClientResponse.records(entry, zone: zone) { item in
                switch item {
                case .record(let record), .share(let record, _): page.changed.append(record)
                case .deleted(let name, let type, _): page.deleted.append((RecordID(name, in: zone), type ?? ""))
                case .failed: break
                }
            }
            var found = MirrorPage(records: page)
            if page.changed.contains(where: { $0.type == Share.recordType }) {
                // What a share record says beside its fields is read from its own text.
                for json in try entry.required("records").elements()
                where try json["recordType"]?.string() == Share.recordType && json["recordName"] != nil {
                    found.shares.append(Array(json.rawBytes))
                }
            }
            return .success(found)
        }
        return try outcome.get()
    }

    /// Makes zones; those that exist already stay as they are.
    func make(_ zones: [ZoneID]) async throws(CKError) {
        let document = try await database.call(
            "zones/modify",
            ClientRequest.modify(creating: zones, deleting: []),
            isWrite: true
        )
        let entries = try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .serverRecordChanged { throw error }
        }
    }

    func delete(_ zone: ZoneID) async throws(CKError) {
        let document = try await database.call(
            "zones/modify",
            ClientRequest.modify(creating: [], deleting: [zone]),
            isWrite: true
        )
        let entries = try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .zoneNotFound { throw error }
        }
    }

    /// What became of one item.
    enum Answer: Sendable {
        case saved(Record)
        case deleted
        /// With the relay's record, where it differs from ours.
        case failed(CKError, Record?)
    }

    /// Writes records of one zone; one answer for each, in their order.
    func modify(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        atomically: Bool
    ) async throws(CKError) -> [Answer] {
        let connection = try database.session.connection()
        let document: JSONDocument
        do throws(CallFailure) {
            document = try await connection.modify(writes, in: zone, of: database.scope, atomically: atomically)
        } catch {
            // An atomic failure is an error answer that lists every item.
            guard error.failure?.error.code == .atomicError, let listed = error.document, listed.root["records"] != nil
            else { throw error.error }
            document = listed
        }
        var answers: [Answer] = []
        try reading { () throws(JSONError) in
            try ClientResponse.records(document.root, zone: zone) { entry in
                switch entry {
                case .record(let record), .share(let record, _): answers.append(.saved(record))
                case .deleted: answers.append(.deleted)
                case .failed(_, let failure):
                    answers.append(.failed(CKError(failure, at: .item), failure.serverRecord))
                }
            }
        }
        let missing = CKError(.internalError, "The relay's answer leaves this item out.")
        while answers.count < writes.count { answers.append(.failed(missing, nil)) }
        return answers
    }

    /// Carries out the operation that makes or changes a zone's share; returns the record as it came back.
    func modifyShare(_ operation: [UInt8], in zone: ZoneID) async throws(CKError) -> [UInt8] {
        var writer = JSONWriter(reserving: operation.count + 128)
        writer.object { body in
            body.key("zoneID")
            body.object { id in
                id.member("zoneName", zone.zoneName)
                if zone.owner != .caller { id.member("ownerRecordName", zone.owner.recordName) }
            }
            body.member("atomic", false)
            body.key("operations")
            body.array(CollectionOfOne(operation)) { $0.raw($1) }
        }
        let document = try await database.call("records/modify", writer.bytes, isWrite: true)
        let outcome: Result<[UInt8], CKError> = try reading { () throws(JSONError) in
            guard let entry = try document.root.required("records").elements().first else {
                return .failure(CKError(.internalError, "The relay's answer leaves the share out."))
            }
            if let failure = try ClientResponse.failure(entry, zone: zone) {
                return .failure(CKError(failure, at: .item))
            }
            return .success(Array(entry.rawBytes))
        }
        return try outcome.get()
    }

    /// One page of the records of a type that were modified since a moment, oldest first.
    func query(
        _ type: String,
        since: Timestamp?,
        marker: String?,
        namesOnly: Bool = false
    ) async throws(CKError) -> (records: [Record], marker: String?) {
        var query = Query(recordType: type)
        if let since { query.filters = [.init(.modified, .greaterThanOrEquals, [.timestamp(since)])] }
        query.sorts = [.init(.modified)]
        let zone = ZoneID(ZoneID.defaultName)
        let body = ClientRequest.query(
            ClientRequest.encode(query),
            in: zone,
            desiredKeys: namesOnly ? [] : nil,
            limit: nil,
            marker: marker
        )
        let document = try await database.call("records/query", body)
        return try reading { () throws(JSONError) in
            var records: [Record] = []
            try ClientResponse.records(document.root, zone: zone) { entry in
                if case .record(let record) = entry { records.append(record) }
            }
            return (records, try document.root["continuationMarker"]?.string())
        }
    }

    func callerName() async throws(CKError) -> String {
        try await database.session.connection().fetchCallerName()
    }
}
