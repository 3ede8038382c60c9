import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Rounds that end early, and programs that would keep a round going forever.
@Suite(.timeLimit(.minutes(15))) struct RoundEndTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// An application with custom reactions to events and batch requests.
    private final class Program: CKSyncEngineDelegate {
        typealias Answer = @Sendable (CKSyncEngine.Event, CKSyncEngine) async -> Void
        typealias Batch = @Sendable (CKSyncEngine) async -> CKSyncEngine.RecordZoneChangeBatch?

        let events = Mutex<[String]>([])
        private let answer: Answer
        private let batch: Batch

        init(_ answer: @escaping Answer = { _, _ in }, batch: @escaping Batch = Program.pending) {
            self.answer = answer
            self.batch = batch
        }

        static let pending: Batch = { engine in
            await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: engine.state.pendingRecordZoneChanges) {
                CKRecord(recordType: "Note", recordID: $0)
            }
        }

        func engine(_ database: CKDatabase, isAutomatic: Bool = false) -> CKSyncEngine {
            var configuration = CKSyncEngine.Configuration(
                database: database,
                stateSerialization: nil,
                delegate: self
            )
            configuration.automaticallySync = isAutomatic
            return CKSyncEngine(configuration)
        }

        func count(of kind: String) -> Int { events.withLock { $0.filter { $0.hasPrefix(kind) }.count } }

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            events.withLock { $0.append(event.description) }
            await answer(event, syncEngine)
        }

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? {
            await batch(syncEngine)
        }
    }

    private func phone(of number: Int) async throws -> (database: CKDatabase, records: [CKRecord]) {
        let database = relay.device(of: "alice", named: "phone").privateDatabase
        let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
        let records = (0..<number).map { place in
            CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n\(place)", zoneID: zone))
        }
        return (database, records)
    }

    @Test func theDelegateMayCancelASendBetweenTwoBatches() async throws {
        let (database, records) = try await phone(of: 450)
        let program = Program { event, engine in
            if case .sentRecordZoneChanges = event { await engine.cancelOperations() }
        }
        let engine = program.engine(database)
        engine.state.add(pendingRecordZoneChanges: records.map { .saveRecord($0.recordID) })
        await expect(.operationCancelled) { try await engine.sendChanges() }
        #expect(engine.state.pendingRecordZoneChanges.count == 250)
        #expect(program.count(of: "willSendChanges") == 1 && program.count(of: "didSendChanges") == 1)
        // Only the round was cancelled, not the engine.
        await expect(.operationCancelled) { try await engine.sendChanges() }
        #expect(engine.state.pendingRecordZoneChanges.count == 50)
    }

    @Test func theDelegateMayCancelAFetchBetweenTwoPages() async throws {
        let (database, records) = try await phone(of: 450)
        _ = try await database.modifyRecords(saving: records, deleting: [], atomically: false)
        let program = Program { event, engine in
            if case .fetchedRecordZoneChanges = event { await engine.cancelOperations() }
        }
        let engine = program.engine(relay.device(of: "alice", named: "laptop").privateDatabase)
        await expect(.operationCancelled) { try await engine.fetchChanges() }
        #expect(program.count(of: "fetchedRecordZoneChanges") == 1)
        #expect(program.count(of: "didFetchRecordZoneChanges") == 1 && program.count(of: "didFetchChanges") == 1)
        #expect(engine.state.zoneIDsWithUnfetchedServerChanges.count == 1)
    }

    /// Success would tell the caller that the relay has answered for all pending changes.
    @Test(arguments: [false, true]) func aSendAbandonedForAnotherUserFails(isAboutZones: Bool) async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let (_, records) = try await phone(of: 1)
        let program = Program({ event, engine in
            guard case .willSendChanges = event else { return }
            device.connection.credentials.replace(webAuthToken: "dev-bob")
            Task { try? await engine.fetchChanges() }
            // The engine knows the new user then, and this event is still being delivered.
            while !engine.state.pendingRecordZoneChanges.isEmpty || !engine.state.pendingDatabaseChanges.isEmpty {
                await Task.yield()
            }
        })
        let engine = program.engine(device.privateDatabase)
        try await engine.fetchChanges()
        if isAboutZones {
            engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneName: "Other"))])
        } else {
            engine.state.add(pendingRecordZoneChanges: records.map { .saveRecord($0.recordID) })
        }
        await expect(.accountTemporarilyUnavailable) { try await engine.sendChanges() }
        #expect(program.count(of: "sent") == 0)
    }

    @Test func waitingCallsAreCancelledToo() async throws {
        let (database, records) = try await phone(of: 1)
        let waiting = Mutex<Task<Void, any Error>?>(nil)
        let program = Program { event, engine in
            guard case .willSendChanges = event, waiting.withLock({ $0 == nil }) else { return }
            let second = Task { try await engine.sendChanges() }
            waiting.withLock { $0 = second }
            // Until the second call waits for the first.
            for _ in 0..<100 { await Task.yield() }
            await engine.cancelOperations()
        }
        let engine = program.engine(database)
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(records[0].recordID)])
        await expect(.operationCancelled) { try await engine.sendChanges() }
        #expect(engine.state.pendingRecordZoneChanges.count == 1)
        _ = await waiting.withLock { $0 }?.result
        try await engine.sendChanges()
        #expect(engine.state.pendingRecordZoneChanges.isEmpty)
    }

    /// A view starts a fetch and disappears before it ends, several times.
    @Test func fetchesCancelledByTheProgramDoNotDelayLaterOnes() async throws {
        let (database, records) = try await phone(of: 1)
        let laptop = relay.device(of: "alice", named: "laptop")
        let program = Program()
        let engine = program.engine(laptop.privateDatabase, isAutomatic: true)
        try await relay.settle()
        for _ in 0..<9 {
            let ended = TestNetwork.Fault.meanwhile { await engine.cancelOperations() }
            laptop.network.fail(request: 1, of: "changes/database", by: ended)
            await expect(.operationCancelled) { try await engine.fetchChanges() }
        }
        let began = relay.clock.now
        try await database.save(records[0])
        try await relay.settle()
        #expect(program.count(of: "fetchedRecordZoneChanges") == 1)
        #expect(began.duration(to: relay.clock.now) <= .seconds(1))
    }

    /// An application that supplies the same batch again and again although the relay has stored it.
    @Test func repeatingTheSameBatchEndsTheRound() async throws {
        let (database, records) = try await phone(of: 3)
        let gone = CKRecord.ID(recordName: "gone", zoneID: records[0].recordID.zoneID)
        let asked = Mutex(0)
        let program = Program(batch: { _ in
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            return count > 20 ? nil : .init(recordsToSave: records, recordIDsToDelete: [gone])
        })
        let engine = program.engine(database)
        engine.state.add(pendingRecordZoneChanges: records.map { .saveRecord($0.recordID) })
        try await engine.sendChanges()
        #expect(asked.withLock { $0 } == 2)
        #expect(program.count(of: "sentRecordZoneChanges") == 1)
    }

    /// Calls of a program that has nothing to send when it is asked for a batch.
    ///
    /// None of them changes anything.
    private static let idleCalls: [@Sendable (CKSyncEngine.State) -> Void] = [
        { $0.hasPendingUntrackedChanges = false },
        { $0.remove(pendingRecordZoneChanges: [.saveRecord(CKRecord.ID(recordName: "never"))]) },
        { $0.remove(pendingDatabaseChanges: [.deleteZone(CKRecordZone.ID(zoneName: "Never"))]) },
        { $0.add(pendingRecordZoneChanges: []) },
        { $0.add(pendingDatabaseChanges: []) },
    ]

    @Test(arguments: idleCalls.indices) func aDelegateWithNothingToSendIsNotAskedForever(_ index: Int) async throws {
        let (database, records) = try await phone(of: 1)
        let program = Program(batch: { engine in
            Self.idleCalls[index](engine.state)
            return nil
        })
        let engine = program.engine(database, isAutomatic: true)
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(records[0].recordID)])
        await relay.advance(by: .seconds(30))
        let (rounds, updates) = (program.count(of: "willSendChanges"), program.count(of: "stateUpdate"))
        #expect((1...3).contains(rounds), "asked in \(rounds) rounds")
        await relay.advance(by: .seconds(30))
        #expect(program.count(of: "willSendChanges") == rounds && program.count(of: "stateUpdate") == updates)
        #expect(engine.state.pendingRecordZoneChanges.count == 1)
    }

    /// The same for an application with untracked changes that never clears its flag: it builds the batch from the
    /// saved records, or supplies the saved records themselves.
    @Test(arguments: [false, true]) func repeatingTheSameUntrackedBatchEndsTheRound(isRebuilt: Bool) async throws {
        let (database, records) = try await phone(of: 3)
        let gone = CKRecord.ID(recordName: "gone", zoneID: records[0].recordID.zoneID)
        let asked = Mutex(0)
        let known = Mutex(records)
        let program = Program(
            { event, _ in
                guard case .sentRecordZoneChanges(let sent) = event else { return }
                known.withLock { $0 = sent.savedRecords }
            },
            batch: { _ in
                let count = asked.withLock { asked in
                    asked += 1
                    return asked
                }
                guard count <= 20 else { return nil }
                if isRebuilt { known.withLock { $0 }.forEach { $0["text"] = "the same" } }
                return .init(recordsToSave: known.withLock { $0 }, recordIDsToDelete: [gone])
            }
        )
        let engine = program.engine(database)
        engine.state.hasPendingUntrackedChanges = true
        try await engine.sendChanges()
        #expect(asked.withLock { $0 } <= 4)
        #expect(program.count(of: "sentRecordZoneChanges") <= 3)
        #expect(engine.state.hasPendingUntrackedChanges, "only the application may clear the flag")
    }

    @Test func anUntrackedChangeDuringASendIsSentInTheSameRound() async throws {
        let (database, records) = try await phone(of: 1)
        let texts = Mutex(["one", "two", "three"])
        let program = Program(batch: { engine in
            let text = texts.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            guard let text else {
                engine.state.hasPendingUntrackedChanges = false
                return nil
            }
            records[0]["text"] = text
            return .init(recordsToSave: records)
        })
        let engine = program.engine(database)
        engine.state.hasPendingUntrackedChanges = true
        try await engine.sendChanges()
        #expect(program.count(of: "sentRecordZoneChanges") == 3)
        #expect(try await database.record(for: records[0].recordID)["text"] == "three")
    }

    /// An application that supplies a record with another ID than the requested one.
    @Test func aRecordWithAnotherIDIsSentOnce() async throws {
        let (database, records) = try await phone(of: 2)
        let asked = Mutex(0)
        let program = Program(batch: { engine in
            let count = asked.withLock { asked in
                asked += 1
                return asked
            }
            guard count <= 20 else { return nil }
            return await .init(pendingChanges: engine.state.pendingRecordZoneChanges) { _ in records[1] }
        })
        let engine = program.engine(database)
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(records[0].recordID)])
        try await engine.sendChanges()
        #expect(asked.withLock { $0 } == 2)
        #expect(engine.state.pendingRecordZoneChanges.count == 1)
    }

    @Test func aChangeDuringASendIsSentInTheSameRound() async throws {
        let (database, records) = try await phone(of: 1)
        let isEdited = Mutex(false)
        let program = Program(
            { event, engine in
                guard case .sentRecordZoneChanges = event, isEdited.withLock({ !$0 }) else { return }
                isEdited.withLock { $0 = true }
                records[0]["text"] = "later"
                engine.state.add(pendingRecordZoneChanges: [.saveRecord(records[0].recordID)])
            },
            batch: { engine in
                await .init(pendingChanges: engine.state.pendingRecordZoneChanges) { _ in records[0] }
            }
        )
        let engine = program.engine(database)
        engine.state.add(pendingRecordZoneChanges: [.saveRecord(records[0].recordID)])
        try await engine.sendChanges()
        #expect(program.count(of: "sentRecordZoneChanges") == 2)
        #expect(try await database.record(for: records[0].recordID)["text"] == "later")
    }
}

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
