import Records
import SyncCore
import Wire
import ZoneKit

/// One page of a zone's feed, and what the share records in it say of people.
struct MirrorPage: Sendable {
    var records: ZonePage<Record>
    var shares: [(name: String, details: ClientShare)] = []
    /// Records of keys were among the others: what could not be opened before may be openable now.
    var hasKeys = false
    /// How many records follow; `nil` where it is not known.
    var remaining: Int?
}

/// A mirror's way to its database: records as values, each call one request.
///
/// In the private database every zone is the user's own, whatever the relay calls them.
struct MirrorLink: Sendable {
    let database: CKDatabase

    var isPrivate: Bool { database.databaseScope == .private }

    func connection() throws(CKError) -> RelayConnection { try database.session.connection() }

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

    /// `countsRest`: the page says how much follows, which costs the relay a look at all of it.
    func zoneChanges(
        in zone: ZoneID,
        since token: String?,
        countsRest: Bool = false
    ) async throws(CKError) -> MirrorPage {
        let body = ClientRequest.zoneChanges(
            in: zone,
            since: token,
            desiredKeys: nil,
            limit: nil,
            countsRest: countsRest
        )
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
            var (shares, hasKeys): ([(String, ClientShare)], Bool) = ([], false)
            try ClientResponse.records(entry, zone: zone) { item in
                switch item {
                case .record(let record) where record.type == ZoneSeal.keyRecordType: hasKeys = true
                case .record(let record): page.changed.append(record)
                case .share(let record, let details):
                    page.changed.append(record)
                    shares.append((record.id.recordName, details))
                case .deleted(_, ZoneSeal.keyRecordType, _): break
                case .deleted(let name, let type, _): page.deleted.append((RecordID(name, in: zone), type ?? ""))
                case .failed: break
                }
            }
            return .success(MirrorPage(records: page, shares: shares, hasKeys: hasKeys, remaining: end.remaining))
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

    /// Moves records from one zone of this user to another, all or none; returns their new versions.
    func move(_ names: [String], from: ZoneID, to: ZoneID) async throws(CKError) -> [String: String] {
        var writer = JSONWriter(reserving: 256 + names.count * 64)
        writer.object { body in
            body.key("zoneID")
            ZoneIDCodec.write(from, to: &body)
            body.key("destinationZoneID")
            ZoneIDCodec.write(to, to: &body)
            body.member("createDestination", true)
            body.key("records")
            body.array(names) { list, name in list.object { $0.member("recordName", name) } }
        }
        let document = try await database.call("records/move", writer.bytes, isWrite: true)
        return try reading { () throws(JSONError) in
            var tags: [String: String] = [:]
            for entry in try document.root.required("records").elements() {
                let name = try entry.required("recordName").string()
                tags[name] = try entry.required("recordChangeTag").string()
            }
            return tags
        }
    }

    /// Writes records of one zone as they are; one answer for each, in their order.
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
