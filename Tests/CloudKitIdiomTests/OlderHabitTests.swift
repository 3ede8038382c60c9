import CloudKit
import Dispatch
import Synchronization
import Testing
import ZoneTesting

/// Idioms of programs that were written for CloudKit long before Swift concurrency.
@Suite(.timeLimit(.minutes(15))) struct OlderHabitTests {
    private let relay: TestRelay
    private let container: CKContainer
    private let database: CKDatabase
    private let zoneID = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        container = relay.device(of: "alice@example.org").container
        database = container.privateCloudDatabase
        _ = try await database.save(CKRecordZone(zoneID: zoneID))
    }

    private func note(_ name: String, _ number: Int? = nil) -> CKRecord {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zoneID))
        record["number"] = number
        return record
    }

    // MARK: Blocking a thread

    /// More nested waits than the thread pool has threads.
    private var depth: Int { ProcessInfo.processInfo.activeProcessorCount + 4 }

    /// Whether `descend` succeeds.
    ///
    /// Runs on its own thread, so that a failure does not block other tests.
    private func holds(_ descend: @escaping @Sendable () -> Bool) async -> Bool {
        await withCheckedContinuation { done in
            DispatchQueue(label: "program").async { done.resume(returning: descend()) }
        }
    }

    @Test func aHandlerMayWaitForTheHandlerOfAnotherCall() async throws {
        try await database.save(note("a"))
        let (database, id) = (database, note("a").recordID)
        @Sendable func descend(_ depth: Int) -> Bool {
            let found = Mutex(false)
            let done = DispatchSemaphore(value: 0)
            database.fetch(withRecordID: id) { record, _ in
                found.withLock { $0 = record != nil && (depth == 0 || descend(depth - 1)) }
                done.signal()
            }
            return done.wait(timeout: .now() + 60) == .success && found.withLock { $0 }
        }
        let depth = depth
        #expect(await holds { descend(depth) })
    }

    @Test func anOperationsBlockMayWaitForAnotherOperation() async throws {
        try await database.save(note("a"))
        let (database, id) = (database, note("a").recordID)
        @Sendable func descend(_ depth: Int) -> Bool {
            let found = Mutex(false)
            let done = DispatchSemaphore(value: 0)
            let operation = CKFetchRecordsOperation(recordIDs: [id])
            operation.fetchRecordsCompletionBlock = { records, _ in
                found.withLock { $0 = records?.count == 1 && (depth == 0 || descend(depth - 1)) }
                done.signal()
            }
            database.add(operation)
            return done.wait(timeout: .now() + 60) == .success && found.withLock { $0 }
        }
        let depth = depth
        #expect(await holds { descend(depth) })
    }

    // MARK: Blocks

    private final class Pages: @unchecked Sendable {
        var names: [String] = []
    }

    /// Each operation reuses the blocks of the first, which must exist until the last page.
    @Test func anOperationsBlocksCanBeReusedForAllPages() async throws {
        let notes = (0..<7).map { (number: Int) in note("n\(number)", number) }
        _ = try await database.modifyRecords(saving: notes, deleting: [])
        let pages = Pages()
        weak var first: CKQueryOperation?
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            let operation = CKQueryOperation(query: CKQuery(recordType: "Note", predicate: NSPredicate(value: true)))
            operation.zoneID = zoneID
            operation.resultsLimit = 2
            operation.recordFetchedBlock = { pages.names.append($0.recordID.recordName) }
            operation.queryCompletionBlock = { [database] cursor, _ in
                guard let cursor else { return done.resume() }
                let next = CKQueryOperation(cursor: cursor)
                next.resultsLimit = 2
                next.recordFetchedBlock = operation.recordFetchedBlock
                next.queryCompletionBlock = operation.queryCompletionBlock
                database.add(next)
            }
            first = operation
            database.add(operation)
        }
        #expect(pages.names.sorted() == notes.map(\.recordID.recordName))
        #expect(await isGone { first })
    }

    /// Whether the object is released once the work after an operation's last block is done.
    private func isGone(_ object: () -> AnyObject?) async -> Bool {
        for _ in 0..<1_000_000 {
            if object() == nil { return true }
            await Task.yield()
        }
        return false
    }

    /// Otherwise the objects they reference would stay in memory for the lifetime of the process.
    @Test func operationsReferencedByTheirOwnBlocksAreReleased() async throws {
        try await database.save(note("a"))
        weak var known: CKFetchRecordsOperation?
        weak var forgotten: CKModifyRecordsOperation?
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            let operation = CKFetchRecordsOperation(recordIDs: [note("a").recordID])
            operation.fetchRecordsCompletionBlock = { _, _ in
                #expect(!operation.isCancelled)
                // Created here and never started.
                let other = CKModifyRecordsOperation()
                other.modifyRecordsCompletionBlock = { _, _, _ in }
                forgotten = other
            }
            operation.completionBlock = { if operation.isFinished { done.resume() } }
            known = operation
            database.add(operation)
        }
        #expect(await isGone { known })
        #expect(await isGone { forgotten })
    }

    @Test func aBlockMayCancelItsOperation() async throws {
        let notes = (0..<6).map { (number: Int) in note("n\(number)", number) }
        _ = try await database.modifyRecords(saving: notes, deleting: [])
        final class Seen: @unchecked Sendable {
            var count = 0, tokens = 0
            var ends: [CKError.Code?] = []
            func end<Value>(_ result: Result<Value, Error>) {
                if case .failure(let error) = result {
                    ends.append((error as? CKError)?.code)
                } else {
                    ends.append(nil)
                }
            }
        }
        func run<Kind: CKDatabaseOperation>(_ operation: Kind, _ prepare: (Kind, Seen, @escaping () -> Void) -> Void)
            async -> Seen
        {
            let seen = Seen()
            prepare(operation, seen) {
                seen.count += 1
                if seen.count == 2 { operation.cancel() }
            }
            await withCheckedContinuation { done in
                operation.completionBlock = { done.resume() }
                database.add(operation)
            }
            return seen
        }
        let query = CKQueryOperation(query: CKQuery(recordType: "Note", predicate: NSPredicate(value: true)))
        let found = await run(query) { operation, seen, each in
            operation.recordMatchedBlock = { _, _ in each() }
            operation.queryResultBlock = seen.end
        }
        #expect(found.count == 2 && found.ends == [.operationCancelled])
        let fetch = CKFetchRecordsOperation(recordIDs: notes.map(\.recordID))
        let fetched = await run(fetch) { operation, seen, each in
            operation.perRecordResultBlock = { _, _ in each() }
            operation.fetchRecordsResultBlock = seen.end
        }
        #expect(fetched.count == 2 && fetched.ends == [.operationCancelled])
        // The rest of a page is fetched again, so its token is not reported.
        let changes = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zoneID], configurationsByRecordZoneID: nil)
        let changed = await run(changes) { operation, seen, each in
            operation.recordWasChangedBlock = { _, _ in each() }
            operation.recordZoneChangeTokensUpdatedBlock = { _, _, _ in seen.tokens += 1 }
            operation.recordZoneFetchResultBlock = { seen.end($1) }
            operation.fetchRecordZoneChangesResultBlock = seen.end
        }
        #expect(changed.count == 2 && changed.tokens == 0)
        #expect(changed.ends == [.operationCancelled, .operationCancelled])
        for name in ["One", "Two", "Three"] { _ = try await database.save(CKRecordZone(zoneName: name)) }
        let zones = await run(CKFetchDatabaseChangesOperation(previousServerChangeToken: nil)) {
            operation,
            seen,
            each in
            operation.recordZoneWithIDChangedBlock = { _ in each() }
            operation.changeTokenUpdatedBlock = { _ in seen.tokens += 1 }
            operation.fetchDatabaseChangesResultBlock = seen.end
        }
        #expect(zones.count == 2 && zones.tokens == 0 && zones.ends == [.operationCancelled])
    }

    // MARK: Sorting in memory

    @Test func recordsAreSortedInMemoryByFields() {
        let records = [note("b", 2), note("none"), note("a", 1), note("c", 3)]
        func names(_ descriptors: NSSortDescriptor...) -> [String] {
            let sorted = (records as NSArray).sortedArray(using: descriptors)
            return sorted.compactMap { ($0 as? CKRecord)?.recordID.recordName }
        }
        #expect(names(NSSortDescriptor(key: "number", ascending: true)) == ["none", "a", "b", "c"])
        #expect(names(NSSortDescriptor(key: "number", ascending: false)) == ["c", "b", "a", "none"])
        #expect(names(NSSortDescriptor(key: "recordID", ascending: true)) == ["a", "b", "c", "none"])
        let values: [[String: Any]] = [["number": 2.5], ["number": 1]]
        let sorted = (values as NSArray).sortedArray(using: [NSSortDescriptor(key: "number", ascending: true)])
        #expect(((sorted.first as? [String: Any])?["number"] as? Int) == 1)
    }

    @Test func recordsAreSortedInMemoryByDistance() {
        let here = CLLocation(latitude: 50, longitude: 8)
        let records = [note("nowhere"), note("far"), note("near")]
        records[1]["place"] = CLLocation(latitude: 10, longitude: 8)
        records[2]["place"] = CLLocation(latitude: 51, longitude: 8)
        let nearest = CKLocationSortDescriptor(key: "place", relativeLocation: here)
        let sorted = (records as NSArray).sortedArray(using: [nearest])
        #expect(sorted.compactMap { ($0 as? CKRecord)?.recordID.recordName } == ["near", "far", "nowhere"])
        #expect(nearest.key == "place")
    }

    // MARK: Equality

    @Test func containersAndDatabasesAreEqualByContainerAndUser() {
        let bobs = relay.device(of: "bob@example.org").container
        #expect(CKContainer(identifier: "iCloud.a") == CKContainer(identifier: "iCloud.a"))
        #expect(CKContainer(identifier: "iCloud.a") != CKContainer(identifier: "iCloud.b"))
        #expect(CKContainer.default().privateCloudDatabase == CKContainer.default().privateCloudDatabase)
        #expect(CKContainer.default().privateCloudDatabase != CKContainer.default().sharedCloudDatabase)
        #expect(Set([CKContainer.default(), CKContainer.default()]).count == 1)
        #expect(bobs != container && bobs.privateCloudDatabase != database)
        #expect(bobs.containerIdentifier == container.containerIdentifier)
    }

    // MARK: Related frameworks

    @Test func coordinatesAreValidatedAndNamesFormatted() {
        let point = CLLocationCoordinate2DMake(50, 8)
        #expect(CLLocationCoordinate2DIsValid(point) && !CLLocationCoordinate2DIsValid(kCLLocationCoordinate2DInvalid))
        var name = PersonNameComponents()
        #expect(name.formatted() == "")
        (name.givenName, name.middleName, name.familyName, name.nickname) = ("Ada", "King", "Lovelace", "Addie")
        #expect(name.formatted() == "Ada Lovelace")
        #expect(name.formatted(.name(style: .long)) == "Ada King Lovelace")
        #expect(name.formatted(.name(style: .short)) == "Addie")
        #expect(name.formatted(.name(style: .abbreviated)) == "AL")
    }
}
