import Foundation
import ZoneKit

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Measures the client against a relay on this machine, each figure beside its floor.
@main struct ClientBenchmarks {
    static func main() async throws {
        guard let address = CommandLine.arguments.dropFirst().first, let url = URL(string: address) else {
            let parts = "[saves] [import] [export] [living] [visible]"
            print("usage: ClientBenchmarks http://127.0.0.1:PORT [kit] [mirror \(parts)]")
            print("The relay must run with --dev.")
            exit(64)
        }
        let rows = Set(CommandLine.arguments.dropFirst(2))
        let run = UUID().uuidString.prefix(8)
        let container = "iCloud.zonecast.kit-benchmarks"
        @Sendable func device(_ user: String) -> CKContainer {
            CKContainer(identifier: container, endpoint: .dev(url, user: "\(user)-\(run)"))
        }
        if rows.isEmpty || rows.contains("kit") {
            try await FetchRow(container: device("fetch"), count: 100_000).run()
            try await SendRow(container: device("send"), url: url, user: "send-\(run)", count: 10_000).run()
            try await VisibleRow(first: device("see"), second: device("see"), rounds: 200).run()
        }
        if rows.isEmpty || rows.contains("mirror") {
            try await MirrorRows(device: device, parts: rows.subtracting(["kit", "mirror"])).run()
        }
    }

    static func time(_ body: () async throws -> Void) async rethrows -> Double {
        let start = ContinuousClock.now
        try await body()
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        return Double(seconds) + Double(attoseconds) * 1e-18
    }
}

/// A record with a text, a number and a date.
func note(_ number: Int, in zone: CKRecordZone.ID) -> CKRecord {
    let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "note-\(number)", zoneID: zone))
    record["title"] = "Note number \(number)"
    record["count"] = number
    record["at"] = Date(timeIntervalSince1970: Double(number))
    return record
}

extension CKDatabase {
    /// Saves records in requests of 200, four at a time.
    func fill(_ zone: CKRecordZone.ID, count: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in stride(from: 0, to: count, by: 200) {
                if start >= 800 { try await group.next() }
                group.addTask {
                    let records = (start..<min(start + 200, count)).map { note($0, in: zone) }
                    let results = try await self.modifyRecords(saving: records, deleting: [], savePolicy: .allKeys)
                    for result in results.saveResults.values { _ = try result.get() }
                }
            }
            try await group.waitForAll()
        }
    }
}

/// How fast the records of a whole zone are fetched.
struct FetchRow {
    var container: CKContainer
    var count: Int

    func run() async throws {
        let database = container.privateCloudDatabase
        let zone = CKRecordZone(zoneName: "Fetch")
        try await database.save(zone)
        try await database.fill(zone.zoneID, count: count)
        var fetched = 0
        let seconds = try await ClientBenchmarks.time {
            var token: CKServerChangeToken?
            var moreComing = true
            while moreComing {
                let page = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
                fetched += page.modificationResultsByID.count
                token = page.changeToken
                moreComing = page.moreComing
            }
        }
        print("fetch of \(fetched) records: \(Int(Double(fetched) / seconds)) records/s (target: 50000)")
    }
}

/// How fast changed records are sent, beside the same bytes encoded in advance.
struct SendRow {
    var container: CKContainer
    var url: URL
    var user: String
    var count: Int

    func run() async throws {
        let database = container.privateCloudDatabase
        let zone = CKRecordZone(zoneName: "Send")
        try await database.save(zone)
        try await database.fill(zone.zoneID, count: count)
        var records: [CKRecord] = []
        for start in stride(from: 0, to: count, by: 200) {
            let ids = (start..<min(start + 200, count)).map { note($0, in: zone.zoneID).recordID }
            records += try await database.records(for: ids).values.map { try $0.get() }
        }
        for record in records { record["title"] = "changed" }
        let ours = try await ClientBenchmarks.time {
            for start in stride(from: 0, to: records.count, by: 200) {
                let batch = Array(records[start..<min(start + 200, records.count)])
                let results = try await database.modifyRecords(saving: batch, deleting: [])
                for result in results.saveResults.values { _ = try result.get() }
            }
        }
        let bodies = stride(from: 0, to: count, by: 200).map { readyBody($0..<min($0 + 200, count)) }
        let session = URLSession(configuration: .ephemeral)
        let path = "/database/1/\(container.containerIdentifier ?? "")/development/private/records/modify"
        guard let address = URL(string: url.absoluteString + path + "?ckWebAuthToken=dev-\(user)") else { return }
        let bare = try await ClientBenchmarks.time {
            for body in bodies {
                var request = URLRequest(url: address)
                request.httpMethod = "POST"
                request.httpBody = body
                let (data, _) = try await session.data(for: request)
                precondition(data.count > 1000)
            }
        }
        let (mine, floor) = (Double(count) / ours, Double(count) / bare)
        print("send of \(count) changed records: \(Int(mine))/s, ready bytes: \(Int(floor))/s, ", terminator: "")
        print("ratio \((mine / floor * 100).rounded() / 100) (target: 0.5)")
    }

    private func readyBody(_ numbers: Range<Int>) -> Data {
        let operations = numbers.map { number in
            #"""
            {"operationType":"forceUpdate","record":{"recordName":"note-\#(number)","recordType":"Note",
            "fields":{"title":{"value":"changed again","type":"STRING"}}}}
            """#
        }
        return Data(#"{"zoneID":{"zoneName":"Send"},"operations":[\#(operations.joined(separator: ","))]}"#.utf8)
    }
}

/// The delay until another engine sees a save.
struct VisibleRow {
    var first: CKContainer
    var second: CKContainer
    var rounds: Int

    func run() async throws {
        let zone = CKRecordZone(zoneName: "See")
        try await first.privateCloudDatabase.save(zone)
        let writer = Follower(first.privateCloudDatabase, zone.zoneID)
        let reader = Follower(second.privateCloudDatabase, zone.zoneID)
        try await writer.write("warm up")
        try await reader.saw("warm up")
        var times: [Double] = []
        for round in 0..<rounds {
            // Edits within 50 ms of each other are sent together on purpose, so measure one after a pause.
            try await Task.sleep(for: .milliseconds(100))
            let text = "round \(round)"
            times.append(
                try await ClientBenchmarks.time {
                    try await writer.write(text)
                    try await reader.saw(text)
                }
            )
        }
        times.sort()
        let milliseconds = times.map { ($0 * 10_000).rounded() / 10 }
        print(
            "a save seen by another engine: median \(milliseconds[rounds / 2]) ms, "
                + "99 % \(milliseconds[rounds * 99 / 100]) ms (target: 20 at the median)"
        )
    }
}

/// One record that a sync engine keeps up to date.
actor Follower: CKSyncEngineDelegate {
    private var engine: CKSyncEngine?
    private var known: CKRecord?
    private var text = ""
    private var waiting: (text: String, done: CheckedContinuation<Void, Never>)?
    private let id: CKRecord.ID

    init(_ database: CKDatabase, _ zone: CKRecordZone.ID) {
        id = CKRecord.ID(recordName: "one", zoneID: zone)
        Task { await self.begin(database) }
    }

    private func begin(_ database: CKDatabase) {
        guard engine == nil else { return }
        engine = CKSyncEngine(.init(database: database, stateSerialization: nil, delegate: self))
    }

    func write(_ text: String) async throws {
        while engine == nil { await Task.yield() }
        self.text = text
        engine?.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    func saw(_ text: String) async throws {
        if known?["text"] as? String == text { return }
        await withCheckedContinuation { waiting = (text, $0) }
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .fetchedRecordZoneChanges(let changes):
            if let record = changes.modifications.last?.record { known = record }
        case .sentRecordZoneChanges(let sent):
            if let record = sent.savedRecords.last { known = record }
            if let server = sent.failedRecordSaves.last?.error.serverRecord {
                known = server
                syncEngine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
            }
        default: break
        }
        if let (text, done) = waiting, known?["text"] as? String == text {
            waiting = nil
            done.resume()
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let pending = syncEngine.state.pendingRecordZoneChanges
        guard !pending.isEmpty else { return nil }
        let record = known ?? CKRecord(recordType: "Note", recordID: id)
        record["text"] = text
        return CKSyncEngine.RecordZoneChangeBatch(recordsToSave: [record])
    }
}
