import CloudKit
import Testing
import ZoneTesting

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
