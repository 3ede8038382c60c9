import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Blocks that exist in an older and a newer form: as in CloudKit, the older one is called only if the newer is not
/// set.
@Suite(.timeLimit(.minutes(15))) struct OlderBlockTests {
    let relay: TestRelay
    let container: CKContainer
    var database: CKDatabase { container.privateCloudDatabase }
    let zoneID = CKRecordZone.ID(zoneName: "Notes")
    private let calls = CallLog()

    private final class CallLog: Sendable {
        private let entries = Mutex<[String]>([])
        func append(_ entry: String) { entries.withLock { $0.append(entry) } }
        func takeAll() -> [String] {
            entries.withLock { entries in
                defer { entries = [] }
                return entries
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
        return calls.takeAll()
    }

    @Test(arguments: [false, true]) func saveBlocks(both: Bool) async {
        let operation = CKModifyRecordsOperation(recordsToSave: [note()])
        operation.perRecordCompletionBlock = { [calls] _, _ in calls.append("older") }
        if both { operation.perRecordSaveBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func queryBlocks(both: Bool) async throws {
        try await database.save(note())
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let operation = CKQueryOperation(query: query)
        operation.recordFetchedBlock = { [calls] _ in calls.append("older") }
        if both { operation.recordMatchedBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func participantBlocks(both: Bool) async throws {
        let bob = try await relay.device(of: "bob").container.userRecordID()
        let operation = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [.init(userRecordID: bob)])
        operation.shareParticipantFetchedBlock = { [calls] _ in calls.append("older") }
        if both { operation.perShareParticipantResultBlock = { [calls] _, _ in calls.append("newer") } }
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            container.add(operation)
        }
        #expect(calls.takeAll() == [both ? "newer" : "older"])
    }

    @Test(arguments: [false, true]) func changeBlocks(both: Bool) async throws {
        try await database.save(note())
        let operation = CKFetchRecordZoneChangesOperation(recordZoneIDs: [zoneID], configurationsByRecordZoneID: nil)
        operation.recordChangedBlock = { [calls] _ in calls.append("older") }
        if both { operation.recordWasChangedBlock = { [calls] _, _ in calls.append("newer") } }
        #expect(await run(operation) == [both ? "newer" : "older"])
    }
}
