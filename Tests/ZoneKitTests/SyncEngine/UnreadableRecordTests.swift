import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Changed records that the relay could not read: a page of the zone's feed contains an error for them.
@Suite(.timeLimit(.minutes(15))) struct UnreadableRecordTests {
    private let relay: TestRelay
    private let laptop: TestDevice
    private let zone = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        laptop = relay.device(of: "alice", named: "laptop")
        let phone = relay.device(of: "alice", named: "phone").privateDatabase
        try await phone.save(CKRecordZone(zoneID: zone))
        let records = ["milk", "bread"].map {
            let record = CKRecord(recordType: "Note", recordID: id($0))
            record["text"] = $0
            return record
        }
        _ = try await phone.modifyRecords(saving: records, deleting: [])
    }

    private func id(_ name: String) -> CKRecord.ID { CKRecord.ID(recordName: name, zoneID: zone) }

    /// Replaces the zone's next page once: it has one record and one error.
    private func spoilNextPage() async throws {
        let page = try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
        let body = """
            {"zones":[{"zoneID":{"zoneName":"Notes"},"syncToken":"\(page.changeToken.encoded)","moreComing":false,\
            "records":[{"recordName":"milk","recordType":"Note","fields":{"text":{"value":"milk"}},"recordChangeTag":"t"},\
            {"recordName":"bread","serverErrorCode":"TRY_AGAIN_LATER","reason":"It cannot be read now.","retryAfter":9}]}]}
            """
        laptop.network.fail(request: 1, of: "changes/zone", by: .answered(status: 200, body: body))
    }

    @Test func theEngineFetchesUnreadableRecordsAgain() async throws {
        let notes = SyncedNotes(laptop)
        try await spoilNextPage()
        let error = await #expect(throws: CKError.self) { try await notes.engine.fetchChanges() }
        let zoneError = error?.partialErrorsByItemID?[zone] as? CKError
        #expect(zoneError?.code == .partialFailure)
        #expect((zoneError?.partialErrorsByItemID?[id("bread")] as? CKError)?.code == .serviceUnavailable)
        // The readable record was delivered, and the other one is not reported as deleted.
        #expect(Set(notes.contents.withLock { $0.texts }.keys) == [id("milk")])
        #expect(notes.engine.state.zoneIDsWithUnfetchedServerChanges == [zone])
        try await notes.engine.fetchChanges()
        #expect(Set(notes.contents.withLock { $0.texts }.keys) == [id("milk"), id("bread")])
        #expect(notes.engine.state.zoneIDsWithUnfetchedServerChanges.isEmpty)
    }

    @Test func anAutomaticEngineFetchesUnreadableRecordsByItself() async throws {
        try await spoilNextPage()
        let notes = SyncedNotes(laptop, isAutomatic: true, relay: relay)
        try await within(.seconds(120), "the record that came") {
            try await notes.signal.until { notes.texts.count == 1 }
        }
        try await within(.seconds(120), "the other one") {
            while notes.texts.count < 2 {
                try Task.checkCancellation()
                await relay.advance(by: .seconds(10))
            }
        }
    }

    @Test func anOperationReportsUnreadableRecordsPerRecordAndAtTheEnd() async throws {
        try await spoilNextPage()
        let operation = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zone])
        let failed = Mutex<[CKRecord.ID]>([])
        let ends = Mutex<[Bool]>([])
        operation.recordWasChangedBlock = { id, result in
            if case .failure = result { failed.withLock { $0.append(id) } }
        }
        operation.recordZoneFetchResultBlock = { _, result in ends.withLock { $0.append((try? result.get()) != nil) } }
        operation.fetchRecordZoneChangesResultBlock = { result in
            ends.withLock { $0.append((try? result.get()) != nil) }
        }
        let error = await withCheckedContinuation { done in
            operation.fetchRecordZoneChangesCompletionBlock = { done.resume(returning: $0 as? CKError) }
            laptop.privateDatabase.add(operation)
        }
        #expect(failed.withLock { $0 } == [id("bread")])
        #expect(error?.code == .partialFailure)
        #expect(error?.partialErrorsByItemID?.keys.map { $0 as? CKRecord.ID } == [id("bread")])
        #expect(ends.withLock { $0 }.first == true)
    }

    /// The operation has no error for a single record, so it must not return a token.
    @Test func theOldestOperationReturnsNoTokenPastUnreadableRecords() async throws {
        try await spoilNextPage()
        let operation = CKFetchRecordChangesOperation(recordZoneID: zone, previousServerChangeToken: nil)
        let (token, error) = await withCheckedContinuation { done in
            operation.fetchRecordChangesCompletionBlock = { token, _, error in
                done.resume(returning: (token, error as? CKError))
            }
            laptop.privateDatabase.add(operation)
        }
        #expect(token == nil && error?.partialErrorsByItemID?[id("bread")] != nil)
    }
}
