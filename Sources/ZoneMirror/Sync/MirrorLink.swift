import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// One page of a zone's feed, and what the share records in it say of people.
struct MirrorPage: Sendable {
    var records: ZonePage<Record>
    var shares: [(name: String, details: ClientShare)] = []
    /// Records of keys were among the others: what could not be opened before may be openable now.
    var hasKeys = false
    /// By name the zones to which deleted records have moved.
    var goals: [String: String] = [:]
    /// Of the deleted records of somebody else's zone those that still exist, outside of what this user sees.
    var outOfSight: Set<String> = []
    /// How many records follow; `nil` where it is not known.
    var remaining: Int?
    /// What was made ready of the changed records, one for each; empty where nothing was.
    var readied: [ReadiedRecord?] = []
    /// How long the answer was.
    var bytes = 0
    /// Of a page that is written in parts: whether it is the first.
    var isFirstPart = true
    /// Likewise, whether it is the last.
    var isLastPart = true
}

/// A mirror's way to its database: records as values, each call one request.
///
/// In the private database every zone is the user's own, whatever the relay calls them.
struct MirrorLink: Sendable {
    let database: CKDatabase
    private let memory = LinkMemory()
    /// For whom alone it asks; `nil`: for whoever was found to be the owner last.
    private var fixed: AccountBinding?

    init(database: CKDatabase) { self.database = database }

    /// The same for the owner of now, also when another one is found meanwhile: what is to be written was read as theirs.
    func ofNow() -> MirrorLink {
        var link = self
        link.fixed = memory.binding.withLock { $0 }
        return link
    }

    /// The sign-in of that generation was found to be that of the user whose data these are.
    func belongs(to generation: Int) throws(CKError) {
        let binding = AccountBinding(try connection(), generation: generation)
        memory.binding.withLock { $0 = binding }
    }

    /// Makes a request in the name of the user whose data these are, or not at all.
    func asOwner<Answer>(_ ask: () async throws(CKError) -> Answer) async throws(CKError) -> Answer {
        let binding = fixed ?? memory.binding.withLock { $0 }
        do {
            return try await AccountBinding.$current.withValue(binding) { try await ask() }
        } catch {
            throw CKError(from: error)
        }
    }

    var isPrivate: Bool { database.databaseScope == .private }

    func connection() throws(CKError) -> RelayConnection { try database.session.connection() }

    /// The files of this link alone: those of the connection may be in the hands of the program, as assets.
    func files() throws(CKError) -> AssetKeeper? {
        let caller = try connection().caller
        return memory.files.withLock { files in
            if let files, files.caller === caller { return files.keeper }
            guard let keeper = caller.newKeeper() else { return nil }
            files = (caller, keeper)
            return keeper
        }
    }

    func databaseChanges(since token: String?) async throws(CKError) -> DatabasePage {
        let document = try await asOwner { () throws(CKError) in
            try await database.call("changes/database", ClientRequest.databaseChanges(since: token, limit: nil))
        }
        let isPrivate = isPrivate
        var unnamed: ClientResponse.Failure?
        let page = try reading { () throws(JSONError) in
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
                case .deleted(let zone, let loss): page.deleted.append((Self.own(zone, isPrivate), loss))
                // A zone that cannot be read now is told of again by its own feed.
                case .failed(let zone?, _): page.changed.append(Self.own(zone, isPrivate))
                case .failed(nil, let failure): unnamed = unnamed ?? failure
                }
            }
            return page
        }
        if let unnamed { throw CKError(unnamed, at: .item) }
        return page
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
        try page(of: try await zoneAnswer(in: zone, since: token, countsRest: countsRest), in: zone)
    }

    /// A page of a zone's feed as it came: where the next one begins is known already, its records are not read yet.
    struct ZoneAnswer: Sendable {
        fileprivate let entry: JSONValue
        fileprivate let end: ClientResponse.PageEnd

        var token: SyncToken { SyncToken(end.syncToken) }
        var moreComing: Bool { end.moreComing }
    }

    func zoneAnswer(
        in zone: ZoneID,
        since token: String?,
        countsRest: Bool = false
    ) async throws(CKError) -> ZoneAnswer {
        let body = ClientRequest.zoneChanges(
            in: zone,
            since: token,
            desiredKeys: nil,
            limit: nil,
            countsRest: countsRest
        )
        let document = try await asOwner { () throws(CKError) in try await database.call("changes/zone", body) }
        let outcome: Result<ZoneAnswer, CKError> = try reading { () throws(JSONError) in
            guard let entry = try document.root.required("zones").elements().first else {
                return .failure(CKError(.internalError, "The relay's answer leaves the zone out."))
            }
            if let failure = try ClientResponse.failure(entry, zone: zone) {
                return .failure(CKError(failure, at: .item))
            }
            return .success(ZoneAnswer(entry: entry, end: try ClientResponse.pageEnd(entry)))
        }
        return try outcome.get()
    }

    /// Reads a page's records; with a mapping, makes them ready to be written as well.
    ///
    /// Throws where the relay could not give one of them: its token would say that the record is here, and a listing that ends
    /// without it, that it is gone.
    func page(of answer: ZoneAnswer, in zone: ZoneID, readied mapping: RecordMapping? = nil) throws(CKError)
        -> MirrorPage
    {
        var page = MirrorPage(
            records: ZonePage<Record>(changed: [], deleted: [], token: answer.token, moreComing: answer.moreComing)
        )
        page.remaining = answer.end.remaining
        page.bytes = answer.entry.rawBytes.count
        var missing: ClientResponse.Failure?
        try reading { () throws(JSONError) in
            try ClientResponse.visitRecords(answer.entry, zone: zone) { item, entry in
                switch item {
                case .record(let record) where record.type == ZoneSeal.keyRecordType: page.hasKeys = true
                case .record(let record):
                    page.records.changed.append(record)
                    if let mapping { page.readied.append(ReadiedRecord(record, entry, mapping)) }
                case .share(let record, let details):
                    page.records.changed.append(record)
                    page.shares.append((record.id.recordName, details))
                    if mapping != nil { page.readied.append(nil) }
                case .deleted(_, ZoneSeal.keyRecordType, _): break
                case .deleted(let name, let type, _):
                    page.records.deleted.append((RecordID(name, in: zone), type ?? ""))
                    if isPrivate {
                        page.goals[name] = try? entry["movedTo"]?.string()
                    } else if (try? entry["outOfSight"]?.bool()) == true {
                        page.outOfSight.insert(name)
                    }
                case .failed(_, let failure): missing = missing ?? failure
                }
            }
        }
        if let missing { throw CKError(missing, at: .item) }
        return page
    }

    /// Some records of a zone as they are now; those that are not there are left out.
    func lookup(_ names: [String], in zone: ZoneID) async throws(CKError) -> [Record] {
        let body = ClientRequest.lookup(names, in: zone, desiredKeys: nil)
        let document = try await asOwner { () throws(CKError) in try await database.call("records/lookup", body) }
        return try records(document.root, in: zone)
    }

    /// An answer's records without those that are not there; throws where the relay could not give one, which is not gone.
    private func records(_ answer: JSONValue, in zone: ZoneID) throws(CKError) -> [Record] {
        var records: [Record] = []
        var missing: CKError?
        try reading { () throws(JSONError) in
            try ClientResponse.records(answer, zone: zone) { entry in
                switch entry {
                case .record(let record), .share(let record, _): records.append(record)
                case .deleted: break
                case .failed(_, let failure):
                    let error = CKError(failure, at: .item)
                    if error.code != .unknownItem { missing = missing ?? error }
                }
            }
        }
        if let missing { throw missing }
        return records
    }

    /// Makes zones; those that exist already stay as they are.
    func make(_ zones: [ZoneID]) async throws(CKError) {
        let document = try await asOwner { () throws(CKError) in
            try await database.modifyZones(creating: zones, deleting: [])
        }
        let entries = try reading { () throws(JSONError) in try ClientResponse.zones(document.root) }
        for case .failed(_, let failure) in entries {
            let error = CKError(failure, at: .item)
            if error.code != .serverRecordChanged { throw error }
        }
    }

    /// `loss` is what other devices are told of why.
    func delete(_ zone: ZoneID, because loss: ZoneLoss = .deleted) async throws(CKError) {
        try await asOwner { () throws(CKError) in try await database.end(CKRecordZone.ID(zone), because: loss) }
    }

    /// What became of one item.
    enum Answer: Sendable {
        case saved(Record)
        case deleted
        /// With the relay's record, where it differs from ours.
        case failed(CKError, Record?)
    }

    /// Moves records from one zone of this user to another, all or none.
    ///
    /// `deletesSource`: in the same commit the source ends, with its shares; refused where it holds more than these records.
    func move(_ names: [String], from: ZoneID, to: ZoneID, deletesSource: Bool = false) async throws(CKError) {
        let connection = try connection()
        _ = try await asOwner { () throws(CKError) in
            do throws(CallFailure) {
                let scope = database.scope
                let place = [from.description, to.description, "\(deletesSource)"] + names
                return try await connection.write(place, to: from, of: scope, "records/move") { name in
                    ClientRequest.move(names, from: from, to: to, deletesSource: deletesSource, operationID: name)
                }
            } catch {
                throw error.error
            }
        }
    }

    /// Writes records of one zone as they are; one answer for each, in their order.
    func modify(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        atomically: Bool
    ) async throws(CKError) -> [Answer] {
        let connection = try database.session.connection()
        return try await answers(for: writes.count, in: zone) { () throws(CallFailure) in
            try await connection.modify(writes, in: zone, of: database.scope, atomically: atomically)
        }
    }

    /// Sends the body of a `records/modify`, which has a name by which the relay knows it again; one answer for each of its
    /// operations, in their order.
    func modify(_ body: [UInt8], count: Int, in zone: ZoneID) async throws(CKError) -> [Answer] {
        let connection = try database.session.connection()
        return try await answers(for: count, in: zone) { () throws(CallFailure) in
            try await connection.send(RelayCall(database.scope, "records/modify", body, isWrite: true))
        }
    }

    private func answers(
        for count: Int,
        in zone: ZoneID,
        _ ask: () async throws(CallFailure) -> JSONDocument
    ) async throws(CKError) -> [Answer] {
        let document = try await asOwner { () throws(CKError) in
            do throws(CallFailure) {
                return try await ask()
            } catch {
                // An atomic failure is an error answer that lists every item.
                guard error.failure?.error.code == .atomicError, let listed = error.document,
                    listed.root["records"] != nil
                else { throw error.error }
                return listed
            }
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
        while answers.count < count { answers.append(.failed(missing, nil)) }
        return Array(answers.prefix(count))
    }

    /// One page of the records of a type that were modified since a moment, oldest first.
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
        let zone = ZoneID(ZoneID.defaultName)
        let body = ClientRequest.query(
            ClientRequest.encode(query),
            in: zone,
            desiredKeys: namesOnly ? [] : extent?.fields,
            limit: nil,
            marker: marker
        )
        let document = try await database.call("records/query", body)
        let records = try records(document.root, in: zone)
        return (records, try reading { () throws(JSONError) in try document.root["continuationMarker"]?.string() })
    }

    func callerName() async throws(CKError) -> String {
        let connection = try connection()
        do {
            return try await AccountBinding.$current.withValue(nil) { try await connection.fetchCallerName() }
        } catch {
            throw CKError(from: error)
        }
    }
}

/// What a link keeps from one call to the next.
private final class LinkMemory: Sendable {
    /// For whom it asks and writes, whoever signs in meanwhile; `nil` until a sign-in was looked at.
    let binding = Mutex<AccountBinding?>(nil)
    /// Made when a file is first needed, and anew where the container has been configured anew since.
    let files = Mutex<(caller: CallerMemory, keeper: AssetKeeper)?>(nil)
}
