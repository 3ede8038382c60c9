import Foundation
import HTTPTypes
import Logging
import RelayAPI
import RelayServer
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

/// CloudKit calls over real HTTP on loopback, with URLSession and the relay's server.
@Suite(.timeLimit(.minutes(15))) struct HTTPTests {
    /// Runs a server with `respond` while `body` runs, and passes `body` an endpoint for alice.
    private func withServer(
        _ respond: @escaping @Sendable (APIRequest) async -> APIResponse,
        _ body: @escaping @Sendable (RelayEndpoint) async throws -> Void
    ) async throws {
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.loops = 1
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let server = RelayServer(
            configuration: configuration,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            onListening: { port.yield($0.port) },
            respond: { request, executor, then in
                Task(executorPreference: executor.tasks) {
                    let response = await respond(request)
                    executor.run { then(response) }
                }
            }
        )
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                defer { port.finish() }
                try await server.run()
                return false
            }
            group.addTask {
                var iterator = ports.makeAsyncIterator()
                guard let port = await iterator.next(), let url = URL(string: "http://127.0.0.1:\(port)/") else {
                    return false
                }
                try await body(.dev(url, user: "alice", deviceID: "phone"))
                return true
            }
            while let isDone = try await group.next() {
                if isDone { group.cancelAll() }
            }
        }
    }

    @Test func callsOverASocketBehaveAsInProcess() async throws {
        let relay = try TestRelay()
        try await withServer({ await relay.respond(to: $0) }) { endpoint in
            let container = CKContainer(identifier: TestRelay.containerIdentifier, endpoint: endpoint)
            #expect(try await container.accountStatus() == .available)
            let database = container.privateCloudDatabase
            let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
            let records = (0..<200).map { number in
                let record = CKRecord(recordType: "Note", recordID: .init(recordName: "r\(number)", zoneID: zone))
                record["text"] = "Größe \(number)"
                return record
            }
            let results = try await database.modifyRecords(saving: records, deleting: [])
            for result in results.saveResults.values { _ = try result.get() }
            let page = try await database.recordZoneChanges(inZoneWith: zone, since: nil)
            #expect(page.modificationResultsByID.count == 200)
            #expect(try page.modificationResultsByID[records[7].recordID]?.get().record["text"] == "Größe 7")
            await #expect(
                performing: { try await database.record(for: .init(recordName: "none", zoneID: zone)) },
                throws: { $0.is(.unknownItem) }
            )
            // The same user's in-process device sees the same records.
            let laptop = relay.device(of: "alice", named: "laptop").privateDatabase
            #expect(try await laptop.record(for: records[0].recordID)["text"] == "Größe 0")
        }
    }

    /// Operations, assets and encrypted values over sockets.
    @Test func operationsAssetsAndEncryptedValuesWorkOverASocket() async throws {
        let relay = try TestRelay()
        try await withServer({ await relay.respond(to: $0) }) { endpoint in
            var endpoint = endpoint
            endpoint.encryptionKey = PassphraseEncryptionKey("alice's own", cost: .light)
            let database = CKContainer(identifier: TestRelay.containerIdentifier, endpoint: endpoint)
                .privateCloudDatabase
            let zone = try await database.save(CKRecordZone(zoneName: "Photos")).zoneID
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("photo-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: file) }
            let content = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
            try content.write(to: file)
            let photo = CKRecord(recordType: "Photo", recordID: .init(recordName: "p", zoneID: zone))
            photo["image"] = CKAsset(fileURL: file)
            photo.encryptedValues["caption"] = "us two"
            let save = CKModifyRecordsOperation(recordsToSave: [photo])
            let isSaved: Bool = await withCheckedContinuation { done in
                save.modifyRecordsCompletionBlock = { saved, _, error in
                    done.resume(returning: error == nil && saved?.count == 1)
                }
                database.add(save)
            }
            #expect(isSaved)

            endpoint.deviceID = "laptop"
            let laptop = CKContainer(identifier: TestRelay.containerIdentifier, endpoint: endpoint)
                .privateCloudDatabase
            let fetch = CKFetchRecordsOperation(recordIDs: [photo.recordID])
            let found: CKRecord? = await withCheckedContinuation { done in
                fetch.fetchRecordsCompletionBlock = { records, _ in done.resume(returning: records?.values.first) }
                laptop.add(fetch)
            }
            #expect(found?.encryptedValues["caption"] == "us two")
            let image = try #require(found?["image"] as? CKAsset)
            #expect(try Data(contentsOf: await image.download()) == content)
        }
    }

    /// The memory of each page of a first fetch is released before the next page arrives.
    @Test func aPageIsReleasedBeforeTheNextArrives() async throws {
        let pages = 40
        let asked = Mutex(0)
        try await withServer({ _ in
            let page = asked.withLock { asked in
                asked += 1
                return asked
            }
            return APIResponse(status: .ok, body: Self.page(page, of: pages))
        }) { endpoint in
            let database = CKContainer(identifier: "iCloud.test", endpoint: endpoint).privateCloudDatabase
            var token: CKServerChangeToken?
            var (count, isMore) = (0, true)
            weak var earlier: CKRecord?
            while isMore {
                let page = try await database.recordZoneChanges(inZoneWith: .init(zoneName: "Notes"), since: token)
                (token, isMore) = (page.changeToken, page.moreComing)
                count += page.modificationResultsByID.count
                // A background task may still hold the page for a moment.
                let end = ContinuousClock.now + .seconds(120)
                while earlier != nil, ContinuousClock.now < end { await Task.yield() }
                #expect(earlier == nil)
                earlier = try page.modificationResultsByID.values.first?.get().record
            }
            #expect(count == 200 * pages)
        }
    }

    private static func page(_ number: Int, of pages: Int) -> [UInt8] {
        let text = String(repeating: "x", count: 300)
        let stamp = #"{"timestamp":1700000000000,"userRecordName":"_1","deviceID":"2"}"#
        let records = (0..<200).map { record in
            #"{"recordName":"record-\#(number)-\#(record)","recordType":"Note","recordChangeTag":"\#(record)","#
                + #""fields":{"text":{"value":"\#(text)","type":"STRING"},"n":{"value":\#(record),"type":"INT64"}},"#
                + #""created":\#(stamp),"modified":\#(stamp)}"#
        }
        let end = #""syncToken":"token-\#(number)","moreComing":\#(number < pages)"#
        let start = #"{"zones":[{"zoneID":{"zoneName":"Notes","ownerRecordName":"_1"},"records":["#
        return Array((start + records.joined(separator: ",") + "]," + end + "}]}").utf8)
    }

    @Test func manyConcurrentCallsAllSucceed() async throws {
        let relay = try TestRelay()
        try await withServer({ await relay.respond(to: $0) }) { endpoint in
            let database = CKContainer(identifier: "iCloud.test", endpoint: endpoint).privateCloudDatabase
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        let record = CKRecord(recordType: "Note", recordID: .init(recordName: "r\(number)"))
                        try await database.save(record)
                    }
                }
                try await group.waitForAll()
            }
            let found = try await database.records(for: (0..<50).map { .init(recordName: "r\($0)") })
            for result in found.values { _ = try result.get() }
        }
    }

    @Test func cancellingEndsARequestWithoutAResponse() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        try await withServer({ _ in
            arrival.yield()
            try? await Task.sleep(for: .seconds(600))
            return APIResponse(status: .ok)
        }) { endpoint in
            let database = CKContainer(identifier: "iCloud.test", endpoint: endpoint).privateCloudDatabase
            let call = Task { try await database.allRecordZones() }
            for await _ in arrivals { break }
            let start = ContinuousClock.now
            call.cancel()
            await #expect(performing: { try await call.value }, throws: { $0.is(.operationCancelled) })
            #expect(ContinuousClock.now - start < .seconds(300))
        }
    }

    @Test func aRefusedConnectionIsReportedAsNetworkFailure() async throws {
        let port = try UnservedPort()
        let url = try #require(URL(string: "http://127.0.0.1:\(port.number)/"))
        let endpoint = RelayEndpoint.dev(url, user: "alice", deviceID: "phone")
        let database = CKContainer(identifier: "iCloud.test", endpoint: endpoint).privateCloudDatabase
        await #expect(
            performing: { try await database.save(CKRecord(recordType: "Note")) },
            throws: { $0.is(.networkFailure) }
        )
    }
}
