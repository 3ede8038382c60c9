import CloudKit
import Synchronization
import Testing
import ZoneTesting

// An album that is sent and fetched by queues of operations: each step depends on the one before, too large batches are
// split in half, temporary failures are retried, and operations can be cancelled at any time.

private final class Results<Value>: @unchecked Sendable {
    private let values = Mutex<[Value]>([])
    func append(_ value: sending Value) {
        let value = UncheckedBox(value)
        values.withLock { $0.append(value.value) }
    }
    var all: [Value] { values.withLock { UncheckedBox($0) }.value }
    private struct UncheckedBox<T>: @unchecked Sendable {
        let value: T
        init(_ value: T) { self.value = value }
    }
}

@Suite(.timeLimit(.minutes(15))) struct PhotoUploadTests {
    private let relay: TestRelay
    private let device: TestDevice
    private let database: CKDatabase
    private let zone = CKRecordZone(zoneName: "Album")

    init() throws {
        relay = try TestRelay()
        device = relay.device(of: "alice")
        database = device.privateDatabase
    }

    private func photo(_ name: String) -> CKRecord {
        let record = CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
        record["title"] = name
        return record
    }

    private func file(_ bytes: Int) throws -> URL {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).jpg")
        try Data(repeating: 3, count: bytes).write(to: url)
        return url
    }

    private func run(_ operations: [CKDatabaseOperation], on queue: OperationQueue = OperationQueue()) async {
        for operation in operations { operation.database = database }
        await withCheckedContinuation { done in
            DispatchQueue(label: "album").async {
                queue.addOperations(operations, waitUntilFinished: true)
                done.resume()
            }
        }
    }

    // MARK: Dependencies

    @Test func eachOperationWaitsForItsDependency() async throws {
        let steps = Results<String>()
        let zones = CKModifyRecordZonesOperation(recordZonesToSave: [zone], recordZoneIDsToDelete: nil)
        zones.perRecordZoneSaveBlock = { id, result in
            steps.append("zone \(id.zoneName) \((try? result.get())?.capabilities.contains(.atomic) == true)")
        }
        zones.modifyRecordZonesResultBlock = { _ in steps.append("zones") }
        let photos = CKModifyRecordsOperation(recordsToSave: [photo("a"), photo("b")], recordIDsToDelete: nil)
        photos.perRecordSaveBlock = { id, _ in steps.append(id.recordName) }
        photos.modifyRecordsResultBlock = { _ in steps.append("photos") }
        let subscription = CKRecordZoneSubscription(zoneID: zone.zoneID, subscriptionID: "album")
        let watch = CKModifySubscriptionsOperation(subscriptionsToSave: [subscription], subscriptionIDsToDelete: [])
        watch.perSubscriptionSaveBlock = { id, _ in steps.append("watch \(id)") }
        let fetch = CKFetchRecordsOperation(recordIDs: [photo("a").recordID])
        fetch.desiredKeys = []
        fetch.fetchRecordsCompletionBlock = { found, _ in
            steps.append("keys \(found?.values.first?.allKeys() ?? ["?"])")
        }
        let list = CKFetchRecordZonesOperation.fetchAllRecordZonesOperation()
        list.fetchRecordZonesCompletionBlock = { found, _ in steps.append("\(found?.count ?? 0) zones") }
        photos.addDependency(zones)
        watch.addDependency(photos)
        fetch.addDependency(watch)
        list.addDependency(fetch)
        await run([list, fetch, watch, photos, zones])
        #expect(
            steps.all == ["zone Album true", "zones", "a", "b", "photos", "watch album", "keys []", "2 zones"]
        )
        #expect(list.isFinished && !list.isExecuting && !list.isCancelled)
    }

    // MARK: Too large batches

    /// As many programs do: splits a too large batch in half, repeatedly.
    private func upload(_ records: [CKRecord], _ batches: Results<Int>) async -> Error? {
        await withCheckedContinuation { done in
            @Sendable func send(_ part: [CKRecord], _ completion: @escaping @Sendable (Error?) -> Void) {
                let operation = CKModifyRecordsOperation(recordsToSave: part, recordIDsToDelete: nil)
                operation.isAtomic = false
                operation.savePolicy = .changedKeys
                operation.modifyRecordsCompletionBlock = { saved, _, error in
                    guard let error = error as? CKError, error.code == .limitExceeded, part.count > 1 else {
                        batches.append(saved?.count ?? 0)
                        return completion(error)
                    }
                    let half = part.count / 2
                    send(Array(part[..<half])) { first in
                        if let first { return completion(first) }
                        send(Array(part[half...]), completion)
                    }
                }
                database.add(operation)
            }
            send(records) { done.resume(returning: $0) }
        }
    }

    @Test func aTooLargeBatchIsSplitInHalves() async throws {
        _ = try await database.save(zone)
        let records = (0..<1_000).map { photo("p\($0)") }
        let batches = Results<Int>()
        #expect(await upload(records, batches) == nil)
        #expect(batches.all.reduce(0, +) == 1_000)
        let single = photo("huge")
        single["text"] = String(repeating: "x", count: 1_100_000)
        let error = await upload([single], batches) as? CKError
        #expect(error?.code == .limitExceeded || error?.code == .partialFailure)
    }

    // MARK: Retries

    @Test func aThrottledSaveIsRetriedAfterTheGivenTime() async throws {
        _ = try await database.save(zone)
        device.network.throttle(for: .seconds(7))
        let waits = Results<Double>()
        func attempt(_ left: Int) async -> Error? {
            let operation = CKModifyRecordsOperation(recordsToSave: [photo("a")], recordIDsToDelete: [])
            let error: Error? = await withCheckedContinuation { done in
                operation.modifyRecordsCompletionBlock = { _, _, error in done.resume(returning: error) }
                database.add(operation)
            }
            guard left > 0, let ckError = error as? CKError else { return error }
            switch ckError.code {
            case .requestRateLimited, .serviceUnavailable, .zoneBusy:
                guard let wait = ckError.userInfo[CKErrorRetryAfterKey] as? Double else { return error }
                waits.append(wait)
                await relay.advance(by: .seconds(wait))
                return await attempt(left - 1)
            default: return error
            }
        }
        #expect(await attempt(3) == nil)
        #expect(waits.all.count <= 1 && waits.all.allSatisfy { $0 > 0 && $0 <= 7 })
        #expect(try await database.record(for: photo("a").recordID)["title"] as? String == "a")
    }

    @Test func withoutANetworkOperationsReportIt() async throws {
        _ = try await database.save(zone)
        device.network.cut()
        let errors = Results<CKError.Code?>()
        let save = CKModifyRecordsOperation(recordsToSave: [photo("a")], recordIDsToDelete: nil)
        save.modifyRecordsResultBlock = { result in
            if case .failure(let error) = result { errors.append((error as? CKError)?.code) }
        }
        let query = CKQueryOperation(query: CKQuery(recordType: "Photo", predicate: NSPredicate(value: true)))
        query.queryResultBlock = { result in
            if case .failure(let error) = result { errors.append((error as? CKError)?.code) }
        }
        for operation in [save, query] {
            operation.configuration.timeoutIntervalForResource = 5
            operation.configuration.qualityOfService = .userInitiated
        }
        await run([save, query])
        #expect(errors.all.count == 2 && errors.all.allSatisfy { $0 == .networkUnavailable || $0 == .networkFailure })
    }

    // MARK: Cancellation

    @Test func aCancelledUploadSavesNothing() async throws {
        _ = try await database.save(zone)
        let url = try file(300_000)
        defer { try? FileManager.default.removeItem(at: url) }
        let records = ["a", "b", "c"].map { name in
            let record = photo(name)
            record["file"] = CKAsset(fileURL: url)
            return record
        }
        let operation = CKModifyRecordsOperation(recordsToSave: records, recordIDsToDelete: nil)
        let outcome = Results<CKError.Code?>()
        operation.perRecordProgressBlock = { [unowned operation] _, _ in operation.cancel() }
        operation.modifyRecordsResultBlock = { result in
            if case .failure(let error) = result { outcome.append((error as? CKError)?.code) }
        }
        let after = CKFetchRecordsOperation(recordIDs: records.map(\.recordID))
        let left = Results<Int>()
        after.fetchRecordsCompletionBlock = { found, _ in left.append(found?.count ?? 0) }
        after.addDependency(operation)
        await run([operation, after])
        #expect(outcome.all == [.operationCancelled] && left.all == [0])
        #expect(operation.isCancelled && operation.isFinished)
        #expect(records.allSatisfy { $0.changedKeys().sorted() == ["file", "title"] && $0.recordChangeTag == nil })
    }

    @Test func cancellingAQueueCancelsItsWaitingOperations() async throws {
        let queue = OperationQueue()
        queue.isSuspended = true
        let codes = Results<CKError.Code?>()
        let operations = (0..<3).map { number in
            let operation = CKFetchRecordsOperation(recordIDs: [photo("p\(number)").recordID])
            operation.fetchRecordsResultBlock = { result in
                if case .failure(let error) = result { codes.append((error as? CKError)?.code) }
            }
            operation.database = database
            return operation
        }
        operations[1].addDependency(operations[0])
        operations[2].addDependency(operations[1])
        operations.forEach(queue.addOperation)
        queue.cancelAllOperations()
        queue.isSuspended = false
        await withCheckedContinuation { done in
            DispatchQueue(label: "wait").async {
                queue.waitUntilAllOperationsAreFinished()
                done.resume()
            }
        }
        #expect(operations.allSatisfy { $0.isFinished && $0.isCancelled } && queue.operationCount == 0)
        #expect(codes.all.allSatisfy { $0 == .operationCancelled })
        #expect(!device.network.operations.contains("records/lookup"))
    }

    // MARK: Paging

    @Test func aCancelledFetchContinuesFromItsToken() async throws {
        _ = try await database.save(zone)
        _ = try await database.modifyRecords(saving: (0..<50).map { photo("p\($0)") }, deleting: [])
        let other = CKRecordZone(zoneName: "Gone")
        func fetch(_ token: CKServerChangeToken?, stopAfter most: Int) async -> (
            names: [String], token: CKServerChangeToken?, zones: [String: CKError.Code?], end: CKError.Code?
        ) {
            let mine = CKFetchRecordZoneChangesOperation.ZoneConfiguration(
                previousServerChangeToken: token,
                resultsLimit: 10,
                desiredKeys: ["title"]
            )
            let operation = CKFetchRecordZoneChangesOperation(
                recordZoneIDs: [zone.zoneID, other.zoneID],
                configurationsByRecordZoneID: [zone.zoneID: mine]
            )
            nonisolated(unsafe) var (names, last) = ([String](), token)
            nonisolated(unsafe) var zones: [String: CKError.Code?] = [:]
            nonisolated(unsafe) var end: CKError.Code?
            operation.recordWasChangedBlock = { id, _ in names.append(id.recordName) }
            operation.recordZoneChangeTokensUpdatedBlock = { [unowned operation] _, token, _ in
                last = token
                if names.count >= most { operation.cancel() }
            }
            operation.recordZoneFetchResultBlock = { id, result in
                if case .failure(let error) = result {
                    zones.updateValue((error as? CKError)?.code, forKey: id.zoneName)
                } else {
                    zones.updateValue(nil, forKey: id.zoneName)
                }
            }
            operation.fetchRecordZoneChangesCompletionBlock = { end = ($0 as? CKError)?.code }
            await run([operation])
            return (names, last, zones, end)
        }
        let first = await fetch(nil, stopAfter: 20)
        #expect(first.names.count == 20 && first.end == .operationCancelled)
        let rest = await fetch(first.token, stopAfter: .max)
        #expect(Set(first.names + rest.names).count == 50 && rest.names.count == 30)
        #expect(rest.zones["Gone"] == .some(.zoneNotFound) && rest.zones["Album"] == .some(nil))
        #expect(rest.end == .partialFailure)
        // The relay was restored from a backup: the token has expired.
        try relay.expireChangeTokens()
        let expired = await fetch(rest.token, stopAfter: .max)
        #expect(expired.zones["Album"] == .some(.changeTokenExpired) && expired.names.isEmpty)
        #expect(await fetch(nil, stopAfter: .max).names.count == 50)
    }
}
