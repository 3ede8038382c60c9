import CloudKit
import Testing
import ZoneTesting

/// The older program with a relay in this process, as far as it needs no container of its own.
@Suite(.timeLimit(.minutes(15))) struct OlderProgramTests {
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

    /// The pattern of shipping programs: save, and create the zone if the operation as a whole reports that it is
    /// missing.
    @Test("a program that creates its zone only when it is missing gets its records saved")
    func theZoneIsCreatedWhenItIsMissing() async throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let zone = CKRecordZone(zoneName: "Lists")
        let record = CKRecord(recordType: "T", recordID: CKRecord.ID(recordName: "a", zoneID: zone.zoneID))
        func save() async throws {
            try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
                let operation = CKModifyRecordsOperation(recordsToSave: [record], recordIDsToDelete: nil)
                operation.modifyRecordsResultBlock = { done.resume(with: $0) }
                database.add(operation)
            }
        }
        do {
            try await save()
            Issue.record("the zone does not exist")
        } catch let error as CKError where error.code == .partialFailure {
            let codes = error.partialErrorsByItemID?.values.compactMap { ($0 as? CKError)?.code } ?? []
            guard codes.contains(.zoneNotFound) || codes.contains(.userDeletedZone) else { throw error }
            try await database.save(zone)
            try await save()
        }
        #expect(try await database.record(for: record.recordID).recordChangeTag != nil)
    }

    @Test func notificationsHaveTheClassOfTheirKind() {
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

/// API of CloudKit's first two years under its former names.
///
/// The protocol avoids deprecation warnings at the call sites.
private protocol OldestWords {
    func subscriptions(to zone: CKRecordZone.ID) -> [CKSubscription]
    func isPublic(_ notification: CKQueryNotification) -> Bool
}

private struct OldestProgram: OldestWords {
    @available(*, deprecated)
    func subscriptions(to zone: CKRecordZone.ID) -> [CKSubscription] {
        let options: CKSubscriptionOptions = [.firesOnRecordCreation, .firesOnRecordUpdate]
        let all = NSPredicate(value: true)
        return [
            CKSubscription(recordType: "Note", predicate: all, options: options),
            CKSubscription(recordType: "Note", predicate: all, subscriptionID: "s", options: .firesOnRecordDeletion),
            CKSubscription(zoneID: zone, options: []), CKSubscription(zoneID: zone, subscriptionID: "z", options: []),
        ]
    }

    @available(*, deprecated)
    func isPublic(_ notification: CKQueryNotification) -> Bool { notification.isPublicDatabase }
}

@Suite(.timeLimit(.minutes(15))) struct OldestProgramTests {
    private let program: OldestWords = OldestProgram()

    @Test func subscriptionsOfTheOldestAPIAreStored() async throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let zone = try await database.save(CKRecordZone(zoneName: "Notes")).zoneID
        let made = program.subscriptions(to: zone)
        #expect(made.map(\.subscriptionType) == [.query, .query, .recordZone, .recordZone])
        #expect((made[0] as? CKQuerySubscription)?.querySubscriptionOptions.contains(.firesOnRecordUpdate) == true)
        #expect(made[1].subscriptionID == "s" && (made[3] as? CKRecordZoneSubscription)?.zoneID == zone)
        _ = try await database.modifySubscriptions(saving: made, deleting: [])
        #expect(try await Set(database.allSubscriptions().map(\.subscriptionID)) == Set(made.map(\.subscriptionID)))
    }

    @Test(arguments: [(1, true), (2, false), (3, false)])
    func aNotificationTellsWhetherItIsFromThePublicDatabase(_ scope: Int, _ isPublic: Bool) throws {
        let payload: [AnyHashable: Any] = ["ck": ["qry": ["dbs": scope, "rid": "r"]]]
        let notification = try #require(CKQueryNotification(fromRemoteNotificationDictionary: payload))
        #expect(program.isPublic(notification) == isPublic)
    }
}
