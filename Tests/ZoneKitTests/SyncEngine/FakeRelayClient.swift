import Records
import SyncCore
import Synchronization
import Wire
import ZoneKit

/// A private database in memory, for tests of the engine without a relay, a transport or JSON.
///
/// It answers what an engine asks for: zones, change feeds, and writes with change tags. Every other call throws
/// `badDatabase`.
final class FakeRelayClient: RelayClient {
    private struct Zone {
        var records: [String: Record] = [:]
        /// The names of changed and deleted records, in the order of the changes.
        var log: [(name: String, isDeleted: Bool)] = []
    }

    private struct State {
        var zones: [ZoneID: Zone] = [:]
        var zoneLog: [(zone: ZoneID, isDeleted: Bool)] = []
        var failures: [CKError] = []
        var calls: [String] = []
        var tag = 0
    }

    private let state = Mutex(State())

    /// The names of the calls so far.
    var calls: [String] { state.withLock { $0.calls } }

    /// Makes the next feed or write requests fail as a whole, with one error each.
    func fail(_ errors: CKError...) { state.withLock { $0.failures += errors } }

    /// Returns a container whose private database this is.
    func container() -> CKContainer {
        let connection = RelayConnection(
            container: "iCloud.fake",
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: "dev-alice"),
            deviceID: "phone",
            transport: NoTransport()
        )
        return CKContainer(sharing: RelaySession(container: "iCloud.fake", connection: connection) { _ in self })
    }

    private struct NoTransport: RelayTransport {
        func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
            throw .unreachable("A request bypassed the client: \(request.path).")
        }
    }

    private func answer<Answer>(
        _ call: String,
        _ body: (inout State) -> Result<Answer, CKError>
    ) throws(CKError) -> Answer {
        let result: Result<Answer, CKError> = state.withLock { state in
            state.calls.append(call)
            return state.failures.isEmpty ? body(&state) : .failure(state.failures.removeFirst())
        }
        return try result.get()
    }

    private static let unsupported = CKError(.badDatabase, "The fake client has no such call.")
    private static let noZone = RelayError(.zoneNotFound, "The zone does not exist.")

    // MARK: Change feeds

    func databaseChanges(since token: SyncToken?, limit: Int?) async throws(CKError) -> ZoneListPage {
        try answer("databaseChanges") { state in
            let start = token.flatMap { Int($0.text) } ?? 0
            let entries = state.zoneLog[start...].map { change -> ClientResponse.ZoneEntry in
                change.isDeleted
                    ? .deleted(change.zone, .deleted)
                    : .zone(
                        ClientResponse.Zone(id: change.zone)
                    )
            }
            let token = SyncToken("\(state.zoneLog.count)")
            return .success(ZoneListPage(entries: entries, token: token, moreComing: false))
        }
    }

    func zoneChanges(in zone: ZoneID, since token: SyncToken?, _ options: FeedOptions) async throws(CKError) -> FeedPage
    {
        try answer("zoneChanges") { state in
            guard let found = state.zones[zone] else { return .failure(CKError(.init(error: Self.noZone), at: .item)) }
            let start = token.flatMap { Int($0.text) } ?? 0
            let last = Dictionary(found.log[start...].map { ($0.name, $0.isDeleted) }) { $1 }
            let entries = last.sorted { $0.key < $1.key }.map { name, isDeleted -> ClientResponse.RecordEntry in
                if !isDeleted, let record = found.records[name] { return .record(record) }
                return .deleted(name: name, type: nil, zone: zone)
            }
            return .success(
                FeedPage(token: SyncToken("\(found.log.count)"), moreComing: false) { visit in
                    for entry in entries { visit(entry, nil) }
                }
            )
        }
    }

    func schemaVersion() async throws(CKError) -> Int64 { 1 }

    // MARK: Records

    func modifyRecords(
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        atomically isAtomic: Bool
    ) async throws(CKError) -> [ClientResponse.RecordEntry] {
        try answer("modifyRecords") { state in
            guard var found = state.zones[zone] else {
                return .failure(CKError(.init(error: Self.noZone), at: .request))
            }
            let entries = writes.map { Self.apply($0, in: zone, to: &found, &state.tag) }
            state.zones[zone] = found
            state.zoneLog.append((zone, false))
            return .success(entries)
        }
    }

    private static func apply(
        _ write: ClientRequest.Write,
        in zone: ZoneID,
        to found: inout Zone,
        _ tag: inout Int
    ) -> ClientResponse.RecordEntry {
        let known = found.records[write.recordName]
        if write.type == .create ? known != nil : write.type.needsChangeTag && known?.changeTag != write.changeTag {
            let error = RelayError(.conflict, "The record has changed.")
            return .failed(name: write.recordName, .init(error: error, serverRecord: known))
        }
        found.log.append((write.recordName, write.type.isDelete))
        guard !write.type.isDelete else {
            found.records[write.recordName] = nil
            return .deleted(name: write.recordName, type: known?.type, zone: zone)
        }
        tag += 1
        var record = known ?? Record(id: RecordID(write.recordName, in: zone), type: write.recordType ?? "")
        record.changeTag = "\(tag)"
        for (name, value) in write.fields { record.fields[name] = value }
        found.records[write.recordName] = record
        return .record(record)
    }

    func records(
        named names: [String],
        in zone: ZoneID,
        _ naming: ZoneNaming,
        desiredKeys: [String]?
    ) async throws(CKError) -> [ClientResponse.RecordEntry] { throw Self.unsupported }

    func records(matching query: QueryRequest) async throws(CKError) -> QueryPage { throw Self.unsupported }

    func modifyRecords(_ body: [UInt8], in zone: ZoneID) async throws(CKError) -> [ClientResponse.RecordEntry] {
        throw Self.unsupported
    }

    func moveRecords(
        _ names: [String],
        from source: ZoneID,
        to target: ZoneID,
        deletesSource: Bool
    ) async throws(CKError) { throw Self.unsupported }

    // MARK: Zones

    func zones(_ ids: [ZoneID]?) async throws(CKError) -> [ClientResponse.ZoneEntry] { throw Self.unsupported }

    func modifyZones(
        creating: [ZoneID],
        deleting: [ZoneID],
        because reason: ZoneDeletionReason
    ) async throws(CKError) -> [ClientResponse.ZoneEntry] {
        try answer("modifyZones") { state in
            var entries: [ClientResponse.ZoneEntry] = []
            for zone in creating {
                state.zones[zone] = state.zones[zone] ?? Zone()
                state.zoneLog.append((zone, false))
                entries.append(.zone(ClientResponse.Zone(id: zone)))
            }
            for zone in deleting {
                guard state.zones.removeValue(forKey: zone) != nil else {
                    entries.append(.failed(zone, .init(error: Self.noZone)))
                    continue
                }
                state.zoneLog.append((zone, true))
                entries.append(.deleted(zone, reason))
            }
            return .success(entries)
        }
    }

    // MARK: Others

    func callerName() async throws(CKError) -> String { "_alice" }

    func modifySubscriptions(
        creating: [Subscription],
        deleting: [String]
    ) async throws(CKError) -> [ClientResponse.SubscriptionEntry] { creating.map { .subscription($0) } }

    func subscriptions(_ ids: [String]?) async throws(CKError) -> [ClientResponse.SubscriptionEntry] {
        throw Self.unsupported
    }

    func limits() async throws(CKError) -> RelayLimits { RelayLimits() }
    func users(_ lookups: [ClientIdentity.Lookup]?) async throws(CKError) -> [ClientIdentity] { throw Self.unsupported }

    func shares(_ call: ShareCall) async throws(CKError) -> [ClientResponse.ShareMetadataEntry] {
        throw Self.unsupported
    }

    func requestAccess(toShares names: [String]) async throws(CKError) -> [ClientResponse.Failure?] {
        throw Self.unsupported
    }

    func registerForPushes(_ target: RelayPushTarget?) async throws(CKError) { throw Self.unsupported }

    func uploadTarget(for field: ClientRequest.UploadField, in zone: ZoneID) async throws(CKError) -> UploadTarget {
        throw Self.unsupported
    }

    func rereference(_ field: String, of record: RecordID) async throws(CKError) -> Asset? { throw Self.unsupported }
}
