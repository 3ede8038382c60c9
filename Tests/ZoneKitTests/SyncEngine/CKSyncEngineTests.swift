import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// The engine without automatic sync, with a complete relay in this process.
@Suite(.timeLimit(.minutes(15))) struct CKSyncEngineTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func notes(_ device: String = "phone", restoresZones: Bool = false) -> SyncedNotes {
        SyncedNotes(relay.device(of: "alice", named: device), restoresZones: restoresZones)
    }

    @Test func oneDeviceFetchesWhatTheOtherSends() async throws {
        let phone = notes()
        let laptop = notes("laptop")
        phone.addZone()
        phone.write("milk", "Buy milk")
        try await phone.engine.sendChanges()
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(phone.engine.state.pendingDatabaseChanges.isEmpty)
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "Buy milk"])
        phone.delete("milk")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts.isEmpty)
    }

    @Test func eventsHaveApplesOrder() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "Buy milk")
        try await phone.engine.sendChanges()
        #expect(phone.log.first?.hasPrefix("accountChange(signIn") == true)
        #expect(
            phone.log.dropFirst() == [
                "willSendChanges", "sentDatabaseChanges(1 saved, 0 failed, 0 deleted, 0 failed)",
                "sentRecordZoneChanges(1 saved, 0 failed, 0 deleted, 0 failed)", "didSendChanges",
            ]
        )
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(
            laptop.log.dropFirst() == [
                "willFetchChanges", "fetchedDatabaseChanges(1 changed, 0 deleted)", "willFetchRecordZoneChanges(Notes)",
                "fetchedRecordZoneChanges(1 changed, 0 deleted)", "didFetchRecordZoneChanges(Notes)", "didFetchChanges",
            ]
        )
        #expect(laptop.contents.withLock { $0.overlaps } == 0)
        #expect(laptop.contents.withLock { $0.asked.map(\.reason) } == [.manual])
    }

    @Test func oneSendSplits444RecordsIntoRequests() async throws {
        let phone = notes()
        let laptop = notes("laptop")
        phone.addZone()
        for number in 0..<444 { phone.write("n\(number)", "text \(number)") }
        try await phone.engine.sendChanges()
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(phone.device.network.operations.filter { $0.hasSuffix("records/modify") }.count == 3)
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == phone.texts)
        #expect(laptop.texts.count == 444)
    }

    /// Supplies one batch of the application's own.
    private final class OwnBatch: CKSyncEngineDelegate {
        let batch: Mutex<CKSyncEngine.RecordZoneChangeBatch?>
        let sent = Mutex<[CKSyncEngine.Event.SentRecordZoneChanges]>([])

        init(_ batch: CKSyncEngine.RecordZoneChangeBatch) { self.batch = Mutex(batch) }

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            if case .sentRecordZoneChanges(let changes) = event { sent.withLock { $0.append(changes) } }
        }

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? {
            batch.withLock { $0.take() }
        }
    }

    @Test func anAtomicBatchOf300ChangesFailsAsAWhole() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        let zone = try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes")).zoneID
        func record(_ number: Int) -> CKRecord {
            CKRecord(recordType: "Note", recordID: .init(recordName: "n\(number)", zoneID: zone))
        }
        let taken = record(299)
        try await phone.privateDatabase.save(taken)

        let delegate = OwnBatch(.init(recordsToSave: (0..<300).map(record), atomicByZone: true))
        var configuration = CKSyncEngine.Configuration(
            database: phone.privateDatabase,
            stateSerialization: nil,
            delegate: delegate
        )
        configuration.automaticallySync = false
        let engine = CKSyncEngine(configuration)
        engine.state.add(pendingRecordZoneChanges: (0..<300).map { .saveRecord(record($0).recordID) })
        await #expect(throws: (any Error).self) { try await engine.sendChanges() }
        let sent = try #require(delegate.sent.withLock { $0.first })
        #expect(sent.savedRecords.isEmpty && sent.failedRecordSaves.count == 300)
        let conflicting = sent.failedRecordSaves.filter { $0.error.code != .batchRequestFailed }
        #expect(conflicting.map(\.record.recordID) == [taken.recordID])
    }

    /// Sends a batch of the application's own and returns the sent event and the number of changes still pending.
    private func send(
        _ batch: CKSyncEngine.RecordZoneChangeBatch,
        from device: TestDevice
    ) async throws -> (sent: CKSyncEngine.Event.SentRecordZoneChanges, pending: Int) {
        let delegate = OwnBatch(batch)
        var configuration = CKSyncEngine.Configuration(
            database: device.privateDatabase,
            stateSerialization: nil,
            delegate: delegate
        )
        configuration.automaticallySync = false
        let engine = CKSyncEngine(configuration)
        engine.state.add(pendingRecordZoneChanges: batch.recordsToSave.map { .saveRecord($0.recordID) })
        try? await engine.sendChanges()
        let sent = try #require(delegate.sent.withLock { $0.first })
        return (sent, engine.state.pendingRecordZoneChanges.count)
    }

    /// The application may list the records in any order: if they need several requests, the parent is in the first.
    @Test func aLargeBatchSendsParentsBeforeTheirChildren() async throws {
        let phone = relay.device(of: "alice", named: "phone")
        let zone = try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes")).zoneID
        func record(_ name: String) -> CKRecord {
            CKRecord(recordType: "Note", recordID: .init(recordName: name, zoneID: zone))
        }
        let parent = record("parent")
        let share = CKShare(rootRecord: parent)
        let children = (0..<250).map { number in
            let child = record("n\(number)")
            child.setParent(parent)
            return child
        }
        let batch = CKSyncEngine.RecordZoneChangeBatch(
            recordsToSave: [share] + children + [parent],
            atomicByZone: false
        )
        let (sent, pending) = try await send(batch, from: phone)
        #expect(sent.failedRecordSaves.isEmpty, "\(sent.failedRecordSaves.first?.error as Any)")
        #expect(sent.savedRecords.count == 252 && pending == 0)
        #expect(phone.network.operations.filter { $0.hasSuffix("records/modify") }.count == 2)
    }

    @Test func theDefaultZoneIsNeverReportedAsDeleted() async throws {
        let phone = SyncedNotes(relay.device(of: "alice", named: "phone"), zone: CKRecordZone.ID.defaultZoneName)
        phone.write("milk", "Buy milk")
        try await phone.engine.sendChanges()
        try await phone.engine.fetchChanges()
        #expect(!phone.log.contains { $0.hasPrefix("fetchedDatabaseChanges") }, "\(phone.log)")
        #expect(phone.texts == ["milk": "Buy milk"])
    }

    @Test func aSecondEditDuringTheSendStaysPending() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "one")
        phone.contents.withLock { $0.beforeNextRecord = { $0.write("milk", "two") } }
        let sent = phone.engine
        try await sent.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "two"], "the second version went out in the same call, with its own batch")
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
    }

    @Test func aZoneDeletedElsewhereFailsOnceThenSucceeds() async throws {
        let phone = notes(restoresZones: true)
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        laptop.engine.state.add(pendingDatabaseChanges: [.deleteZone(laptop.zone)])
        try await laptop.engine.sendChanges()
        phone.write("bread", "two")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        try await phone.engine.sendChanges()
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["bread": "two"])
    }

    @Test func aConflictCarriesTheServersRecordAndCanBeMerged() async throws {
        let phone = notes()
        let laptop = notes("laptop")
        phone.addZone()
        phone.write("milk", "base")
        try await phone.engine.sendChanges()
        try await laptop.engine.fetchChanges()
        phone.write("milk", "from the phone")
        try await phone.engine.sendChanges()
        laptop.write("milk", "from the laptop")
        let error = await #expect(throws: CKError.self) { try await laptop.engine.sendChanges() }
        #expect(error?.code == .partialFailure)
        let inner = error?.partialErrorsByItemID?[laptop.id("milk")] as? CKError
        #expect(inner?.code == .serverRecordChanged)
        #expect(inner?.serverRecord?["text"] == "from the phone")
        try await laptop.engine.sendChanges()
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["milk": "from the laptop"])
    }

    @Test func networkFailuresKeepTheChangeAndDuplicateNothing() async throws {
        let phone = notes()
        phone.addZone()
        try await phone.engine.sendChanges()
        phone.write("milk", "one")
        phone.device.network.fail(.unreachable)
        let error = await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        #expect(error?.code == .networkFailure)
        #expect(phone.engine.state.pendingRecordZoneChanges == [.saveRecord(phone.id("milk"))])
        phone.device.network.fail(.losesAnswer)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        // The relay has stored the write and recognizes it when it is sent again.
        try await phone.engine.sendChanges()
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "one"])
    }

    /// The answer says nothing about the pending changes, so they stay.
    @Test(arguments: [(404, "<html>No backend</html>"), (200, "<html>Hotel</html>"), (500, "")])
    func anUnrelatedAnswerKeepsPendingChanges(_ answer: (status: Int, body: String)) async throws {
        let phone = notes()
        let broken = TestNetwork.Fault.answered(status: answer.status, body: answer.body)
        try await phone.engine.fetchChanges()
        phone.addZone()
        phone.device.network.fail(request: 1, of: "zones/modify", by: broken)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        #expect(phone.engine.state.pendingDatabaseChanges.count == 1)
        try await phone.engine.sendChanges()
        phone.write("milk", "one")
        phone.device.network.fail(request: 1, of: "records/modify", by: broken)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        #expect(phone.engine.state.pendingRecordZoneChanges == [.saveRecord(phone.id("milk"))])
        try await phone.engine.sendChanges()
        #expect(phone.engine.state.pendingRecordZoneChanges.isEmpty)
    }

    @Test func theStateKeepsPendingChangesOverARestart() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        phone.device.network.cut()
        phone.write("bread", "two")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        let kept = try JSONEncoder().encode(try #require(phone.saved))
        let state = try JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: kept)
        phone.device.network.heal()
        let texts = phone.contents.withLock { $0.texts }
        let relaunched = SyncedNotes(phone.device, from: state, texts: texts)
        #expect(relaunched.engine.state.pendingRecordZoneChanges == [.saveRecord(relaunched.id("bread"))])
        try await relaunched.engine.sendChanges()
        #expect(!relaunched.log.contains { $0.hasPrefix("accountChange") }, "the same user as before")
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "one", "bread": "two"])
    }

    @Test func anotherUserStartsWithNothingPending() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "alice's")
        try await phone.engine.fetchChanges()
        let state = try #require(phone.saved)
        let bob = SyncedNotes(relay.device(of: "bob"), from: state, texts: phone.contents.withLock { $0.texts })
        try await bob.engine.sendChanges()
        #expect(bob.log.first?.hasPrefix("accountChange(switchAccounts") == true)
        #expect(bob.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(!bob.device.network.operations.contains { $0.hasSuffix("records/modify") })
    }

    @Test func scopesLimitWhatIsSentAndFetched() async throws {
        let phone = notes()
        let other = CKRecordZone.ID(zoneName: "Work")
        phone.addZone()
        phone.engine.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: other))])
        phone.write("milk", "one")
        try await phone.engine.sendChanges(.init(scope: .zoneIDs([other])))
        #expect(phone.engine.state.pendingRecordZoneChanges.count == 1)
        #expect(phone.engine.state.pendingDatabaseChanges.map(\.zoneID) == [phone.zone])
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges(.init(scope: .allExcluding([laptop.zone])))
        #expect(laptop.texts.isEmpty)
        #expect(laptop.engine.state.zoneIDsWithUnfetchedServerChanges == [laptop.zone])
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "one"])
        #expect(laptop.engine.state.zoneIDsWithUnfetchedServerChanges.isEmpty)
    }

    /// The zones whose fetch ended, with their error codes.
    private func endedZones(_ notes: SyncedNotes) -> [String: CKError.Code?] {
        let ends = notes.contents.withLock { $0.events }.compactMap { event -> (String, CKError.Code?)? in
            if case .didFetchRecordZoneChanges(let end) = event { (end.zoneID.zoneName, end.error?.code) } else { nil }
        }
        return Dictionary(ends) { $1 }
    }

    @Test("a fetch reports the error of a zone in its scope that never existed or was deleted")
    func aScopeMayNameAMissingZone() async throws {
        let phone = notes()
        let missing = CKRecordZone.ID(zoneName: "Missing")
        try await phone.engine.fetchChanges(.init(scope: .zoneIDs([missing])))
        #expect(endedZones(phone) == ["Missing": .zoneNotFound])
        #expect(
            phone.log.suffix(4) == [
                "willFetchChanges", "willFetchRecordZoneChanges(Missing)", "didFetchRecordZoneChanges(Missing)",
                "didFetchChanges",
            ],
            "\(phone.log)"
        )

        // Next to an existing zone, and after that zone is deleted.
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges(.init(scope: .zoneIDs([missing, laptop.zone])))
        #expect(endedZones(laptop) == ["Missing": .zoneNotFound, "Notes": nil])
        #expect(laptop.texts == ["milk": "one"])
        _ = try await phone.device.privateDatabase.deleteRecordZone(withID: phone.zone)
        try await laptop.engine.fetchChanges(.init(scope: .zoneIDs([laptop.zone])))
        #expect(endedZones(laptop)["Notes"] == .zoneNotFound)
        #expect(laptop.texts.isEmpty)
        let count = laptop.log.count
        try await laptop.engine.fetchChanges()
        #expect(laptop.log.count == count + 2, "no zone must be reported now: \(laptop.log)")

        // A zone that is later created under that name is not reported as deleted.
        try await phone.device.privateDatabase.save(CKRecordZone(zoneID: missing))
        try await laptop.engine.fetchChanges()
        let losses = laptop.contents.withLock { $0.events }.flatMap { event -> [String] in
            if case .fetchedDatabaseChanges(let changes) = event {
                changes.deletions.map(\.zoneID.zoneName)
            } else {
                []
            }
        }
        #expect(endedZones(laptop)["Missing"] == .some(nil) && !losses.contains("Missing"))
    }

    @Test func aBusyZoneDoesNotDelayOthersOfTheRound() async throws {
        let phone = notes()
        phone.addZone()
        for number in 0..<250 { phone.write("n\(number)", "text") }
        let other = CKRecord.ID(recordName: "other", zoneID: CKRecordZone.ID(zoneName: "Other"))
        phone.write("text", as: other)
        phone.device.network.fail(request: 1, of: "records/modify", by: SyncedNotes.busyZone)
        await expect(.partialFailure) { try await phone.engine.sendChanges() }
        let pending = phone.engine.state.pendingRecordZoneChanges
        #expect(pending.count == 250 && !pending.contains(.saveRecord(other)))
        #expect(phone.device.network.operations.filter { $0.hasSuffix("records/modify") }.count == 2)
    }

    @Test func aDeletionFollowedByASaveIsASave() async throws {
        let phone = notes()
        phone.addZone()
        phone.write("milk", "one")
        try await phone.engine.sendChanges()
        phone.delete("milk")
        phone.write("milk", "again")
        #expect(phone.engine.state.pendingRecordZoneChanges == [.saveRecord(phone.id("milk"))])
        try await phone.engine.sendChanges()
        let laptop = notes("laptop")
        try await laptop.engine.fetchChanges()
        #expect(laptop.texts == ["milk": "again"])
    }

    @Test func twoEnginesOfOneAccountInOneProcessConverge() async throws {
        let device = relay.device(of: "alice", named: "mac")
        let first = SyncedNotes(device)
        let second = SyncedNotes(device)
        first.addZone()
        first.write("a", "1")
        try await first.engine.sendChanges()
        second.write("b", "2")
        try await second.engine.sendChanges()
        try await first.engine.fetchChanges()
        try await second.engine.fetchChanges()
        #expect(first.texts == ["a": "1", "b": "2"])
        #expect(second.texts == first.texts)
    }
}
