import CloudKit
import Testing
import ZoneTesting

/// The older program against a relay in process, as far as it needs no container of its own.
@Suite(.timeLimit(.minutes(15))) struct IdiomTests {
    @Test func theOlderProgramSavesAndReportsWhatFailed() async throws {
        let relay = try TestRelay()
        let database = relay.device(of: "alice").privateDatabase
        let record = CKRecord(recordType: "T")
        record["a"] = "x" as CKRecordValue
        record["b"] = 3 as CKRecordValue
        let program = OlderProgram(database)
        let first: Error? = await withCheckedContinuation { done in
            program.mod([record], []) { done.resume(returning: $0) }
        }
        #expect(first == nil)
        let missing = CKRecord(
            recordType: "T",
            recordID: CKRecord.ID(recordName: "a", zoneID: CKRecordZone.ID(zoneName: "Nowhere"))
        )
        let second: Error? = await withCheckedContinuation { done in
            program.mod([missing], []) { done.resume(returning: $0) }
        }
        #expect((second as? CKError)?.code == .partialFailure || (second as? CKError)?.code == .zoneNotFound)
        let read = try await database.record(for: record.recordID)
        #expect(read["b"] as? Int == 3)
    }

    @Test func noticesComeAsTheirOwnKind() {
        let payload: [AnyHashable: Any] = [
            "aps": ["alert": ["title": "T", "body": "B", "loc-key": "K"], "badge": 2],
            "ck": ["cid": "iCloud.x", "nid": "n", "qry": ["dbs": 1, "sid": "s", "rid": "r", "fo": 1]],
        ]
        let notification = CKNotification(fromRemoteNotificationDictionary: payload)
        #expect((notification as? CKQueryNotification)?.queryNotificationReason == .recordCreated)
        #expect(notification?.title == "T" && notification?.alertBody == "B" && notification?.badge == 2)
        #expect(CKDatabaseNotification(fromRemoteNotificationDictionary: payload) == nil)
    }
}
