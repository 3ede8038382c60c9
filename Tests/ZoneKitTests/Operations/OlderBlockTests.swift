import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Blocks of which there is an older and a newer form: as in CloudKit the older one is called where it stands alone.
@Suite(.timeLimit(.minutes(15))) struct OlderBlockTests {
    let relay: TestRelay
    let container: CKContainer
    var database: CKDatabase { container.privateCloudDatabase }
    let zoneID = CKRecordZone.ID(zoneName: "Notes")
    private let heard = Heard()

    private final class Heard: Sendable {
        private let words = Mutex<[String]>([])
        func hear(_ word: String) { words.withLock { $0.append(word) } }
        func take() -> [String] {
            words.withLock { words in
                defer { words = [] }
                return words
            }
        }
    }

    init() async throws {
        relay = try TestRelay()
        container = relay.device(of: "alice").container
        try await database.save(CKRecordZone(zoneID: zoneID))
    }

    private func note() -> CKRecord {
        CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "a", zoneID: zoneID))
    }

    private func run(_ operation: CKDatabaseOperation) async -> [String] {
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            database.add(operation)
        }
        return heard.take()
    }

    @Test(arguments: [false, true]) func ofSaves(both: Bool) async {
        let operation = CKModifyRecordsOperation(recordsToSave: [note()])
        operation.perRecordCompletionBlock = { [heard] _, _ in heard.hear("older") }
        if both { operation.perRecordSaveBlock = { [heard] _, _ in heard.hear("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func ofQueries(both: Bool) async throws {
        try await database.save(note())
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let operation = CKQueryOperation(query: query)
        operation.recordFetchedBlock = { [heard] _ in heard.hear("older") }
        if both { operation.recordMatchedBlock = { [heard] _, _ in heard.hear("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func ofParticipants(both: Bool) async throws {
        let bob = try await relay.device(of: "bob").container.userRecordID()
        let operation = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [.init(userRecordID: bob)])
        operation.shareParticipantFetchedBlock = { [heard] _ in heard.hear("older") }
        if both { operation.perShareParticipantResultBlock = { [heard] _, _ in heard.hear("newer") } }
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            container.add(operation)
        }
        #expect(heard.take() == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func ofChanges(both: Bool) async throws {
        try await database.save(note())
        let operation = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zoneID], configurationsByRecordZoneID: nil)
        operation.recordChangedBlock = { [heard] _ in heard.hear("older") }
        if both { operation.recordWasChangedBlock = { [heard] _, _ in heard.hear("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }
}
